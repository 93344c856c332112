use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use http::Method;
use serde_json::Value;
use warpio_core::{Error, ErrorKind};

use super::backend::Backend;
use crate::failure::Failure;
use crate::http::{Client, HttpUrl, Reply, Request};
use crate::origin::{HdfsUrl, answer, file_status, remote_exception};
use crate::retry::Outlook;

/// A new file of HDFS: written under another name beside it, and renamed when it is whole.
#[derive(Debug)]
pub(crate) struct HdfsBackend {
    client: Client,
    url: HdfsUrl,
    temporary: HdfsUrl,
    name: String,
    create_only: bool,
    statuses: Vec<u16>,
    /// The whole file was there, and was to be renamed.
    renaming: AtomicBool,
}

impl HdfsBackend {
    pub(crate) fn new(client: Client, url: HdfsUrl, create_only: bool, statuses: Vec<u16>) -> Self {
        let path = url.path();
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", &path));
        // Names that begin with a dot are passed over by what reads whole folders.
        let temporary = url.with_path(&format!("{folder}/.{file}.{:016x}.warpio", fastrand::u64(..)));
        let name = url.name();
        Self { client, url, temporary, name, create_only, statuses, renaming: AtomicBool::new(false) }
    }

    /// The name node tells where the bytes go, and a data node takes them.
    async fn send(&self, method: Method, url: HttpUrl, bytes: Bytes) -> Result<(), Failure> {
        let ask = self.client.send(&Request::new(method.clone(), url.clone())).await?;
        let status = ask.head.status.as_u16();
        let location = ask.head.headers.get(http::header::LOCATION).and_then(|value| value.to_str().ok());
        let target = match (status, location.and_then(|location| url.join(location))) {
            (307, Some(target)) if url.tls && !target.tls => {
                let message = "the name node sends from https:// to http://, where everybody can listen";
                return Err(Failure::last(Error::new(ErrorKind::Integrity).with_message(message)));
            }
            (307, Some(target)) => target,
            _ => return Err(remote_exception(ask, &self.statuses).await),
        };
        ask.body.error_text(4 << 10).await;
        let mut request = Request::new(method, target);
        request.headers.insert(http::header::CONTENT_TYPE, octets());
        request.body = vec![bytes];
        self.done(self.client.send(&request).await?).await
    }

    async fn done(&self, reply: Reply) -> Result<(), Failure> {
        match reply.head.status.is_success() {
            true => {
                reply.body.error_text(4 << 10).await;
                Ok(())
            }
            false => Err(remote_exception(reply, &self.statuses).await),
        }
    }

    async fn ask(&self, method: Method, url: HttpUrl) -> Result<Value, Failure> {
        answer(self.client.send(&Request::new(method, url)).await?, &self.statuses).await
    }

    async fn len_of(&self, url: &HdfsUrl) -> Result<u64, Failure> {
        Ok(file_status(&self.client, url, &self.statuses).await?.len)
    }

    async fn rename(&self) -> Result<(), Failure> {
        let destination = ("destination", self.url.path());
        if self.create_only {
            let url = self.temporary.operation("RENAME", &[destination]);
            let renamed = self.ask(Method::PUT, url).await?;
            return match renamed.get("boolean").and_then(Value::as_bool) {
                Some(true) => Ok(()),
                _ => {
                    let message = "there is a file of this name already";
                    Err(Failure::last(Error::new(ErrorKind::AlreadyExists).with_message(message)))
                }
            };
        }
        let options = ("renameoptions", "OVERWRITE".to_owned());
        let url = self.temporary.operation("RENAME", &[destination, options]);
        self.done(self.client.send(&Request::new(Method::PUT, url)).await?).await
    }

    /// What a second try finds where the first has renamed the file, and only the reply was lost: it has its name. (The
    /// client itself may have sent the request again, over another connection.)
    async fn was_renamed(&self, failure: Failure, len: u64) -> Result<(), Failure> {
        let missing = match self.len_of(&self.temporary).await {
            Err(gone) if gone.error.kind() == ErrorKind::NotFound => true,
            Err(again) if again.outlook != Outlook::Final => return Err(again),
            _ => false,
        };
        match self.len_of(&self.url).await {
            Ok(there) if missing && there == len => Ok(()),
            Err(again) if again.outlook != Outlook::Final => Err(again),
            _ => Err(failure),
        }
    }
}

fn octets() -> http::HeaderValue {
    http::HeaderValue::from_static("application/octet-stream")
}

#[async_trait]
impl Backend for HdfsBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "webhdfs"
    }

    /// A file of HDFS is only ever written on at its end.
    fn is_parallel(&self) -> bool {
        false
    }

    async fn begin(&self) -> Result<(), Failure> {
        let url = self.temporary.operation("CREATE", &[("overwrite", "true".to_owned())]);
        self.send(Method::PUT, url, Bytes::new()).await
    }

    async fn put_part(&self, _index: usize, offset: u64, bytes: Bytes) -> Result<(), Failure> {
        // A repetition must not write what is there twice.
        let (len, end) = (self.len_of(&self.temporary).await?, offset + bytes.len() as u64);
        match len {
            _ if len == offset => self.send(Method::POST, self.temporary.operation("APPEND", &[]), bytes).await,
            _ if len == end => Ok(()),
            _ => {
                let message = format!("the file should have {offset} bytes by now, but has {len}");
                Err(Failure::last(Error::new(ErrorKind::Integrity).with_message(message)))
            }
        }
    }

    async fn complete(&self, _parts: usize, len: u64) -> Result<(), Failure> {
        if !self.renaming.load(Ordering::Relaxed) {
            // A try at the last part that was given up may have been carried out all the same, beside the one that
            // counted.
            let there = self.len_of(&self.temporary).await?;
            if there != len {
                let message = format!("the file should have {len} bytes, but has {there}");
                return Err(Failure::last(Error::new(ErrorKind::Integrity).with_message(message)));
            }
            self.renaming.store(true, Ordering::Relaxed);
        }
        match self.rename().await {
            Err(failure) if matches!(failure.error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {
                self.was_renamed(failure, len).await
            }
            result => result,
        }
    }

    async fn put_whole(&self, bytes: Bytes) -> Result<(), Failure> {
        let len = bytes.len() as u64;
        // Once it may have been renamed, it is not written anew.
        if !self.renaming.load(Ordering::Relaxed) {
            let url = self.temporary.operation("CREATE", &[("overwrite", "true".to_owned())]);
            self.send(Method::PUT, url, bytes).await?;
        }
        self.complete(1, len).await
    }

    async fn abort(&self) -> Result<(), Failure> {
        let url = self.temporary.operation("DELETE", &[]);
        self.ask(Method::DELETE, url).await.map(drop)
    }
}

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::Value;
use tokio::sync::mpsc;
use warpio_core::{Error, Result, redact};

use crate::context::RemoteContext;
use crate::entry::{Entry, Listing};
use crate::failure::Failure;
use crate::http::{Client, Request};
use crate::kind::{Kind, Target};
use crate::origin::{FileStatus, HdfsUrl, WebHdfsOrigin, answer, file_status};
use crate::read::Remote;
use crate::write::{HdfsBackend, RemoteSink};

/// HDFS, by its REST interface.
#[derive(Debug)]
pub struct WebHdfs;

impl WebHdfs {
    /// A file at a `webhdfs://`, `swebhdfs://` or `http(s)://host:port/webhdfs/v1/…` URL.
    ///
    /// # Errors
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for what is none.
    pub fn builder(url: &str) -> Result<WebHdfsBuilder> {
        match Target::parse(url) {
            Some(Ok(Target::Http { kind: Kind::WebHdfs, url })) => Ok(WebHdfsBuilder { url: HdfsUrl::new(&url) }),
            Some(Err(error)) => Err(error),
            _ => Err(Error::invalid_input(format!("{} is no URL of WebHDFS", redact(url)))),
        }
    }
}

/// What is said about a file of HDFS.
#[derive(Clone)]
#[must_use = "it is a description; open() makes something of it"]
pub struct WebHdfsBuilder {
    pub(crate) url: HdfsUrl,
}

impl WebHdfsBuilder {
    /// The user to be taken for, where the cluster believes everybody.
    pub fn user(mut self, name: impl Into<String>) -> Self {
        self.url.user = Some(name.into());
        self
    }

    /// A token that the cluster has given out, to be let in by.
    pub fn delegation_token(mut self, token: impl Into<String>) -> Self {
        self.url.token = Some(token.into());
        self
    }

    /// Opens the file and asks whether it is there.
    ///
    /// # Errors
    /// [`NotFound`](warpio_core::ErrorKind::NotFound); [`PermissionDenied`](warpio_core::ErrorKind::PermissionDenied),
    /// which names Kerberos where that is asked for; [`Unavailable`](warpio_core::ErrorKind::Unavailable);
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a directory.
    pub async fn open(&self, context: &RemoteContext) -> Result<Remote> {
        let source = self.source(context)?;
        source.look_up().await?;
        Ok(source)
    }

    /// As [`open`](Self::open), but asks for nothing yet.
    ///
    /// # Errors
    /// [`ResourceLimit`](warpio_core::ErrorKind::ResourceLimit) when no network thread can be started.
    pub fn source(&self, context: &RemoteContext) -> Result<Remote> {
        let statuses = context.settings().statuses.clone();
        context.remote(Arc::new(WebHdfsOrigin::new(context.client()?, self.url.clone(), statuses)), None)
    }

    /// Begins a file that shows when it is [finished](warpio_core::AsyncDeviceWrite::finish), in the place of one that is
    /// there. Until then it has another name.
    ///
    /// # Errors
    /// [`ResourceLimit`](warpio_core::ErrorKind::ResourceLimit) when no network thread can be started.
    pub fn create(&self, context: &RemoteContext) -> Result<RemoteSink> {
        self.sink(context, false)
    }

    /// As [`create`](Self::create), but where there is a file of this name when it is finished, that stays, and finishing
    /// fails as [`AlreadyExists`](warpio_core::ErrorKind::AlreadyExists).
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn create_new(&self, context: &RemoteContext) -> Result<RemoteSink> {
        self.sink(context, true)
    }

    fn sink(&self, context: &RemoteContext, create_only: bool) -> Result<RemoteSink> {
        let statuses = context.settings().statuses.clone();
        let backend = HdfsBackend::new(context.client()?, self.url.clone(), create_only, statuses);
        context.sink(Box::new(backend), &self.url.server())
    }

    /// What the cluster says about the file.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn stat(&self, context: &RemoteContext) -> Result<Entry> {
        let url = self.url.clone();
        let status = self.ask(context, move |client, statuses| {
            let url = url.clone();
            async move { file_status(&client, &url, &statuses).await }
        });
        let status = status.await.map_err(|error| self.named(error, "stat"))?;
        let mut entry = Entry::new(self.url.path(), status.len);
        entry.modified = Some(SystemTime::UNIX_EPOCH + Duration::from_millis(status.modified));
        Ok(entry)
    }

    /// Deletes the file, or a folder that is empty.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn delete(&self, context: &RemoteContext) -> Result<()> {
        let url = self.url.operation("DELETE", &[]);
        let deleted = self.ask(context, move |client, statuses| {
            let request = Request::new(Method::DELETE, url.clone());
            async move { answer(client.send(&request).await?, &statuses).await }
        });
        deleted.await.map(drop).map_err(|error| self.named(error, "delete"))
    }

    /// The files in a folder and in those below it.
    ///
    /// # Errors
    /// [`ResourceLimit`](warpio_core::ErrorKind::ResourceLimit) when no network thread can be started; others come out
    /// of the listing.
    pub fn list(&self, context: &RemoteContext) -> Result<Listing> {
        let (entries, listing) = mpsc::channel(1000);
        let (url, client, server) = (self.url.clone(), context.client()?, context.server_of(&self.url.server())?);
        let statuses = context.settings().statuses.clone();
        context.net()?.spawn(async move {
            let mut folders = vec![url];
            while let Some(folder) = folders.pop() {
                let name = folder.name();
                let list = || async {
                    let request = Request::new(Method::GET, folder.operation("LISTSTATUS", &[]));
                    answer(client.send_following(&request).await?, &statuses).await
                };
                let found = server.try_until(&name, list).await.map(|answer| children(&folder, &answer));
                let found = match found {
                    Ok(found) => found,
                    Err(error) => {
                        let error = error.with_operation("list").with_source_name(&name);
                        // Nobody may be listening any more.
                        return drop(entries.send(Err(error)).await);
                    }
                };
                for child in found {
                    match child {
                        Child::Folder(url) => folders.push(url),
                        Child::File(entry) => {
                            if entries.send(Ok(entry)).await.is_err() {
                                return;
                            }
                        }
                    }
                }
            }
        });
        Ok(Listing::new(listing))
    }

    async fn ask<T, F>(
        &self,
        context: &RemoteContext,
        mut call: impl FnMut(Client, Vec<u16>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send,
    {
        let (client, server) = (context.client()?, context.server_of(&self.url.server())?);
        let (name, statuses) = (self.url.name(), context.settings().statuses.clone());
        let calls = async move { server.try_until(&name, || call(client.clone(), statuses.clone())).await };
        context.net()?.run(calls).await
    }

    fn named(&self, error: Error, operation: &'static str) -> Error {
        error.with_operation(operation).with_source_name(&self.url.name())
    }
}

enum Child {
    Folder(HdfsUrl),
    File(Entry),
}

/// What a folder holds. A file, listed itself, is its only child, without a name.
fn children(folder: &HdfsUrl, answer: &Value) -> Vec<Child> {
    let statuses = answer.get("FileStatuses").and_then(|all| all.get("FileStatus")).and_then(Value::as_array);
    let child = |value: &Value| {
        let status = FileStatus::of(value)?;
        let name = value.get("pathSuffix")?.as_str()?;
        let path = match name {
            "" => folder.path(),
            name => format!("{}/{name}", folder.path().trim_end_matches('/')),
        };
        if status.directory {
            return Some(Child::Folder(folder.with_path(&path)));
        }
        let mut entry = Entry::new(path, status.len);
        entry.modified = Some(SystemTime::UNIX_EPOCH + Duration::from_millis(status.modified));
        Some(Child::File(entry))
    };
    statuses.into_iter().flatten().filter_map(child).collect()
}

impl fmt::Debug for WebHdfsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebHdfsBuilder").field("url", &self.url).finish_non_exhaustive()
    }
}

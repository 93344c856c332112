use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use http::Method;
use serde_json::Value;
use warpio_core::{Error, ErrorKind};

use super::{Opened, Origin, Payload};
use crate::failure::Failure;
use crate::http::{Client, HttpUrl, Reply, Request, decode_text, encode_path};
use crate::reply::{ContentRange, Facts, Refusal, Version};

/// A file of HDFS, and who asks for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HdfsUrl {
    /// Its path is encoded and begins with `/webhdfs/v1`.
    base: HttpUrl,
    pub(crate) user: Option<String>,
    pub(crate) token: Option<String>,
}

impl HdfsUrl {
    /// Of what the query says, user and token are kept.
    pub(crate) fn new(url: &HttpUrl) -> Self {
        let (path, query) = url.target.split_once('?').unwrap_or((&url.target, ""));
        let value = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| decode_text(value))
        };
        let user = value("user.name").or_else(|| url.userinfo().map(|(user, _)| user.to_owned()));
        let base = url.without_userinfo().with_target(path.to_owned());
        Self { base, user, token: value("delegation") }
    }

    /// The URL of an operation on this file.
    pub(crate) fn operation(&self, operation: &str, parameters: &[(&str, String)]) -> HttpUrl {
        let mut target = format!("{}?op={operation}", self.base.target);
        let identity = [("user.name", self.user.clone()), ("delegation", self.token.clone())];
        let identity = identity.into_iter().filter_map(|(name, value)| Some((name, value?)));
        for (name, value) in parameters.iter().map(|(name, value)| (*name, value.clone())).chain(identity) {
            target.push_str(&format!("&{name}={}", encode_path(&value).replace('/', "%2F")));
        }
        self.base.with_target(target)
    }

    /// Its path in HDFS.
    pub(crate) fn path(&self) -> String {
        decode_text(self.base.target.strip_prefix("/webhdfs/v1").unwrap_or(&self.base.target))
    }

    /// Another file of the same cluster.
    pub(crate) fn with_path(&self, path: &str) -> Self {
        let target = format!("/webhdfs/v1{}", encode_path(path));
        Self { base: self.base.with_target(target), ..self.clone() }
    }

    /// The name for errors and reports.
    pub(crate) fn name(&self) -> String {
        let scheme = if self.base.tls { "swebhdfs" } else { "webhdfs" };
        format!("{scheme}://{}:{}{}", self.base.host, self.base.port, self.path())
    }

    pub(crate) fn server(&self) -> String {
        self.base.authority()
    }

    /// A token would be sent for all to read.
    fn exposes_token(&self) -> bool {
        self.token.is_some() && !self.base.tls
    }
}

impl fmt::Debug for HdfsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// A file of HDFS, read by its REST interface: the name node tells where it is, and a data node sends it.
#[derive(Debug)]
pub(crate) struct WebHdfsOrigin {
    client: Client,
    url: HdfsUrl,
    name: String,
    server: String,
    statuses: Vec<u16>,
    status: Mutex<Option<FileStatus>>,
}

/// What the name node says about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStatus {
    pub(crate) len: u64,
    /// In milliseconds since 1970.
    pub(crate) modified: u64,
    pub(crate) directory: bool,
}

impl FileStatus {
    pub(crate) fn of(value: &Value) -> Option<Self> {
        Some(Self {
            len: value.get("length")?.as_u64()?,
            modified: value.get("modificationTime")?.as_u64()?,
            directory: value.get("type")?.as_str()? == "DIRECTORY",
        })
    }

    /// HDFS has no ETag.
    fn version(self) -> Version {
        Version { etag: None, modified: Some(self.modified.to_string()), total: Some(self.len) }
    }
}

impl WebHdfsOrigin {
    pub(crate) fn new(client: Client, url: HdfsUrl, statuses: Vec<u16>) -> Self {
        if url.exposes_token() {
            tracing::warn!(server = url.server(), "credentials are sent over http://, for all to read");
        }
        let (name, server) = (url.name(), url.server());
        Self { client, url, name, server, statuses, status: Mutex::default() }
    }

    async fn look_up(&self) -> Result<FileStatus, Failure> {
        let status = file_status(&self.client, &self.url, &self.statuses).await?;
        if status.directory {
            return Err(Failure::last(Error::invalid_input("it is a directory of HDFS, not a file")));
        }
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
        Ok(status)
    }

    fn seen(&self) -> Option<FileStatus> {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Origin for WebHdfsOrigin {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "webhdfs"
    }

    fn server(&self) -> &str {
        &self.server
    }

    async fn head(&self) -> Result<Facts, Failure> {
        let Version { modified, total, .. } = self.look_up().await?.version();
        Ok(Facts { status: 200, content_length: total, modified, ..Facts::default() })
    }

    async fn get(&self, range: Option<Range<u64>>) -> Result<Opened, Failure> {
        let status = match self.seen() {
            Some(status) => status,
            None => self.look_up().await?,
        };
        let Version { modified, total, .. } = status.version();
        let range = range.unwrap_or(0..status.len);
        let (start, end) = (range.start, range.end.min(status.len));
        if start >= end {
            let content_range = Some(Ok(ContentRange { range: None, total }));
            let facts = Facts { status: 416, content_range, modified, ..Facts::default() };
            return Ok(Opened { facts, payload: Payload::stream(Box::pin(futures::stream::empty())) });
        }
        let parameters = [("offset", start.to_string()), ("length", (end - start).to_string())];
        let url = self.url.operation("OPEN", &parameters);
        let reply = self.client.send_following(&Request::new(Method::GET, url)).await?;
        if reply.head.status.as_u16() != 200 {
            return Err(remote_exception(reply, &self.statuses).await);
        }
        let said = Facts::of(200, &reply.head.headers);
        // What the data node promises, in the words of a partial reply.
        let holds = start..start + said.content_length.unwrap_or(end - start);
        let content_range = match holds.is_empty() {
            true => None,
            false => Some(Ok(ContentRange { range: Some(holds), total })),
        };
        let facts = Facts { status: 206, content_range, modified, ..said };
        Ok(Opened { facts, payload: Payload::Wire(reply.body) })
    }

    /// Data nodes say nothing about the file, so that the name node is asked again.
    async fn confirm(&self, known: &Version) -> Result<(), Failure> {
        let now = file_status(&self.client, &self.url, &self.statuses).await?;
        known.check(&now.version()).map_err(|difference| Refusal::Changed(difference.to_string()).into())
    }
}

/// What the name node says about a file or directory.
pub(crate) async fn file_status(client: &Client, url: &HdfsUrl, statuses: &[u16]) -> Result<FileStatus, Failure> {
    let request = Request::new(Method::GET, url.operation("GETFILESTATUS", &[]));
    let answer = answer(client.send_following(&request).await?, statuses).await?;
    answer.get("FileStatus").and_then(FileStatus::of).ok_or_else(no_answer)
}

/// The JSON of a successful reply.
pub(crate) async fn answer(reply: Reply, statuses: &[u16]) -> Result<Value, Failure> {
    if !reply.head.status.is_success() {
        return Err(remote_exception(reply, statuses).await);
    }
    let text = reply.body.beginning(16 << 20).await;
    serde_json::from_slice(&text).map_err(|_| no_answer())
}

fn no_answer() -> Failure {
    let message = "the reply is not one of WebHDFS: is this the HTTP port of the name node?";
    Failure::last(Error::new(ErrorKind::Integrity).with_message(message))
}

/// The failure that a cluster tells. Its message may repeat the token, so that only the exception's name is told.
pub(crate) async fn remote_exception(reply: Reply, statuses: &[u16]) -> Failure {
    let (status, headers) = (reply.head.status.as_u16(), reply.head.headers.clone());
    let body = reply.body.error_text(64 << 10).await;
    let name = serde_json::from_slice::<Value>(&body)
        .ok()
        .and_then(|value| Some(value.get("RemoteException")?.get("exception")?.as_str()?.to_owned()))
        .filter(|name| name.len() <= 64 && name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    let Some(name) = name else { return Failure::status(status, &headers, None, statuses) };
    let (kind, message) = match name.as_str() {
        "FileNotFoundException" => (ErrorKind::NotFound, "there is no such file"),
        "AccessControlException" | "SecurityException" | "InvalidToken" => {
            (ErrorKind::PermissionDenied, "access is refused")
        }
        "FileAlreadyExistsException" => (ErrorKind::AlreadyExists, "there is a file of this name already"),
        "StandbyException" | "RetriableException" | "SafeModeException" => {
            (ErrorKind::Unavailable, "the name node cannot answer now")
        }
        "DSQuotaExceededException" | "NSQuotaExceededException" | "QuotaExceededException" => {
            (ErrorKind::StorageFull, "the quota is used up")
        }
        "IllegalArgumentException" => (ErrorKind::InvalidInput, "the cluster does not understand the request"),
        "UnsupportedOperationException" => (ErrorKind::Unsupported, "the cluster cannot do this"),
        _ => return Failure::status(status, &headers, Some(&name), statuses),
    };
    let error = Error::new(kind).with_message(format!("{message}: the cluster answers {status} {name}"));
    match kind {
        ErrorKind::Unavailable => Failure::again(error),
        _ => Failure::last(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> HdfsUrl {
        HdfsUrl::new(&HttpUrl::parse(text).unwrap())
    }

    #[test]
    fn operations_name_the_file_and_who_asks() {
        let url = url("http://nn:9870/webhdfs/v1/a%20b?op=OPEN&user.name=me%2Fx&delegation=t+k&offset=3");
        assert_eq!((url.user.as_deref(), url.token.as_deref()), (Some("me/x"), Some("t+k")));
        let open = url.operation("OPEN", &[("offset", "7".to_owned())]).full();
        assert_eq!(open, "http://nn:9870/webhdfs/v1/a%20b?op=OPEN&offset=7&user.name=me%2Fx&delegation=t%2Bk");
        assert_eq!(url.path(), "/a b");
        assert_eq!(
            url.with_path("/c d/e").operation("X", &[]).target,
            "/webhdfs/v1/c%20d/e?op=X&user.name=me%2Fx&delegation=t%2Bk"
        );
    }

    #[test]
    fn names_hold_no_token() {
        let url = url("https://me:hidden@nn/webhdfs/v1/x?delegation=hidden");
        for text in [url.name(), format!("{url:?}")] {
            assert!(text == "swebhdfs://nn:443/x", "{text}");
        }
        assert_eq!(url.user.as_deref(), Some("me"));
    }

    #[test]
    fn a_status_is_read() {
        let value = serde_json::json!({"length": 5, "modificationTime": 1_320_171_722_771_u64, "type": "FILE"});
        let status = FileStatus { len: 5, modified: 1_320_171_722_771, directory: false };
        assert_eq!(FileStatus::of(&value), Some(status));
        assert_eq!(FileStatus::of(&serde_json::json!({"length": -1, "type": "FILE"})), None);
    }
}

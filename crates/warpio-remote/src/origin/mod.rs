//! Where bytes come from: one object of one store, asked for by ranges.

mod credentials;
mod http;
mod note;
mod payload;
mod service;
mod store;
mod webhdfs;

use std::fmt::Debug;
use std::ops::Range;

use async_trait::async_trait;

pub(crate) use self::http::HttpOrigin;
pub(crate) use credentials::Credentials;
pub(crate) use note::{Note, with_note};
pub(crate) use payload::Payload;
pub(crate) use service::{Connector, http_error};
pub(crate) use store::{Store, StoreOrigin, store_failure};
pub(crate) use webhdfs::{FileStatus, HdfsUrl, WebHdfsOrigin, answer, file_status, remote_exception};

use crate::failure::Failure;
use crate::reply::{Facts, Version};

/// One object, and how it is asked for. Each call is one request; whether it is repeated is for others to decide.
#[async_trait]
pub(crate) trait Origin: Debug + Send + Sync + 'static {
    /// The URL, without secrets.
    fn name(&self) -> &str;

    /// The kind of store: `"s3"`, `"http"`, …
    fn kind(&self) -> &'static str;

    /// The server, for what is shared between the objects on it.
    fn server(&self) -> &str;

    /// What the store says about the object.
    async fn head(&self) -> Result<Facts, Failure>;

    /// Asks for a range, or for all of the object. The reply is a success, or a 416, but has not been checked further.
    async fn get(&self, range: Option<Range<u64>>) -> Result<Opened, Failure>;

    /// Whether the object is still as it was: for stores whose replies do not say so.
    async fn confirm(&self, _known: &Version) -> Result<(), Failure> {
        Ok(())
    }
}

/// A reply whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) facts: Facts,
    pub(crate) payload: Payload,
}

/// What stores call their errors: the `<Code>` of S3, GCS and Azure. The rest of such a body may repeat what was sent,
/// keys and tokens included.
fn error_code(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(body);
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    let plain = !code.is_empty() && code.len() <= 64 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    plain.then(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::error_code;

    #[test]
    fn codes_are_taken_out_of_errors_and_nothing_else_is() {
        let code = |text: &str| error_code(text.as_bytes());
        assert_eq!(code("<Error><Code>NoSuchKey</Code><Message>m</Message></Error>").as_deref(), Some("NoSuchKey"));
        for nothing in ["", "<Code>", "<Code></Code>", "<Code>a secret</Code>", "{\"error\": {\"code\": 404}}"] {
            assert_eq!(code(nothing), None, "{nothing}");
        }
    }
}

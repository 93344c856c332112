use std::fmt;
use std::sync::Arc;

use warpio_core::{Error, Result, redact};

use crate::context::RemoteContext;
use crate::kind::{Kind, Target};
use crate::origin::{HdfsUrl, WebHdfsOrigin};
use crate::read::Remote;

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
}

impl fmt::Debug for WebHdfsBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebHdfsBuilder").field("url", &self.url).finish_non_exhaustive()
    }
}

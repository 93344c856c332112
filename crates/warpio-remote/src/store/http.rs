use std::fmt;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use warpio_core::{Error, Result};

use crate::context::RemoteContext;
use crate::http::HttpUrl;
use crate::kind::Kind;
use crate::origin::HttpOrigin;
use crate::read::Remote;

/// HTTP servers.
#[derive(Debug)]
pub struct Http;

impl Http {
    /// What lies behind a URL, which may be presigned. It is sent as it is given: it is encoded already.
    ///
    /// # Errors
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for what is no `http://` or `https://` URL.
    pub fn builder(url: &str) -> Result<HttpBuilder> {
        let url = HttpUrl::parse(url)?;
        let kind = if url.is_signed() { Kind::Presigned } else { Kind::Http };
        Ok(HttpBuilder::at(url, kind))
    }
}

/// What is said about a URL.
///
/// ```no_run
/// use warpio_remote::{Http, RemoteContext};
///
/// # async fn example() -> Result<(), warpio_core::Error> {
/// let context = RemoteContext::new(warpio_core::Device::host());
/// let source = Http::builder("https://example.org/data.bin")?.bearer_token("…")?.open(&context).await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "it is a description; open() makes something of it"]
pub struct HttpBuilder {
    url: HttpUrl,
    kind: Kind,
    headers: HeaderMap,
    len: Option<u64>,
}

impl HttpBuilder {
    pub(crate) fn at(url: HttpUrl, kind: Kind) -> Self {
        Self { url, kind, headers: HeaderMap::new(), len: None }
    }

    /// A header of every request. It is taken for a secret: it is not sent on to other servers.
    ///
    /// # Errors
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for what is no header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self> {
        let name = HeaderName::try_from(name);
        let name = name.map_err(|_| Error::invalid_input("the name of a header is none"))?;
        let value = HeaderValue::try_from(value);
        let mut value = value.map_err(|_| Error::invalid_input(format!("the value of the header {name} is none")))?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// A token to be let in by.
    ///
    /// # Errors
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for one that no header can hold.
    pub fn bearer_token(self, token: &str) -> Result<Self> {
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {token}"))
    }

    /// The length in bytes, for servers that do not tell it.
    pub fn len(mut self, bytes: u64) -> Self {
        self.len = Some(bytes);
        self
    }

    /// Opens the source and asks whether it is there.
    ///
    /// # Errors
    /// [`NotFound`](warpio_core::ErrorKind::NotFound), [`PermissionDenied`](warpio_core::ErrorKind::PermissionDenied),
    /// [`Unavailable`](warpio_core::ErrorKind::Unavailable).
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
        let (client, url, kind) = (context.client()?, self.url.clone(), self.kind.as_str());
        context.remote(Arc::new(HttpOrigin::new(client, url, kind, self.headers.clone(), statuses)), self.len)
    }
}

impl fmt::Debug for HttpBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpBuilder").field("url", &self.url).finish_non_exhaustive()
    }
}

//! object_store's requests, sent by our client.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use http::header::IF_NONE_MATCH;
use http::{HeaderValue, Method};
use http_body::Body as _;
use object_store::ClientOptions;
use object_store::client::{
    ClientConfigKey, HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};

use super::credentials::Credentials;
use super::error_code;
use super::note::Note;
use crate::http::{Client, Fault, FaultKind, HttpUrl, Request};
use crate::reply::Facts;
use crate::settings::RemoteSettings;

/// The text of an error is read up to here.
pub(super) const MAX_ERROR: usize = 64 << 10;

/// Gives object_store our client. One is made for each store.
#[derive(Clone)]
pub(crate) struct Connector {
    client: Client,
    credentials: Arc<Credentials>,
    /// A store's builder asks for a client for its credentials first, and for itself last.
    clients: Arc<AtomicUsize>,
    warned: Arc<AtomicBool>,
    /// Uploads in parts are completed only where there is no object yet.
    create_only: bool,
}

impl Connector {
    pub(crate) fn new(client: Client, settings: &RemoteSettings) -> Self {
        let credentials = Arc::new(Credentials::new(&client, settings));
        Self { client, credentials, clients: Arc::default(), warned: Arc::default(), create_only: false }
    }

    /// What becomes of the requests for credentials.
    pub(crate) fn credentials(&self) -> Arc<Credentials> {
        self.credentials.clone()
    }

    /// object_store has no condition for uploads in parts, though the stores have.
    pub(crate) fn create_only(self, yes: bool) -> Self {
        Self { create_only: yes, ..self }
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let number = self.clients.fetch_add(1, Ordering::Relaxed);
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp).is_some_and(|value| value == "true");
        Ok(HttpClient::new(Service { connector: self.clone(), number, allow_http }))
    }
}

#[derive(Debug)]
struct Service {
    connector: Connector,
    number: usize,
    allow_http: bool,
}

impl Service {
    /// Whether it carries the requests for objects, and not those for credentials.
    fn is_for_objects(&self) -> bool {
        self.number + 1 == self.connector.clients.load(Ordering::Relaxed)
    }

    fn request(&self, request: HttpRequest) -> Result<Request, Fault> {
        let (parts, body) = request.into_parts();
        let url = HttpUrl::from_uri(&parts.uri)
            .map_err(|error| Fault::new(FaultKind::Request, format!("the request cannot be sent: {error}")))?;
        let mut request = Request { method: parts.method, url, headers: parts.headers, body: pieces(body) };
        if !self.allow_http && !request.url.tls {
            return Err(Fault::new(FaultKind::Request, "credentials are asked for over https:// only"));
        }
        if self.is_for_objects() {
            self.warn(&request);
            if self.connector.create_only && completes(&request) {
                request.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
            }
        }
        Ok(request)
    }

    fn warn(&self, request: &Request) {
        if request.exposes_credentials() && !self.connector.warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(server = request.url.authority(), "credentials are sent over http://, for all to read");
        }
    }
}

/// Whether it makes an object of the parts that were uploaded: of S3, or of Azure.
fn completes(request: &Request) -> bool {
    let (_, query) = request.url.target.split_once('?').unwrap_or_default();
    let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    match request.method {
        Method::POST => has("uploadId"),
        Method::PUT => query.split('&').any(|pair| pair == "comp=blocklist"),
        _ => false,
    }
}

/// The body is in memory, so that nothing is waited for.
fn pieces(mut body: HttpRequestBody) -> Vec<bytes::Bytes> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let mut pieces = Vec::new();
    while let std::task::Poll::Ready(Some(Ok(frame))) = std::pin::Pin::new(&mut body).poll_frame(&mut cx) {
        pieces.extend(frame.into_data());
    }
    pieces
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let note = if self.is_for_objects() { Note::of(request.extensions()) } else { None };
        let sent = match self.request(request) {
            Ok(request) if self.is_for_objects() => self.connector.client.send(&request).await,
            Ok(request) => self.connector.credentials.ask(&request).await,
            Err(fault) => Err(fault),
        };
        let reply = sent.map_err(|fault| {
            if let Some(note) = &note {
                note.broke(fault.clone());
            }
            http_error(fault)
        })?;
        let mut response = HttpResponse::new(HttpResponseBody::from(Vec::new()));
        *response.status_mut() = reply.head.status;
        *response.headers_mut() = reply.head.headers;
        let status = reply.head.status;
        if !status.is_success() {
            let body = reply.body.error_text(MAX_ERROR).await;
            if let Some(note) = note {
                note.refused(status.as_u16(), response.headers().clone(), error_code(&body));
            }
            *response.body_mut() = body.into();
            return Ok(response);
        }
        let Some(note) = note else {
            *response.body_mut() = HttpResponseBody::new(reply.body);
            return Ok(response);
        };
        let facts = Facts::of(status.as_u16(), response.headers());
        if facts.content_range.as_ref().is_some_and(Result::is_err) {
            // The library would calculate with it.
            response.headers_mut().remove(http::header::CONTENT_RANGE);
        }
        if note.takes_body() {
            note.succeeded(facts, Some(reply.body));
        } else {
            note.succeeded(facts, None);
            *response.body_mut() = HttpResponseBody::new(reply.body);
        }
        Ok(response)
    }
}

/// A fault as object_store knows it.
pub(crate) fn http_error(fault: Fault) -> HttpError {
    let kind = match fault.kind() {
        FaultKind::Connect => HttpErrorKind::Connect,
        FaultKind::Stalled => HttpErrorKind::Timeout,
        FaultKind::Broken | FaultKind::Ended => HttpErrorKind::Interrupted,
        FaultKind::Malformed => HttpErrorKind::Decode,
        FaultKind::Certificate | FaultKind::Request => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, fault)
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_request_of_an_upload_has_the_condition() {
        let request = |method: Method, url: &str| completes(&Request::new(method, HttpUrl::parse(url).unwrap()));
        assert!(request(Method::POST, "http://h/b/k?uploadId=x"));
        assert!(request(Method::PUT, "http://h/c/b?comp=blocklist"));
        assert!(!request(Method::POST, "http://h/b/k?uploads="));
        assert!(!request(Method::PUT, "http://h/b/k?partNumber=1&uploadId=x"));
        assert!(!request(Method::PUT, "http://h/c/b?comp=block&blockid=1"));
        assert!(!request(Method::DELETE, "http://h/b/k?uploadId=x"));
    }
}

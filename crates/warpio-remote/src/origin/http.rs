use std::ops::Range;

use async_trait::async_trait;
use http::Method;
use http::header::{HeaderMap, HeaderValue, RANGE};

use super::{Opened, Origin, Payload, error_code};
use crate::failure::Failure;
use crate::http::{Client, HttpUrl, Reply, Request};
use crate::reply::Facts;

/// What lies behind an `http://` or `https://` URL, presigned ones included.
#[derive(Debug)]
pub(crate) struct HttpOrigin {
    client: Client,
    url: HttpUrl,
    kind: &'static str,
    name: String,
    server: String,
    headers: SentHeaders,
    statuses: Vec<u16>,
}

/// Headers of the user's, which may hold secrets.
struct SentHeaders(HeaderMap);

impl std::fmt::Debug for SentHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl HttpOrigin {
    pub(crate) fn new(
        client: Client,
        url: HttpUrl,
        kind: &'static str,
        headers: HeaderMap,
        statuses: Vec<u16>,
    ) -> Self {
        let (name, server) = (url.name(), url.authority());
        let origin = Self { client, url, kind, name, server, headers: SentHeaders(headers), statuses };
        if origin.request(Method::GET).exposes_credentials() {
            tracing::warn!(server = origin.server, "credentials are sent over http://, for all to read");
        }
        origin
    }

    fn request(&self, method: Method) -> Request {
        Request { headers: self.headers.0.clone(), ..Request::new(method, self.url.clone()) }
    }

    async fn refused(&self, reply: Reply) -> Failure {
        let status = reply.head.status.as_u16();
        let body = reply.body.error_text(4 << 10).await;
        Failure::status(status, &reply.head.headers, error_code(&body).as_deref(), &self.statuses)
    }
}

#[async_trait]
impl Origin for HttpOrigin {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        self.kind
    }

    fn server(&self) -> &str {
        &self.server
    }

    async fn head(&self) -> Result<Facts, Failure> {
        let reply = self.client.send_following(&self.request(Method::HEAD)).await?;
        match reply.head.status.is_success() {
            true => Ok(Facts::of(reply.head.status.as_u16(), &reply.head.headers)),
            false => Err(self.refused(reply).await),
        }
    }

    async fn get(&self, range: Option<Range<u64>>) -> Result<Opened, Failure> {
        let mut request = self.request(Method::GET);
        if let Some(range) = range {
            request.headers.insert(RANGE, range_header(&range));
        }
        let reply = self.client.send_following(&request).await?;
        let status = reply.head.status.as_u16();
        if !reply.head.status.is_success() && status != 416 {
            return Err(self.refused(reply).await);
        }
        Ok(Opened { facts: Facts::of(status, &reply.head.headers), payload: Payload::Wire(reply.body) })
    }
}

/// A range that is not empty.
pub(super) fn range_header(range: &Range<u64>) -> HeaderValue {
    debug_assert!(range.start < range.end, "an empty range cannot be asked for");
    let text = format!("bytes={}-{}", range.start, range.end.saturating_sub(1));
    HeaderValue::from_str(&text).unwrap_or_else(|_| unreachable!("digits are a header"))
}

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, PROXY_AUTHORIZATION};
use warpio_core::Result as CoreResult;

use super::body::Body;
use super::connection::{Answer, Connection};
use super::dial::{Dialer, proxy_authorization};
use super::fault::Fault;
use super::head::{self, Head};
use super::pool::{Key, Pool};
use super::proxy::Proxies;
use super::redirect::{self, MAX_REDIRECTS};
use super::target::HttpUrl;
use super::tls::Tls;
use crate::settings::RemoteSettings;

/// How long a connection is kept for the next request: S3 hangs up after about 20 s, others later.
const KEEP_IDLE: Duration = Duration::from_secs(15);

/// A machine that is given nothing has nobody at the address where it would be: that must not cost much.
const NEAR: Duration = Duration::from_secs(1);

/// Sends requests. Cheap to clone; the clones share connections.
#[derive(Clone)]
pub(crate) struct Client {
    pool: Arc<Pool>,
    dialer: Arc<Dialer>,
}

/// A request, with all of its body in memory.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: HttpUrl,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<Bytes>,
}

/// A reply, with its body still to be read.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) body: Body,
}

impl Client {
    pub(crate) fn new(settings: &RemoteSettings) -> CoreResult<Self> {
        let dialer = Dialer {
            tls: Tls::new(&settings.root_certificates)?,
            proxies: Proxies::from_env(),
            connect_timeout: settings.connect_timeout,
            near_timeout: settings.connect_timeout,
            stall_timeout: settings.stall_timeout,
        };
        Ok(Self { pool: Arc::new(Pool::new(KEEP_IDLE)), dialer: Arc::new(dialer) })
    }

    /// The same for requests for credentials. What is near answers at once, or is not there.
    pub(crate) fn for_credentials(&self) -> Self {
        let dialer = Dialer { near_timeout: self.dialer.near_timeout.min(NEAR), ..Dialer::clone(&self.dialer) };
        Self { pool: self.pool.clone(), dialer: Arc::new(dialer) }
    }

    /// Sends a request as it is.
    pub(crate) async fn send(&self, request: &Request) -> Result<Reply, Fault> {
        let key = Key::new(&request.url);
        if let Some(mut connection) = self.pool.take(&key) {
            match self.exchange(&mut connection, request).await {
                Ok(answer) => return Ok(self.reply(connection, answer, key)),
                // The server may have hung up while the request was on its way. What must not be carried out twice is
                // not sent twice.
                Err(fault) if connection.was_used() && hung_up(&fault) && request.method != Method::POST => {}
                Err(fault) => return Err(fault),
            }
        }
        let mut connection = self.dialer.dial(&request.url).await?;
        let answer = self.exchange(&mut connection, request).await?;
        Ok(self.reply(connection, answer, key))
    }

    /// Sends a request without a body and follows redirects. Credentials stay with the server that they are for.
    pub(crate) async fn send_following(&self, request: &Request) -> Result<Reply, Fault> {
        let mut request = request.clone();
        redirect::basic(&request.url, &mut request.headers);
        for _ in 0..=MAX_REDIRECTS {
            let reply = self.send(&request).await?;
            match redirect::follow(&request.url, &reply.head, &request.headers)? {
                None => return Ok(reply),
                Some((url, headers)) => {
                    // What a redirect says besides is of no interest, but read, so that the connection is kept.
                    reply.body.error_text(4 << 10).await;
                    request = Request { url, headers, ..request };
                }
            }
        }
        Err(Fault::malformed(format!("there were more than {MAX_REDIRECTS} redirects")))
    }

    async fn exchange(&self, connection: &mut Connection, request: &Request) -> Result<Answer, Fault> {
        let proxy = self.dialer.proxies.of(&request.url).filter(|_| !request.url.tls);
        let mut headers = request.headers.clone();
        if let Some(value) = proxy.and_then(proxy_authorization) {
            headers.insert(PROXY_AUTHORIZATION, value);
        }
        let len = request.body.iter().map(Bytes::len).sum();
        let writes = matches!(request.method, Method::PUT | Method::POST);
        let len = (writes || len > 0).then_some(len);
        let head = head::write(&request.method, &request.url, proxy.is_some(), &headers, len);
        connection.exchange(&request.method, head, &request.body).await
    }

    fn reply(&self, connection: Connection, answer: Answer, key: Key) -> Reply {
        let Answer { head, framing, reusable } = answer;
        Reply { head, body: Body::new(connection, framing, reusable, self.pool.clone(), key) }
    }
}

fn hung_up(fault: &Fault) -> bool {
    use super::fault::FaultKind;
    matches!(fault.kind(), FaultKind::Broken | FaultKind::Ended)
}

impl Request {
    pub(crate) fn new(method: Method, url: HttpUrl) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Vec::new() }
    }

    /// Whether it would show who sends it to everybody on the way.
    pub(crate) fn exposes_credentials(&self) -> bool {
        !self.url.tls && (self.url.userinfo().is_some() || redirect::has_credentials(&self.headers))
    }
}

impl fmt::Debug for Request {
    /// Neither headers nor queries, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.method, self.url)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

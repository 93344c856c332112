//! New connections: addresses, proxies, TLS.

use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::header::{AUTHORIZATION, HeaderMap};
use http::{HeaderName, Method};
use tokio::net::{TcpStream, lookup_host};

use super::connection::Connection;
use super::fault::{Fault, FaultKind};
use super::head;
use super::io::{Io, Wire};
use super::proxy::Proxies;
use super::redirect::basic;
use super::target::HttpUrl;
use super::tls::Tls;

/// The next address is tried as well when one has not answered for so long (RFC 8305).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);

#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) tls: Tls,
    pub(super) proxies: Proxies,
    /// For all of it, from the name to the TLS handshake.
    pub(super) connect_timeout: Duration,
    /// The same for what is near.
    pub(super) near_timeout: Duration,
    pub(super) stall_timeout: Duration,
}

impl Dialer {
    pub(super) async fn dial(&self, url: &HttpUrl) -> Result<Connection, Fault> {
        let timeout = if url.is_near() { self.near_timeout } else { self.connect_timeout };
        let late = |_| {
            let message = format!("{} was not reached within {timeout:?}", url.authority());
            Err(Fault::new(FaultKind::Connect, message))
        };
        tokio::time::timeout(timeout, self.dial_now(url)).await.unwrap_or_else(late)
    }

    async fn dial_now(&self, url: &HttpUrl) -> Result<Connection, Fault> {
        let proxy = self.proxies.of(url);
        let tcp = tcp(proxy.unwrap_or(url)).await?;
        if !url.tls {
            return Ok(Connection::new(Wire::new(Io::Plain(tcp), self.stall_timeout)));
        }
        let tcp = match proxy {
            Some(proxy) => tunnel(tcp, proxy, url).await?,
            None => tcp,
        };
        let tls = self.tls.connect(&url.host, tcp).await?;
        Ok(Connection::new(Wire::new(Io::Tls(Box::new(tls)), self.stall_timeout)))
    }
}

async fn tcp(url: &HttpUrl) -> Result<TcpStream, Fault> {
    let host = url.host.trim_matches(['[', ']']);
    let addresses: Vec<SocketAddr> = lookup_host((host, url.port))
        .await
        .map_err(|error| Fault::caused(FaultKind::Connect, format!("the name {host} is not found"), error))?
        .collect();
    let mut last = Fault::new(FaultKind::Connect, format!("the name {host} has no address"));
    let mut attempts = FuturesUnordered::new();
    let mut rest = alternate(addresses).into_iter();
    loop {
        match rest.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let more = rest.len() > 0;
        let next = async {
            match more {
                true => tokio::time::sleep(NEXT_ADDRESS).await,
                false => std::future::pending().await,
            }
        };
        tokio::select! {
            attempt = attempts.next() => match attempt {
                Some(Ok(tcp)) => {
                    // Requests are written whole, and must not wait for the reply to the one before.
                    let _ = tcp.set_nodelay(true);
                    return Ok(tcp);
                }
                Some(Err(error)) => {
                    last = Fault::caused(FaultKind::Connect, format!("{} cannot be reached", url.authority()), error);
                }
                None => {}
            },
            () = next => {}
        }
    }
}

/// The addresses in the order given, the families by turns, so that a broken one of them costs one wait.
fn alternate(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let first_is_v6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (a, b): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == first_is_v6);
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut a, mut b) = (a.into_iter(), b.into_iter());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return out,
            (one, two) => out.extend(one.into_iter().chain(two)),
        }
    }
}

/// Asks a proxy for a way through to the server of `url`.
async fn tunnel(mut tcp: TcpStream, proxy: &HttpUrl, url: &HttpUrl) -> Result<TcpStream, Fault> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut headers = HeaderMap::new();
    if let Some(value) = proxy_authorization(proxy) {
        headers.insert(HeaderName::from_static("proxy-authorization"), value);
    }
    let authority = format!("{}:{}", url.host, url.port);
    let request = head::write(&Method::CONNECT, &url.with_target(authority), false, &headers, None);
    tcp.write_all(&request).await.map_err(Fault::from_io)?;
    let mut received = Vec::new();
    loop {
        // One byte at a time: what comes behind the head belongs to TLS.
        let mut byte = [0];
        if tcp.read(&mut byte).await.map_err(Fault::from_io)? == 0 {
            return Err(Fault::new(FaultKind::Connect, "the proxy hung up"));
        }
        received.extend(byte);
        match head::parse(&received)? {
            Some((head, _)) if head.status.is_success() => return Ok(tcp),
            Some((head, _)) => {
                let message = format!("the proxy refuses to connect to {}: {}", url.authority(), head.status);
                return Err(Fault::new(FaultKind::Connect, message));
            }
            None => {}
        }
    }
}

/// What a proxy with user and password in its URL wants to see.
pub(super) fn proxy_authorization(proxy: &HttpUrl) -> Option<http::HeaderValue> {
    let mut headers = HeaderMap::new();
    basic(proxy, &mut headers);
    headers.remove(AUTHORIZATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_families_take_turns() {
        let v4 = |n: u8| SocketAddr::from(([127, 0, 0, n], 1));
        let v6 = |n: u16| SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, n], 1));
        let order = alternate(vec![v6(1), v6(2), v4(1), v4(2), v6(3)]);
        assert_eq!(order, [v6(1), v4(1), v6(2), v4(2), v6(3)]);
        assert_eq!(alternate(vec![v4(2), v4(1)]), [v4(2), v4(1)]);
        assert!(alternate(vec![]).is_empty());
    }
}

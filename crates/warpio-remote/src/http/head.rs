//! Heads of requests and replies, as bytes.

use std::fmt;

use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, StatusCode};

use super::fault::Fault;
use super::target::HttpUrl;

/// No honest reply has a larger head, and memory must not grow with a dishonest one.
pub(super) const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 256;

/// Status and headers of a reply.
#[derive(Clone)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The connection may be used again when the body has been read to its end.
    pub(super) keep_alive: bool,
}

impl fmt::Debug for Head {
    /// Without the headers, which may hold cookies.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head").field("status", &self.status).finish_non_exhaustive()
    }
}

/// The head of a request. `absolute` is for proxies, which want all of the URL.
pub(super) fn write(
    method: &Method,
    url: &HttpUrl,
    absolute: bool,
    headers: &HeaderMap,
    body_len: Option<usize>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    let target = if absolute { url.full() } else { url.target.clone() };
    out.extend_from_slice(format!("{method} {target} HTTP/1.1\r\n").as_bytes());
    let mut line = |name: &HeaderName, value: &[u8]| {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    };
    if !headers.contains_key(HOST) {
        line(&HOST, url.authority().as_bytes());
    }
    if !headers.contains_key(USER_AGENT) {
        line(&USER_AGENT, concat!("warpio/", env!("CARGO_PKG_VERSION")).as_bytes());
    }
    if !headers.contains_key(ACCEPT_ENCODING) {
        // Offsets are those of the bytes as they are stored.
        line(&ACCEPT_ENCODING, b"identity");
    }
    for (name, value) in headers.iter().filter(|(name, _)| *name != CONTENT_LENGTH) {
        line(name, value.as_bytes());
    }
    if let Some(len) = body_len {
        line(&CONTENT_LENGTH, len.to_string().as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// The head of a reply, and how many bytes it has; `None` while it is incomplete.
pub(super) fn parse(buffer: &[u8]) -> Result<Option<(Head, usize)>, Fault> {
    let mut lines = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut reply = httparse::Response::new(&mut lines);
    let len = match reply.parse(buffer) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if buffer.len() < MAX_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) => {
            return Err(Fault::malformed(format!("the reply's headers are longer than {MAX_HEAD} bytes")));
        }
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Fault::malformed(format!("the reply has more than {MAX_HEADERS} headers")));
        }
        Err(error) => return Err(Fault::malformed(format!("the reply is no HTTP: {error}"))),
    };
    if len > MAX_HEAD {
        return Err(Fault::malformed(format!("the reply's headers are longer than {MAX_HEAD} bytes")));
    }
    let status = reply.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or_else(|| Fault::malformed("the reply has no status"))?;
    let mut headers = HeaderMap::with_capacity(reply.headers.len());
    for line in reply.headers.iter() {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(line.value)) {
            headers.append(name, value);
        }
    }
    let said = |word: &str| tokens(&headers, &CONNECTION).any(|token| token.eq_ignore_ascii_case(word));
    let keep_alive = match reply.version {
        Some(1) => !said("close"),
        _ => said("keep-alive"),
    };
    Ok(Some((Head { status, headers, keep_alive }, len)))
}

/// The members of a header that is a list.
pub(super) fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let lists = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> (Head, usize) {
        parse(text.as_bytes()).unwrap().unwrap()
    }

    #[test]
    fn a_head_is_read_when_it_is_whole() {
        let text = "HTTP/1.1 206 Partial Content\r\nETag: \"x\"\r\nA: 1\r\nA: 2\r\n\r\nbody";
        for end in 0..text.len() - 4 {
            assert!(parse(&text.as_bytes()[..end]).unwrap().is_none(), "{end}");
        }
        let (head, len) = head(text);
        assert_eq!((head.status.as_u16(), len, head.keep_alive), (206, text.len() - 4, true));
        assert_eq!(head.headers.get_all("a").iter().count(), 2);
    }

    #[test]
    fn connections_are_kept_as_the_version_says() {
        for (text, kept) in [
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n\r\n", true),
        ] {
            assert_eq!(head(text).0.keep_alive, kept, "{text}");
        }
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "y".repeat(MAX_HEAD));
        let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(MAX_HEADERS + 1));
        let whole = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(MAX_HEAD));
        for bad in ["SSH-2.0-OpenSSH\r\n", "HTTP/1.1 abc\r\n\r\n", "HTTP/1.1 20\r\n\r\n", &long, &many, &whole] {
            assert!(parse(bad.as_bytes()).is_err(), "{}", &bad[..bad.len().min(40)]);
        }
    }

    #[test]
    fn a_request_names_its_host_and_wants_nothing_compressed() {
        let url = HttpUrl::parse("http://me:pw@host:81/a%20b?c").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("range", HeaderValue::from_static("bytes=0-1"));
        headers.insert("content-length", HeaderValue::from_static("99"));
        let text = String::from_utf8(write(&Method::GET, &url, false, &headers, None)).unwrap();
        assert!(text.starts_with("GET /a%20b?c HTTP/1.1\r\nhost: host:81\r\n"), "{text}");
        assert!(text.contains("accept-encoding: identity\r\n") && text.contains("range: bytes=0-1\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n") && !text.contains("content-length") && !text.contains("pw"), "{text}");
        let put = String::from_utf8(write(&Method::PUT, &url, true, &headers, Some(7))).unwrap();
        assert!(put.starts_with("PUT http://host:81/a%20b?c HTTP/1.1\r\n"), "{put}");
        assert!(put.contains("content-length: 7\r\n") && !put.contains("99"), "{put}");
    }
}

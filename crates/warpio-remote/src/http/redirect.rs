//! Where a redirect may lead, and what goes along.

use http::header::{AUTHORIZATION, COOKIE, HeaderMap, HeaderValue, LOCATION, PROXY_AUTHORIZATION};

use super::fault::{Fault, FaultKind};
use super::head::Head;
use super::target::HttpUrl;

/// Longer chains are loops.
pub(super) const MAX_REDIRECTS: usize = 10;

/// Headers that are sent on to another server; all others may be secrets.
const HARMLESS: [&str; 7] =
    ["range", "accept", "accept-encoding", "user-agent", "if-match", "if-none-match", "content-type"];

/// The URL that a reply redirects to, if it does, and the headers to send there.
pub(super) fn follow(url: &HttpUrl, head: &Head, headers: &HeaderMap) -> Result<Option<(HttpUrl, HeaderMap)>, Fault> {
    if !matches!(head.status.as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let location = head.headers.get(LOCATION).and_then(|value| value.to_str().ok());
    let refuse = |why: &str| Fault::new(FaultKind::Malformed, format!("the redirect of {} {why}", url.name()));
    let location = location.ok_or_else(|| refuse("says not where to"))?;
    let next = url.join(location).ok_or_else(|| refuse("leads to no http:// or https:// URL"))?;
    if url.tls && !next.tls {
        return Err(refuse("leads from https:// to http://, where everybody can listen"));
    }
    let mut headers = headers.clone();
    if !url.same_origin(&next) {
        let kept: HeaderMap = headers
            .drain()
            .scan(None, |last, (name, value)| {
                *last = name.or_else(|| last.take());
                last.clone().map(|name| (name, value))
            })
            .filter(|(name, _)| HARMLESS.contains(&name.as_str()))
            .collect();
        headers = kept;
    }
    // A user that the redirect itself names is not ours, and may be meant to be taken for it.
    Ok(Some((next.without_userinfo(), headers)))
}

/// Adds the user and password of a URL.
pub(super) fn basic(url: &HttpUrl, headers: &mut HeaderMap) {
    if let Some((user, password)) = url.userinfo()
        && !headers.contains_key(AUTHORIZATION)
    {
        let text = format!("Basic {}", base64(format!("{user}:{password}").as_bytes()));
        if let Ok(mut value) = HeaderValue::from_str(&text) {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
    }
}

/// Whether a request proves who sends it, so that it should not go in the clear.
pub(super) fn has_credentials(headers: &HeaderMap) -> bool {
    [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION].iter().any(|name| headers.contains_key(name))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            out.push(if digit <= group.len() { DIGITS[index] as char } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::head::parse;
    use super::*;

    fn redirect(from: &str, to: &str) -> Result<Option<(HttpUrl, HeaderMap)>, Fault> {
        let (head, _) = parse(format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\n\r\n").as_bytes()).unwrap().unwrap();
        let mut headers = HeaderMap::new();
        for name in ["range", "authorization", "cookie", "x-api-key"] {
            headers.insert(name, HeaderValue::from_static("v"));
        }
        follow(&HttpUrl::parse(from).unwrap(), &head, &headers)
    }

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<_> = headers.keys().map(http::HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn credentials_stay_with_the_server_they_are_for() {
        let (url, headers) = redirect("http://a/x", "/y").unwrap().unwrap();
        assert_eq!(url.full(), "http://a/y");
        assert_eq!(names(&headers), ["authorization", "cookie", "range", "x-api-key"]);
        for other in ["http://b/y", "http://a:81/y", "https://a/y", "//b/y"] {
            let (_, headers) = redirect("http://a/x", other).unwrap().unwrap();
            assert_eq!(names(&headers), ["range"], "{other}");
        }
        let (url, _) = redirect("http://a/x", "http://user:pw@b/y").unwrap().unwrap();
        assert_eq!(url.userinfo(), None);
    }

    #[test]
    fn redirects_that_lead_nowhere_good_are_refused() {
        for to in ["ftp://b/", "http://b/", "https://"] {
            assert!(redirect("https://a/x", to).is_err(), "{to}");
        }
        let (head, _) = parse(b"HTTP/1.1 301 Moved\r\n\r\n").unwrap().unwrap();
        let url = HttpUrl::parse("http://a/").unwrap();
        assert!(follow(&url, &head, &HeaderMap::new()).is_err());
    }

    #[test]
    fn users_and_passwords_are_sent_as_basic() {
        for (text, encoded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("a:\u{ff}", "YTrDvw==")] {
            assert_eq!(base64(text.as_bytes()), encoded);
        }
        let mut headers = HeaderMap::new();
        basic(&HttpUrl::parse("http://me:pw@host").unwrap(), &mut headers);
        assert_eq!(headers[AUTHORIZATION], "Basic bWU6cHc=");
        assert!(has_credentials(&headers) && !format!("{headers:?}").contains("bWU6cHc="));
    }
}

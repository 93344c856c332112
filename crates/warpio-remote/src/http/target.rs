use std::fmt;
use std::net::IpAddr;

use http::Uri;
use url::{Host, Url};
use warpio_core::{Error, Result, parse_decimal, percent_decode};

/// An `http://` or `https://` URL, whose path and query are sent as they were given.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HttpUrl {
    pub(crate) tls: bool,
    /// As it stands in a `Host` header: an IPv6 address in brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query, encoded.
    pub(crate) target: String,
    /// User and password, decoded.
    userinfo: Option<(String, String)>,
}

impl HttpUrl {
    /// Reads a URL that is encoded already. What cannot be sent as it is (spaces, characters beyond ASCII) is encoded.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Error::invalid_input(format!("it {why}"))
                .with_operation("open")
                .with_source_name(&warpio_core::redact(text))
        };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse("is no URL"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(refuse("is no http:// or https:// URL")),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        let (host, port) = split_port(host).ok_or_else(|| refuse("has a port that is no number"))?;
        let host = Host::parse(host).map_err(|_| refuse("names no host that can be read"))?.to_string();
        let target = encode(target).ok_or_else(|| refuse("has control characters in it"))?;
        let userinfo = userinfo.map(|pair| {
            let (user, password) = pair.split_once(':').unwrap_or((pair, ""));
            (decode_text(user), decode_text(password))
        });
        Ok(Self { tls, host, port: port.unwrap_or(default_port(tls)), target, userinfo })
    }

    /// Whether it is on this machine, or what a cloud's machine finds at its own link: there it is given credentials.
    pub(crate) fn is_near(&self) -> bool {
        let host = self.host.trim_matches(['[', ']']);
        match host.parse() {
            Ok(IpAddr::V4(address)) => address.is_loopback() || address.is_link_local(),
            // Amazon's addresses for it begin with fd00:ec2.
            Ok(IpAddr::V6(address)) => {
                let start = address.segments();
                address.is_loopback() || start[0] & 0xffc0 == 0xfe80 || start[..2] == [0xfd00, 0xec2]
            }
            Err(_) => matches!(host, "localhost" | "metadata.google.internal"),
        }
    }

    /// The URL of a request that somebody else has put together.
    pub(crate) fn from_uri(uri: &Uri) -> Result<Self> {
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(Error::invalid_input("the request goes to no http:// or https:// URL")),
        };
        let host = uri.host().ok_or_else(|| Error::invalid_input("the request goes to no host"))?.to_owned();
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Self { tls, host, port: uri.port_u16().unwrap_or(default_port(tls)), target, userinfo: None })
    }

    /// The URL that a redirect names, relative to this one. `None` for what is no HTTP URL.
    pub(crate) fn join(&self, location: &str) -> Option<Self> {
        let joined = Url::parse(&self.full()).ok()?.join(location).ok()?;
        Self::parse(joined.as_str()).ok()
    }

    /// Whether the other URL goes to the same server by the same protocol.
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        (self.tls, &self.host, self.port) == (other.tls, &other.host, other.port)
    }

    /// Whether its query holds the permission to read what it names: of S3, GCS or Azure.
    pub(crate) fn is_signed(&self) -> bool {
        let (_, query) = self.target.split_once('?').unwrap_or_default();
        let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
        has("X-Amz-Signature") || has("X-Goog-Signature") || (has("sig") && has("se"))
    }

    /// What stands in the `Host` header.
    pub(crate) fn authority(&self) -> String {
        match self.port == default_port(self.tls) {
            true => self.host.clone(),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// User and password.
    pub(crate) fn userinfo(&self) -> Option<(&str, &str)> {
        self.userinfo.as_ref().map(|(user, password)| (user.as_str(), password.as_str()))
    }

    /// The same without user and password.
    pub(crate) fn without_userinfo(&self) -> Self {
        Self { userinfo: None, ..self.clone() }
    }

    /// Another path and query on the same server.
    pub(crate) fn with_target(&self, target: String) -> Self {
        Self { target, ..self.clone() }
    }

    /// All of it but user and password. It may hold secrets in its query.
    pub(crate) fn full(&self) -> String {
        format!("{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.target)
    }

    /// The name for errors and reports, without secrets.
    pub(crate) fn name(&self) -> String {
        warpio_core::redact(&self.full())
    }
}

impl fmt::Debug for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

fn default_port(tls: bool) -> u16 {
    if tls { 443 } else { 80 }
}

fn split_port(host: &str) -> Option<(&str, Option<u16>)> {
    match host.rsplit_once(':') {
        // The colons of an IPv6 address stand in brackets.
        Some((host, port)) if !port.ends_with(']') => match port {
            "" => Some((host, None)),
            _ => Some((host, Some(parse_decimal(port)?))),
        },
        _ => Some((host, None)),
    }
}

/// Encodes only what cannot stand in a request line, so that what is encoded already stays as it is.
fn encode(target: &str) -> Option<String> {
    if target.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return None;
    }
    let mut out = String::with_capacity(target.len() + 1);
    if !target.starts_with('/') {
        out.push('/');
    }
    for byte in target.bytes() {
        match byte {
            b'!'..=b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    Some(out)
}

/// Encodes a path so that it stands in a URL for exactly what it is; its slashes are kept.
pub(crate) fn encode_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

pub(crate) fn decode_text(text: &str) -> String {
    let bytes = percent_decode(text).unwrap_or_else(|| text.as_bytes().to_vec());
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> HttpUrl {
        HttpUrl::parse(text).unwrap()
    }

    #[test]
    fn path_and_query_are_sent_as_they_were_given() {
        for target in ["/a%20b", "/A=1+2%2B", "/x?sig=a%2Fb&c=%zz", "//a//b/", "/../a/./b", "/", "/a?b?c"] {
            assert_eq!(url(&format!("http://host{target}")).target, target);
        }
        assert_eq!(url("http://host").target, "/");
        assert_eq!(url("http://host?x").target, "/?x");
        assert_eq!(url("http://host/a#fragment").target, "/a");
        assert_eq!(url("http://host/a b/ü").target, "/a%20b/%C3%BC");
    }

    #[test]
    fn a_machine_and_its_link_are_near() {
        for near in ["localhost:1", "127.0.0.9", "[::1]", "169.254.169.254", "metadata.google.internal", "[fe80::1]"] {
            assert!(url(&format!("http://{near}/x")).is_near(), "{near}");
        }
        assert!(url("http://[fd00:ec2::254]/").is_near());
        for far in ["localhost.example", "128.0.0.1", "169.255.0.1", "[2001:db8::1]", "[fd00::1]", "metadata"] {
            assert!(!url(&format!("http://{far}/x")).is_near(), "{far}");
        }
    }

    #[test]
    fn hosts_ports_and_users_are_told_apart() {
        let parts = |text| {
            let url = url(text);
            (url.tls, url.host.clone(), url.port, url.authority())
        };
        assert_eq!(parts("HTTP://Host"), (false, "host".into(), 80, "host".into()));
        assert_eq!(parts("https://host:443/x"), (true, "host".into(), 443, "host".into()));
        assert_eq!(parts("https://host:8443"), (true, "host".into(), 8443, "host:8443".into()));
        assert_eq!(parts("http://[::1]:80/"), (false, "[::1]".into(), 80, "[::1]".into()));
        assert_eq!(parts("http://[::1]"), (false, "[::1]".into(), 80, "[::1]".into()));
        assert_eq!(parts("http://bücher.example/").1, "xn--bcher-kva.example");
        let user = url("http://me%40home:p%3Aw@d@host/x");
        assert_eq!((user.userinfo(), user.host.as_str()), (Some(("me@home", "p:w@d")), "host"));
        for bad in [
            "http://",
            "http:///x",
            "http://host:x/",
            "http://host:+80/",
            "http://host:65536/",
            "http://host/\n",
            "ftp://host/",
            "host/x",
            "http://a b/",
        ] {
            assert!(HttpUrl::parse(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn nothing_that_is_printed_holds_a_secret() {
        let url = url("https://me:hidden1@host/x?X-Amz-Signature=hidden2");
        for text in [format!("{url:?}"), url.name()] {
            assert!(text.contains("host/x") && !text.contains("hidden"), "{text}");
        }
        let error = HttpUrl::parse("https://me:hidden1@host:port/x?sig=hidden2").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hidden"), "{error}");
    }

    #[test]
    fn redirects_are_read_relative_to_where_they_come_from() {
        let base = url("http://host:81/a/b?q");
        assert_eq!(base.join("c").map(|u| u.full()).as_deref(), Some("http://host:81/a/c"));
        assert_eq!(base.join("/c?x=%2F").map(|u| u.full()).as_deref(), Some("http://host:81/c?x=%2F"));
        assert_eq!(base.join("https://other/").map(|u| u.same_origin(&base)), Some(false));
        assert_eq!(base.join("ftp://other/"), None);
    }
}

//! Which proxy a request goes through, by the variables that curl and others read.

use super::target::HttpUrl;

/// The proxies of the environment.
#[derive(Clone, Debug, Default)]
pub(super) struct Proxies {
    http: Option<HttpUrl>,
    https: Option<HttpUrl>,
    exceptions: Vec<String>,
}

impl Proxies {
    pub(super) fn from_env() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(get: impl Fn(&str) -> Option<String>) -> Self {
        let url = |names: &[&str]| {
            let text = names.iter().find_map(|name| get(name).filter(|text| !text.is_empty()))?;
            let text = if text.contains("://") { text } else { format!("http://{text}") };
            match HttpUrl::parse(&text) {
                Ok(url) if !url.tls => Some(url),
                _ => {
                    tracing::warn!(variable = names[0], "only proxies at http:// URLs can be used; this one is not");
                    None
                }
            }
        };
        let exceptions = get("no_proxy").or_else(|| get("NO_PROXY")).unwrap_or_default();
        Self {
            // A CGI program has its client's `Proxy` header in HTTP_PROXY, so that it is not looked at.
            http: url(&["http_proxy", "all_proxy", "ALL_PROXY"]),
            https: url(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]),
            exceptions: exceptions.split(',').map(|item| item.trim().to_ascii_lowercase()).collect(),
        }
    }

    /// The proxy for `url`. What is near is always reached directly: a proxy would ask its own machine, and see what is
    /// given to this one.
    pub(super) fn of(&self, url: &HttpUrl) -> Option<&HttpUrl> {
        let proxy = if url.tls { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !url.is_near() && !self.is_exception(&url.host))
    }

    fn is_exception(&self, host: &str) -> bool {
        self.exceptions.iter().filter(|item| !item.is_empty()).any(|item| {
            let domain = item.trim_start_matches('.');
            let below = host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
            item == "*" || host == domain || below
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(variables: &[(&str, &str)], url: &str) -> Option<String> {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let url = HttpUrl::parse(url).unwrap();
        Proxies::from_variables(get).of(&url).map(HttpUrl::authority)
    }

    #[test]
    fn the_variables_mean_what_they_mean_elsewhere() {
        let all = [("http_proxy", "http://a:1"), ("HTTPS_PROXY", "b:2"), ("no_proxy", ".in.example, x.org")];
        assert_eq!(chosen(&all, "http://host/").as_deref(), Some("a:1"));
        assert_eq!(chosen(&all, "https://host/").as_deref(), Some("b:2"));
        for direct in ["https://in.example", "https://a.in.example", "http://x.org", "http://y.x.org"] {
            assert_eq!(chosen(&all, direct), None, "{direct}");
        }
        assert_eq!(chosen(&all, "http://notx.org").as_deref(), Some("a:1"));
        for local in ["http://localhost:1/", "http://127.0.0.1:8/", "https://[::1]/", "http://169.254.169.254/"] {
            assert_eq!(chosen(&all, local), None, "{local}");
        }
        assert_eq!(chosen(&[("ALL_PROXY", "c:3")], "https://host/").as_deref(), Some("c:3"));
        assert_eq!(chosen(&[("HTTP_PROXY", "evil:1")], "http://host/"), None);
        assert_eq!(chosen(&[("https_proxy", "socks5://c:3")], "https://host/"), None);
        assert_eq!(chosen(&[("https_proxy", "c:3"), ("NO_PROXY", "*")], "https://host/"), None);
    }
}

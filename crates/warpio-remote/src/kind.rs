use std::fmt;
use std::str::FromStr;

use warpio_core::{Error, ErrorKind, Result, redact};

use crate::http::HttpUrl;

/// The kinds of remote sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// An object of S3, or of a server that speaks its protocol: `s3://bucket/key`.
    S3,
    /// An object of Google Cloud Storage: `gs://bucket/key`.
    Gcs,
    /// A blob of Azure: `az://container/key`.
    Azure,
    /// What an HTTP server has at a URL: `https://…`, `http://…`.
    Http,
    /// An HTTP URL that holds its own permission: presigned by S3 or GCS, or with a shared access signature of Azure.
    Presigned,
    /// A file of HDFS: `webhdfs://host:port/path`, `swebhdfs://…` for TLS, or `http://host:port/webhdfs/v1/path`.
    WebHdfs,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::S3, Self::Gcs, Self::Azure, Self::Http, Self::Presigned, Self::WebHdfs];

    /// The name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gcs",
            Self::Azure => "azure",
            Self::Http => "http",
            Self::Presigned => "presigned",
            Self::WebHdfs => "webhdfs",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text.to_ascii_lowercase()).ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            Error::new(ErrorKind::InvalidConfig).with_message(format!("\"{text}\" is none of: {names}"))
        })
    }
}

/// What a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// An object of a store, its key as it stands in the URL: what is decoded is not what the store calls it.
    Object {
        kind: Kind,
        /// The account, where the URL names it (Azure).
        account: Option<String>,
        bucket: String,
        key: String,
    },
    Http {
        kind: Kind,
        url: HttpUrl,
    },
}

impl Target {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Object { kind, .. } | Self::Http { kind, .. } => *kind,
        }
    }

    /// Reads a URL. `None` for what is no URL of a remote kind.
    pub(crate) fn parse(text: &str) -> Option<Result<Self>> {
        let (scheme, rest) = text.split_once("://")?;
        let kind = match scheme.to_ascii_lowercase().as_str() {
            "s3" | "s3a" => Kind::S3,
            "gs" | "gcs" => Kind::Gcs,
            "az" | "azure" | "adl" | "abfs" | "abfss" => Kind::Azure,
            "http" | "https" => return Some(HttpUrl::parse(text).map(Self::http)),
            "webhdfs" | "swebhdfs" => return Some(hdfs(scheme, rest)),
            _ => return None,
        };
        Some(
            object(kind, rest)
                .map_err(|why| Error::invalid_input(why).with_operation("open").with_source_name(&redact(text))),
        )
    }

    fn http(url: HttpUrl) -> Self {
        let path = url.target.split('?').next().unwrap_or_default();
        let hdfs = path.strip_prefix("/webhdfs/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let kind = match (hdfs, url.is_signed()) {
            (true, _) => Kind::WebHdfs,
            (_, true) => Kind::Presigned,
            _ => Kind::Http,
        };
        Self::Http { kind, url }
    }
}

fn object(kind: Kind, rest: &str) -> Result<Target, &'static str> {
    let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
    let (bucket, account) = match authority.rsplit_once('@') {
        None => (authority, None),
        // abfss://container@account.dfs.core.windows.net/key
        Some((container, host)) if kind == Kind::Azure && !container.contains(':') => {
            (container, host.split('.').next().map(str::to_owned))
        }
        Some(_) => return Err("credentials in a URL end up in logs; set them in the environment"),
    };
    if bucket.is_empty() {
        return Err("the URL names no bucket");
    }
    if bucket.contains(['?', '#', ':']) {
        return Err("the name of the bucket cannot be read");
    }
    Ok(Target::Object { kind, account, bucket: bucket.to_owned(), key: key.to_owned() })
}

/// The path of a `webhdfs://` URL is one of HDFS, not encoded.
fn hdfs(scheme: &str, rest: &str) -> Result<Target> {
    let tls = scheme.eq_ignore_ascii_case("swebhdfs");
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = crate::http::encode_path(path.trim_start_matches('/'));
    let url = format!("{}://{authority}/webhdfs/v1/{path}", if tls { "https" } else { "http" });
    let mut url = HttpUrl::parse(&url)?;
    if !authority.contains(':') {
        // The ports of Hadoop 3.
        url.port = if tls { 9871 } else { 9870 };
    }
    Ok(Target::Http { kind: Kind::WebHdfs, url })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(text: &str) -> (Kind, Option<String>, String, String) {
        match Target::parse(text).unwrap().unwrap() {
            Target::Object { kind, account, bucket, key } => (kind, account, bucket, key),
            Target::Http { .. } => panic!("{text}"),
        }
    }

    fn http(text: &str) -> (Kind, String) {
        match Target::parse(text).unwrap().unwrap() {
            Target::Http { kind, url } => (kind, url.full()),
            Target::Object { .. } => panic!("{text}"),
        }
    }

    #[test]
    fn keys_are_taken_as_they_stand() {
        for key in ["a b", "a%20b", "a=b+c", "a#b?c", "A/Ü//b/", "", "a:b@c"] {
            assert_eq!(object(&format!("s3://bucket/{key}")), (Kind::S3, None, "bucket".into(), key.into()));
        }
        assert_eq!(object("GS://b/k").0, Kind::Gcs);
        assert_eq!(object("az://c/k"), (Kind::Azure, None, "c".into(), "k".into()));
        let abfss = object("abfss://c@acc.dfs.core.windows.net/d/k");
        assert_eq!(abfss, (Kind::Azure, Some("acc".into()), "c".into(), "d/k".into()));
    }

    #[test]
    fn http_urls_are_told_apart_by_what_they_hold() {
        assert_eq!(http("https://h/a%20b?x=1"), (Kind::Http, "https://h/a%20b?x=1".into()));
        for signed in ["X-Amz-Signature=a", "x=1&X-Goog-Signature=b", "se=1&sig=c"] {
            assert_eq!(http(&format!("https://h/a?{signed}")).0, Kind::Presigned, "{signed}");
        }
        assert_eq!(http("https://h/a?sig=c").0, Kind::Http);
        assert_eq!(http("http://h:9870/webhdfs/v1/a?op=OPEN").0, Kind::WebHdfs);
        assert_eq!(http("http://h/webhdfs/v10/a").0, Kind::Http);
        let hdfs = http("webhdfs://h/user/a b?%");
        assert_eq!(hdfs, (Kind::WebHdfs, "http://h:9870/webhdfs/v1/user/a%20b%3F%25".into()));
        assert_eq!(http("swebhdfs://h:1/x").1, "https://h:1/webhdfs/v1/x");
    }

    #[test]
    fn what_names_nothing_is_refused_and_keeps_its_secrets() {
        for bad in ["s3://", "s3:///key", "s3://KEY:hidden@bucket/k", "az://u:hidden@c/k", "gs://b?hidden/k"] {
            let error = Target::parse(bad).unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
            assert!(!format!("{error} {error:?}").contains("hidden"), "{error}");
        }
        for other in ["file:///x", "/data/x", "ftp://h/x", "data"] {
            assert!(Target::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn kinds_are_written_as_they_are_read() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse::<Kind>().unwrap(), kind);
        }
        assert!("ftp".parse::<Kind>().is_err());
    }
}

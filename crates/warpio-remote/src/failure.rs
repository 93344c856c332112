//! What went wrong with one request, and whether another try may help.

use std::borrow::Cow;
use std::time::SystemTime;

use http::header::{HeaderMap, WWW_AUTHENTICATE};
use warpio_core::{Error, ErrorKind};

use crate::http::{Fault, FaultKind};
use crate::reply::Refusal;
use crate::retry::{Outlook, retry_after};

/// A failed request.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) outlook: Outlook,
    pub(crate) error: Error,
}

impl Failure {
    pub(crate) fn last(error: Error) -> Self {
        Self { outlook: Outlook::Final, error }
    }

    pub(crate) fn again(error: Error) -> Self {
        Self { outlook: Outlook::Again { after: None }, error }
    }

    /// The failure that a status is. `code` is what the store calls it, such as `NoSuchKey`.
    pub(crate) fn status(status: u16, headers: &HeaderMap, code: Option<&str>, again: &[u16]) -> Self {
        let (kind, what) = match code {
            // Some of them come as a 400.
            Some(code) if is_expiry(code) => (ErrorKind::PermissionDenied, "access is refused"),
            _ => meaning(status),
        };
        let name = http::StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason());
        let mut message = format!("{what}: the server answers {status}");
        for word in [name, code].into_iter().flatten() {
            message = format!("{message} {word}");
        }
        message.push_str(hint(status, headers, code));
        let after = retry_after(headers, SystemTime::now());
        let slow = matches!(status, 429 | 503) || code == Some("SlowDown");
        let outlook = match again.contains(&status) {
            true if slow => Outlook::Throttled { after },
            true => Outlook::Again { after },
            false => Outlook::Final,
        };
        Self { outlook, error: Error::new(kind).with_message(message) }
    }
}

fn meaning(status: u16) -> (ErrorKind, &'static str) {
    match status {
        401 | 403 | 407 => (ErrorKind::PermissionDenied, "access is refused"),
        404 | 410 => (ErrorKind::NotFound, "there is no such object"),
        405 | 501 => (ErrorKind::Unsupported, "the server cannot do this"),
        409 => (ErrorKind::AlreadyExists, "another writer is in the way"),
        412 => (ErrorKind::Changed, "the object is not the one that was seen before"),
        507 => (ErrorKind::StorageFull, "the storage is full"),
        408 | 425 | 429 | 502..=504 => (ErrorKind::Unavailable, "the server cannot answer now"),
        300..=399 => (ErrorKind::Unsupported, "the object is elsewhere"),
        400..=499 => (ErrorKind::InvalidInput, "the server does not understand the request"),
        500..=599 => (ErrorKind::Unavailable, "the server failed"),
        _ => (ErrorKind::Integrity, "the reply is not one to this request"),
    }
}

/// Whether it is what a store calls temporary credentials that are over, or were never good.
fn is_expiry(code: &str) -> bool {
    matches!(code, "ExpiredToken" | "TokenRefreshRequired" | "InvalidToken" | "InvalidAuthenticationInfo")
}

/// What to do about it, where that can be known.
fn hint(status: u16, headers: &HeaderMap, code: Option<&str>) -> &'static str {
    let negotiate = headers
        .get_all(WWW_AUTHENTICATE)
        .iter()
        .any(|value| value.to_str().is_ok_and(|text| text.trim_start().to_ascii_lowercase().starts_with("negotiate")));
    match (status, code) {
        (401, _) if negotiate => {
            "; it wants Kerberos (Negotiate), which warpio does not speak: use a delegation token, or a gateway"
        }
        (403, Some("RequestTimeTooSkewed")) => "; the clock of this machine is wrong",
        (_, Some("ExpiredToken" | "TokenRefreshRequired")) => "; the session token has expired",
        (_, Some(code)) if is_expiry(code) => "; the token is wrong, or has expired",
        // Azure's word for a key or a shared access signature.
        (403, Some("AuthenticationFailed")) => "; the key or the signature is wrong, or has expired",
        (401, _) => "; the credentials are missing or wrong, or have expired",
        (301 | 307 | 400, Some("PermanentRedirect" | "AuthorizationHeaderMalformed")) => {
            "; the bucket is in another region: set AWS_REGION"
        }
        _ => "",
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        let kind = match fault.kind() {
            FaultKind::Connect | FaultKind::Broken | FaultKind::Ended | FaultKind::Stalled => ErrorKind::Unavailable,
            FaultKind::Certificate => ErrorKind::Io,
            FaultKind::Malformed => ErrorKind::Integrity,
            FaultKind::Request => ErrorKind::InvalidInput,
        };
        let error = Error::new(kind).with_message(fault.to_string());
        match kind {
            ErrorKind::Unavailable => Self::again(error),
            _ => Self::last(error),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let (kind, message): (_, Cow<'static, str>) = match refusal {
            Refusal::Changed(how) => (ErrorKind::Changed, format!("the object changed: {how}").into()),
            Refusal::Broken(how) => (ErrorKind::Integrity, how.into()),
            Refusal::NoRanges(_) => (ErrorKind::Unsupported, "the server sends whole objects only".into()),
            Refusal::PastEnd { .. } => (ErrorKind::UnexpectedEof, "the range lies behind the end".into()),
        };
        Self::last(Error::new(kind).with_message(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGAIN: [u16; 6] = [408, 429, 500, 502, 503, 504];

    fn status(status: u16, headers: &[(&'static str, &'static str)], code: Option<&str>) -> Failure {
        let headers =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect::<HeaderMap>();
        Failure::status(status, &headers, code, &AGAIN)
    }

    #[test]
    fn statuses_are_told_by_what_they_mean() {
        for (code, kind, again) in [
            (401, ErrorKind::PermissionDenied, false),
            (403, ErrorKind::PermissionDenied, false),
            (404, ErrorKind::NotFound, false),
            (412, ErrorKind::Changed, false),
            (429, ErrorKind::Unavailable, true),
            (500, ErrorKind::Unavailable, true),
            (503, ErrorKind::Unavailable, true),
            (505, ErrorKind::Unavailable, false),
            (204, ErrorKind::Integrity, false),
        ] {
            let failure = status(code, &[], None);
            assert_eq!((failure.error.kind(), failure.outlook != Outlook::Final), (kind, again), "{code}");
        }
    }

    #[test]
    fn kerberos_is_named_and_other_schemes_are_not() {
        let text = status(401, &[("www-authenticate", "Negotiate")], None).error.to_string();
        assert!(text.contains("Kerberos"), "{text}");
        let text = status(401, &[("www-authenticate", "Basic realm=\"x\"")], None).error.to_string();
        assert!(!text.contains("Kerberos"), "{text}");
    }

    #[test]
    fn credentials_that_are_over_are_told_whatever_the_status() {
        for (code, name) in [(400, "ExpiredToken"), (403, "ExpiredToken"), (401, "InvalidAuthenticationInfo")] {
            let error = status(code, &[], Some(name)).error;
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
            assert!(error.to_string().contains("expired"), "{error}");
        }
        assert!(status(403, &[], Some("AuthenticationFailed")).error.to_string().contains("expired"));
        assert!(status(401, &[], None).error.to_string().contains("expired"));
        assert!(!status(403, &[], Some("AccessDenied")).error.to_string().contains("expired"));
        assert_eq!(status(400, &[], Some("InvalidArgument")).error.kind(), ErrorKind::InvalidInput);
    }

    #[test]
    fn throttling_is_told_apart_and_says_when() {
        let slow = status(503, &[("retry-after", "7")], Some("SlowDown"));
        assert_eq!(slow.outlook, Outlook::Throttled { after: Some(std::time::Duration::from_secs(7)) });
        assert!(slow.error.to_string().contains("503 Service Unavailable SlowDown"), "{}", slow.error);
        assert_eq!(status(500, &[], None).outlook, Outlook::Again { after: None });
    }
}

use http::HeaderMap;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED,
};
use warpio_core::parse_decimal;

use super::content_range::ContentRange;

/// What a reply says about the object and its body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) status: u16,
    /// `Err` is a header that cannot be read.
    pub(crate) content_range: Option<Result<ContentRange, ()>>,
    pub(crate) content_length: Option<u64>,
    pub(crate) etag: Option<String>,
    pub(crate) modified: Option<String>,
    /// A compression that was not asked for.
    pub(crate) encoding: Option<String>,
    /// Several ranges in one body, each with a head of its own.
    pub(crate) multipart: bool,
    /// The server says that it serves no ranges.
    pub(crate) refuses_ranges: bool,
}

impl Facts {
    pub(crate) fn of(status: u16, headers: &HeaderMap) -> Self {
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let owned = |name| text(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let content_range = headers.get(CONTENT_RANGE).map(|value| {
            let text = String::from_utf8_lossy(value.as_bytes());
            ContentRange::parse(&text).ok_or(())
        });
        Self {
            status,
            content_range,
            content_length: text(CONTENT_LENGTH).and_then(parse_decimal),
            etag: owned(ETAG),
            modified: owned(LAST_MODIFIED),
            encoding: owned(CONTENT_ENCODING).filter(|coding| !coding.eq_ignore_ascii_case("identity")),
            multipart: text(CONTENT_TYPE).is_some_and(|text| text.to_ascii_lowercase().starts_with("multipart/byter")),
            refuses_ranges: text(ACCEPT_RANGES).is_some_and(|text| text.eq_ignore_ascii_case("none")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_that_is_no_number_is_none() {
        let length = |text: &str| {
            let headers = HeaderMap::from_iter([(CONTENT_LENGTH, text.parse().unwrap())]);
            Facts::of(200, &headers).content_length
        };
        assert_eq!((length("5"), length(" 12 ")), (Some(5), Some(12)));
        for bad in ["", "+5", "-5", "5, 5", "0x5", "18446744073709551616"] {
            assert_eq!(length(bad), None, "{bad}");
        }
    }
}

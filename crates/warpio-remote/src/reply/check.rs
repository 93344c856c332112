use std::ops::Range;

use super::facts::Facts;
use super::version::Version;

/// What the body of a reply that counts will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Promise {
    /// The part of the object that the body holds.
    pub(crate) range: Range<u64>,
    pub(crate) version: Version,
}

/// Why a successful reply does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The server sends all of the object instead of the range.
    NoRanges(Version),
    /// The range lies behind the end of the object.
    PastEnd { total: Option<u64> },
    /// The object is not the one that was seen first.
    Changed(String),
    /// The reply contradicts the request or itself.
    Broken(String),
}

/// Whether a reply to a request for `wanted` counts, `known` being what is known of the object. A range may reach past
/// the end of the object; the body then ends there.
pub(crate) fn check(facts: &Facts, wanted: &Range<u64>, known: &Version) -> Result<Promise, Refusal> {
    let broken = |text: String| Err(Refusal::Broken(text));
    match facts.status {
        206 => partial(facts, wanted, known),
        200 => whole(facts, wanted, known),
        416 => {
            let total = match &facts.content_range {
                Some(Ok(range)) => range.total,
                _ => None,
            };
            let later = Version { total, ..Version::default() };
            let same_length = Version { total: known.total, ..Version::default() };
            if let Err(difference) = same_length.check(&later) {
                return Err(Refusal::Changed(difference.to_string()));
            }
            match total.or(known.total) {
                Some(total) if wanted.start < total => {
                    broken(format!("the server says that byte {} is behind the end of {total}", wanted.start))
                }
                total => Err(Refusal::PastEnd { total }),
            }
        }
        status => broken(format!("the server answers {status} to a request for a range")),
    }
}

fn partial(facts: &Facts, wanted: &Range<u64>, known: &Version) -> Result<Promise, Refusal> {
    let broken = |text: String| Err(Refusal::Broken(text));
    if facts.multipart {
        return broken("the server sends several parts where one was asked for".to_owned());
    }
    let content = match &facts.content_range {
        Some(Ok(content)) => content,
        // Its text is not repeated: what no store sends may hold anything.
        Some(Err(_)) => return broken("the reply's Content-Range cannot be read".to_owned()),
        None => return broken("the reply is a part, but says not which: it has no Content-Range".to_owned()),
    };
    if (&content.range, content.total) == (&None, Some(0)) {
        same(facts, content.total, known)?;
        return Err(Refusal::PastEnd { total: Some(0) });
    }
    let Some(range) = content.range.clone() else {
        return broken("the reply is a part, but its Content-Range names none".to_owned());
    };
    let version = same(facts, content.total, known)?;
    let end = version.total.or(known.total).map_or(wanted.end, |total| total.min(wanted.end));
    if range != (wanted.start..end) {
        let (start, last) = (wanted.start, end.saturating_sub(1));
        return broken(format!(
            "bytes {start}-{last} were asked for, but the reply holds {}-{}",
            range.start,
            range.end - 1
        ));
    }
    let len = range.end - range.start;
    if let Some(length) = facts.content_length.filter(|&length| length != len) {
        return broken(format!("the reply holds {len} bytes by its Content-Range, but {length} by its Content-Length"));
    }
    encoded(facts)?;
    Ok(Promise { range, version })
}

fn whole(facts: &Facts, wanted: &Range<u64>, known: &Version) -> Result<Promise, Refusal> {
    if facts.content_range.is_some() {
        return Err(Refusal::Broken("the reply has a Content-Range, but is not a part (200)".to_owned()));
    }
    let version = same(facts, facts.content_length, known)?;
    encoded(facts)?;
    match version.total.or(known.total) {
        Some(total) if wanted.start == 0 && wanted.end >= total => Ok(Promise { range: 0..total, version }),
        _ => Err(Refusal::NoRanges(version)),
    }
}

fn same(facts: &Facts, total: Option<u64>, known: &Version) -> Result<Version, Refusal> {
    let version = Version::of(facts, total);
    known.check(&version).map_err(|difference| Refusal::Changed(difference.to_string()))?;
    Ok(version)
}

fn encoded(facts: &Facts) -> Result<(), Refusal> {
    match &facts.encoding {
        None => Ok(()),
        Some(coding) => Err(Refusal::Broken(format!(
            "the reply is compressed ({coding:?}), which was not asked for: its bytes are not those of the object"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    fn facts(status: u16, headers: &[(&'static str, &str)]) -> Facts {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        Facts::of(status, &map)
    }

    fn ask(status: u16, headers: &[(&'static str, &str)], wanted: Range<u64>) -> Result<Range<u64>, Refusal> {
        let known = Version { etag: Some("\"a\"".to_owned()), modified: None, total: Some(100) };
        let mut headers = headers.to_vec();
        headers.push(("etag", "\"a\""));
        check(&facts(status, &headers), &wanted, &known).map(|promise| promise.range)
    }

    fn broken(result: Result<Range<u64>, Refusal>) -> bool {
        matches!(result, Err(Refusal::Broken(_)))
    }

    #[test]
    fn the_range_that_was_asked_for_counts() {
        assert_eq!(ask(206, &[("content-range", "bytes 10-19/100")], 10..20), Ok(10..20));
        let lengths = [("content-range", "bytes 90-99/100"), ("content-length", "10")];
        assert_eq!(ask(206, &lengths, 90..120), Ok(90..100), "the end of the object cuts it");
        assert_eq!(ask(206, &[("content-range", "bytes 10-19/*")], 10..20), Ok(10..20));
    }

    #[test]
    fn any_other_range_does_not() {
        for range in ["bytes 10-18/100", "bytes 10-20/100", "bytes 11-20/100", "bytes 0-9/100", "bytes */100", "x"] {
            assert!(broken(ask(206, &[("content-range", range)], 10..20)), "{range}");
        }
        assert!(broken(ask(206, &[], 10..20)));
        let length = [("content-range", "bytes 10-19/100"), ("content-length", "11")];
        assert!(broken(ask(206, &length, 10..20)));
        let parts = [("content-range", "bytes 10-19/100"), ("content-type", "multipart/byteranges; boundary=x")];
        assert!(broken(ask(206, &parts, 10..20)));
        for status in [201, 204, 203, 205] {
            assert!(broken(ask(status, &[("content-range", "bytes 10-19/100")], 10..20)), "{status}");
        }
    }

    #[test]
    fn the_whole_object_counts_only_where_all_of_it_was_asked_for() {
        let length = [("content-length", "100")];
        assert_eq!(ask(200, &length, 0..100), Ok(0..100));
        assert_eq!(ask(200, &length, 0..200), Ok(0..100));
        assert_eq!(ask(200, &[], 0..100), Ok(0..100), "its length is known");
        for part in [0..99, 1..100, 5..200] {
            assert!(matches!(ask(200, &length, part.clone()), Err(Refusal::NoRanges(_))), "{part:?}");
        }
        let unknown = check(&facts(200, &[]), &(0..100), &Version::default());
        assert!(matches!(unknown, Err(Refusal::NoRanges(_))));
        assert!(broken(ask(200, &[("content-length", "100"), ("content-range", "bytes 0-99/100")], 0..100)));
    }

    #[test]
    fn another_object_is_noticed() {
        let changed = |headers: &[(&'static str, &str)], status| {
            let known = Version { etag: Some("\"a\"".to_owned()), modified: None, total: Some(100) };
            matches!(check(&facts(status, headers), &(0..10), &known), Err(Refusal::Changed(_)))
        };
        assert!(changed(&[("content-range", "bytes 0-9/100"), ("etag", "\"b\"")], 206));
        assert!(changed(&[("content-range", "bytes 0-9/100")], 206), "the ETag is missing");
        assert!(changed(&[("content-range", "bytes 0-9/101"), ("etag", "\"a\"")], 206));
        assert!(changed(&[("content-length", "101"), ("etag", "\"a\"")], 200));
        assert!(changed(&[("content-range", "bytes */5")], 416));
    }

    #[test]
    fn behind_the_end_is_the_end_only_where_it_is() {
        let past = Err(Refusal::PastEnd { total: Some(100) });
        assert_eq!(ask(416, &[("content-range", "bytes */100")], 100..110), past);
        assert_eq!(ask(416, &[], 100..110), past);
        assert!(broken(ask(416, &[("content-range", "bytes */100")], 10..20)));
        assert!(broken(ask(416, &[], 10..20)));
        let unknown = check(&facts(416, &[]), &(10..20), &Version::default());
        assert_eq!(unknown, Err(Refusal::PastEnd { total: None }));
    }

    #[test]
    fn compressed_bytes_are_not_the_objects() {
        for headers in [
            &[("content-range", "bytes 10-19/100"), ("content-encoding", "gzip")][..],
            &[("content-range", "bytes 10-19/100"), ("content-encoding", "br")],
        ] {
            assert!(broken(ask(206, headers, 10..20)));
        }
        assert!(broken(ask(200, &[("content-encoding", "gzip")], 0..100)));
        let identity = [("content-range", "bytes 10-19/100"), ("content-encoding", "identity")];
        assert_eq!(ask(206, &identity, 10..20), Ok(10..20));
    }
}

use std::ops::Range;

use warpio_core::parse_decimal;

/// A `Content-Range` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContentRange {
    /// What the body holds; `None` in a reply that says that the range lies behind the end.
    pub(crate) range: Option<Range<u64>>,
    /// The size of the whole object, if the server knows it.
    pub(crate) total: Option<u64>,
}

impl ContentRange {
    /// Reads `bytes 0-9/100`, `bytes 0-9/*` or `bytes */100`. `None` for anything else, ranges that end before they
    /// start or behind the total included.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (unit, rest) = text.trim().split_once(char::is_whitespace)?;
        let (range, total) = rest.trim().split_once('/')?;
        let total = match total {
            "*" => None,
            total => Some(parse_decimal(total)?),
        };
        let range = match range {
            "*" => None,
            // How some servers say that an empty object has no first byte.
            "0--1" if total == Some(0) => None,
            range => {
                let (first, last) = range.split_once('-')?;
                let (first, end) = (parse_decimal(first)?, parse_decimal::<u64>(last)?.checked_add(1)?);
                (first < end && total.is_none_or(|total| end <= total)).then_some(Some(first..end))?
            }
        };
        (unit.eq_ignore_ascii_case("bytes") && (range.is_some() || total.is_some())).then_some(Self { range, total })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_are_read_and_nonsense_is_not() {
        let parsed = |text| ContentRange::parse(text).map(|c| (c.range, c.total));
        assert_eq!(parsed("bytes 0-9/100"), Some((Some(0..10), Some(100))));
        assert_eq!(parsed(" Bytes  5-5/* "), Some((Some(5..6), None)));
        assert_eq!(parsed("bytes */100"), Some((None, Some(100))));
        assert_eq!(parsed("bytes 0--1/0"), Some((None, Some(0))));
        for bad in [
            "",
            "bytes",
            "bytes */*",
            "bytes 0-9",
            "bytes 9-0/100",
            "bytes 0-100/100",
            "bytes -9/100",
            "bytes 0-/100",
            "bytes 0-18446744073709551615/*",
            "bytes +0-9/100",
            "items 0-9/100",
            "bytes=0-9/100",
            "bytes 0-9/x",
        ] {
            assert_eq!(parsed(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(first in 0u64..1 << 60, len in 1u64..1 << 60, more in 0u64..1 << 60) {
            let (end, total) = (first + len, first + len + more);
            let parsed = ContentRange::parse(&format!("bytes {first}-{}/{total}", end - 1)).unwrap();
            prop_assert_eq!(parsed, ContentRange { range: Some(first..end), total: Some(total) });
        }

        #[test]
        fn nothing_makes_it_panic(text in ".{0,40}") {
            let _ = ContentRange::parse(&text);
            let _ = ContentRange::parse(&format!("bytes {text}"));
        }
    }
}

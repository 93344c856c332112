//! What others write. The standard library takes a `+` before a number, which no header, setting or URL may have.

use std::str::FromStr;

/// The bytes that a percent-encoded text stands for, as in URLs; `None` where a `%` is not followed by two digits.
///
/// ```
/// assert_eq!(warpio_core::percent_decode("a%20b").as_deref(), Some(&b"a b"[..]));
/// assert_eq!(warpio_core::percent_decode("100%"), None);
/// ```
pub fn percent_decode(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let (&[high, low], tail) = rest.split_first_chunk()?;
            out.push((digit(high)? << 4 | digit(low)?) as u8);
            rest = tail;
        } else {
            out.push(first);
        }
    }
    Some(out)
}

/// A number in decimal digits and nothing else; `None` for a sign or a space before it, and for what does not fit.
///
/// ```
/// assert_eq!(warpio_core::parse_decimal("007"), Some(7u64));
/// assert_eq!(warpio_core::parse_decimal::<u64>("+7"), None);
/// assert_eq!(warpio_core::parse_decimal::<u8>("256"), None);
/// ```
pub fn parse_decimal<T: FromStr>(text: &str) -> Option<T> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_percent_sign_needs_two_digits_behind_it() {
        assert_eq!(percent_decode("%00%fF+%2B").as_deref(), Some(&b"\x00\xff++"[..]));
        for bad in ["%", "%4", "%+f", "%-1", "%f+", "% 1", "%zz", "a%2", "%\u{e9}"] {
            assert_eq!(percent_decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_number_is_digits_alone() {
        assert_eq!((parse_decimal("0"), parse_decimal("18446744073709551615")), (Some(0), Some(u64::MAX)));
        for bad in ["", "+1", "-1", " 1", "1 ", "1_000", "0x1", "1.0", "\u{661}", "18446744073709551616"] {
            assert_eq!(parse_decimal::<u64>(bad), None, "{bad}");
        }
        assert_eq!(parse_decimal::<i8>("-1"), None, "what is read here is never negative");
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let text: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(percent_decode(&text), Some(bytes));
        }

        #[test]
        fn nothing_makes_it_panic(text in ".{0,40}") {
            let plain = percent_decode(&text);
            prop_assert!(text.contains('%') || plain.as_deref() == Some(text.as_bytes()));
        }
    }
}

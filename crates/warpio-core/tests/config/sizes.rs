//! Sizes in bytes, written by people.

use proptest::prelude::*;
use warpio_core::ErrorKind;
use warpio_core::config::{format_bytes, parse_bytes};

proptest! {
    #[test]
    fn what_is_written_is_read_back(bytes in any::<u64>()) {
        prop_assert_eq!(parse_bytes(&format_bytes(bytes)).unwrap(), bytes);
    }

    #[test]
    fn whole_units_are_read_back_and_written_short(n in 1u64..1024, unit in 0u32..4) {
        let text = format!("{n}{}", ["KiB", "MiB", "GiB", "TiB"][unit as usize]);
        let bytes = n << (10 * (unit + 1));
        prop_assert_eq!(parse_bytes(&text).unwrap(), bytes);
        prop_assert_eq!(format_bytes(bytes), text);
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        if let Err(error) = parse_bytes(&text) {
            prop_assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        }
    }

    #[test]
    fn numbers_with_odd_units_never_panic(text in r"[0-9.]{0,25} ?[kKmMgGtTiIbB]{0,4}") {
        if let Err(error) = parse_bytes(&text) {
            prop_assert!(error.to_string().contains(&text), "the error shows what was written: {error}");
        }
    }
}

#[test]
fn units_are_binary_or_decimal_as_they_say() {
    for (text, bytes) in [
        ("0", 0),
        ("1", 1),
        ("1b", 1),
        ("1k", 1 << 10),
        ("1K", 1 << 10),
        ("1kB", 1000),
        ("1KiB", 1 << 10),
        ("2MB", 2_000_000),
        ("8MiB", 8 << 20),
        ("8 MiB", 8 << 20),
        ("  8mib\n", 8 << 20),
        ("1.5GiB", 3 << 29),
        ("0.5k", 512),
        (".5k", 512),
        ("5.k", 5 << 10),
        ("1.5GB", 1_500_000_000),
        ("0.000000001GB", 1),
        ("3T", 3 << 40),
        ("3TB", 3_000_000_000_000),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(parse_bytes(text).unwrap_or_else(|error| panic!("{text}: {error}")), bytes, "{text}");
    }
}

#[test]
fn what_is_no_size_is_refused_with_the_reason() {
    for (text, why) in [
        ("", "no number"),
        ("MiB", "no number"),
        (".", "no number"),
        ("-1", "unknown unit"),
        ("8 potatoes", "unknown unit"),
        ("8MiBs", "unknown unit"),
        ("1e3", "unknown unit"),
        ("0x10", "unknown unit"),
        ("1,5k", "unknown unit"),
        ("1 0", "unknown unit"),
        ("1.2.3k", "not a number"),
        ("1.0000000001GB", "not a number"),
        ("1.5", "a fraction of a byte"),
        ("1.5b", "a fraction of a byte"),
        ("0.3KiB", "a fraction of a byte"),
        ("18446744073709551616", "too large"),
        ("17000000TiB", "too large"),
        ("999999999999999999999999999999999999999", "too large"),
        ("9999999999999999999999999999999999999999999", "too large"),
    ] {
        let error = parse_bytes(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().contains(why), "{text}: {error}");
    }
}

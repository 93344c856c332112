use crate::{Error, ErrorKind, Result};

const UNITS: [(&str, u64); 14] = [
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("", 1),
];

/// Parses a size in bytes: a number, with an optional fraction and an optional unit. `KiB`, `MiB`, `GiB`, `TiB` and
/// `K`, `M`, `G`, `T` are powers of 1024; `kB`, `MB`, `GB`, `TB` powers of 1000. Case does not matter.
///
/// # Errors
/// [`ErrorKind::InvalidConfig`] that says what was expected.
///
/// ```
/// use warpio_core::config::parse_bytes;
///
/// assert_eq!(parse_bytes("8MiB")?, 8 << 20);
/// assert_eq!(parse_bytes("1.5 GB")?, 1_500_000_000);
/// assert!(parse_bytes("8 potatoes").is_err());
/// # Ok::<(), warpio_core::Error>(())
/// ```
pub fn parse_bytes(text: &str) -> Result<u64> {
    let fail = |why: &str| {
        let message = format!("\"{text}\" is not a size ({why}); write a number of bytes or a unit, such as 8MiB");
        Err(Error::new(ErrorKind::InvalidConfig).with_message(message))
    };
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..digits], trimmed[digits..].trim().to_ascii_lowercase());
    let Some(&(_, factor)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return fail("unknown unit");
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return fail("no number");
    }
    if fraction.len() > 9 || fraction.contains('.') {
        return fail("not a number");
    }
    let whole: u128 = match whole {
        "" => 0,
        digits => match digits.parse() {
            Ok(n) => n,
            Err(_) => return fail("too large"),
        },
    };
    let scale = 10u128.pow(fraction.len() as u32);
    let part: u128 = if fraction.is_empty() { 0 } else { fraction.parse().unwrap_or(0) };
    let Some(scaled) =
        whole.checked_mul(scale).and_then(|n| n.checked_add(part)).and_then(|n| n.checked_mul(factor.into()))
    else {
        return fail("too large");
    };
    if !scaled.is_multiple_of(scale) {
        return fail("a fraction of a byte");
    }
    u64::try_from(scaled / scale).or_else(|_| fail("too large"))
}

/// Writes a size so that [`parse_bytes`] reads the same number back, with the largest unit that divides it.
///
/// ```
/// use warpio_core::config::format_bytes;
///
/// assert_eq!(format_bytes(8 << 20), "8MiB");
/// assert_eq!(format_bytes(1000), "1000");
/// ```
pub fn format_bytes(bytes: u64) -> String {
    for (unit, factor) in [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)] {
        if bytes >= factor && bytes.is_multiple_of(factor) {
            return format!("{}{unit}", bytes / factor);
        }
    }
    bytes.to_string()
}

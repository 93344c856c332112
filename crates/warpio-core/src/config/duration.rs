use std::time::Duration;

use crate::{Error, ErrorKind, Result};

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Parses a time: a whole number and a unit, `ms`, `s`, `m` or `h`.
///
/// # Errors
/// [`ErrorKind::InvalidConfig`] that says what was expected.
///
/// ```
/// use std::time::Duration;
/// use warpio_core::config::parse_duration;
///
/// assert_eq!(parse_duration("1500ms")?, Duration::from_millis(1500));
/// assert_eq!(parse_duration("2m")?, Duration::from_secs(120));
/// assert!(parse_duration("30").is_err(), "seconds or minutes?");
/// # Ok::<(), warpio_core::Error>(())
/// ```
pub fn parse_duration(text: &str) -> Result<Duration> {
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit()).unwrap_or(trimmed.len());
    let (number, unit) = (&trimmed[..digits], trimmed[digits..].trim().to_ascii_lowercase());
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let millis = factor.and_then(|factor| number.parse::<u64>().ok()?.checked_mul(factor));
    millis.map(Duration::from_millis).ok_or_else(|| {
        let message = format!("\"{text}\" is not a time; write a whole number and ms, s, m or h, such as 30s");
        Error::new(ErrorKind::InvalidConfig).with_message(message)
    })
}

/// Writes a time as [`parse_duration`] reads it; what is less than a millisecond is left out.
pub fn format_duration(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let largest = UNITS.iter().rev().find(|(_, factor)| millis >= *factor && millis % factor == 0);
    let (name, factor) = largest.copied().unwrap_or(UNITS[0]);
    format!("{}{name}", millis / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (text, millis) in
            [("0ms", 0), ("250ms", 250), ("1s", 1000), ("90s", 90_000), ("2m", 120_000), ("3h", 10_800_000)]
        {
            let time = Duration::from_millis(millis);
            assert_eq!(parse_duration(text).unwrap(), time);
            assert_eq!(parse_duration(&format_duration(time)).unwrap(), time);
        }
        assert_eq!(format_duration(Duration::from_secs(30)), "30s");
        assert_eq!(parse_duration(" 5 S ").unwrap(), Duration::from_secs(5));
        for bad in ["", "s", "30", "1.5s", "-1s", "1 day", "99999999999999999999s", "18446744073709551615h"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }
}

//! How much went how fast, and by which way.

use std::fmt;
use std::time::Duration;

use indicatif::BinaryBytes;
use serde_json::{Map, Value, json};
use warpio::{PathKind, TransferReport};

/// Bytes by the path that they took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Paths(Vec<(PathKind, u64)>);

impl Paths {
    pub(crate) fn json(&self) -> Value {
        Value::Object(self.0.iter().map(|(path, bytes)| (path.to_string(), json!(bytes))).collect())
    }
}

impl From<&TransferReport> for Paths {
    fn from(report: &TransferReport) -> Self {
        Self(report.paths().collect())
    }
}

impl From<Vec<(PathKind, u64)>> for Paths {
    fn from(paths: Vec<(PathKind, u64)>) -> Self {
        Self(paths)
    }
}

impl fmt::Display for Paths {
    /// `page-cache`, or `direct 8.00 MiB, page-cache 1.00 MiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0[..] {
            [] => f.write_str("none"),
            [(path, _)] => write!(f, "{path}"),
            paths => paths.iter().enumerate().try_for_each(|(n, (path, bytes))| {
                write!(f, "{}{path} {}", if n > 0 { ", " } else { "" }, BinaryBytes(*bytes))
            }),
        }
    }
}

/// What was moved, and in what time.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
    pub(crate) device: String,
    pub(crate) engine: &'static str,
    pub(crate) paths: Paths,
}

impl Figures {
    pub(crate) fn gb_per_s(&self) -> f64 {
        gb_per_s(self.bytes, self.elapsed)
    }

    /// The members that every command reports, for its object.
    pub(crate) fn json(&self) -> Map<String, Value> {
        let members = [
            ("bytes", json!(self.bytes)),
            ("seconds", json!(self.elapsed.as_secs_f64())),
            ("gb_per_s", json!(self.gb_per_s())),
            ("device", json!(self.device)),
            ("engine", json!(self.engine)),
            ("paths", self.paths.json()),
        ];
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, elapsed, device, engine, paths } = self;
        write!(f, "{bytes} bytes")?;
        if *bytes >= 1024 {
            write!(f, " ({})", BinaryBytes(*bytes))?;
        }
        writeln!(f, " in {:.6} s: {}", elapsed.as_secs_f64(), Rate(self.gb_per_s()))?;
        write!(f, "device {device}, engine {engine}, path {paths}")
    }
}

/// A rate in GB/s, with at least two digits that are not zero.
pub(crate) struct Rate(pub(crate) f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = if self.0 > 0.0 { 1.0 - self.0.log10().floor() } else { 0.0 };
        let digits = places.clamp(2.0, 9.0) as usize;
        write!(f, "{:.digits$} GB/s", self.0)
    }
}

/// 10⁹ bytes a second.
pub(crate) fn gb_per_s(bytes: u64, elapsed: Duration) -> f64 {
    if bytes == 0 { 0.0 } else { bytes as f64 / elapsed.as_secs_f64().max(1e-9) / 1e9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_in_powers_of_ten_and_of_nothing_is_none() {
        assert_eq!(gb_per_s(2_000_000_000, Duration::from_millis(500)), 4.0);
        assert_eq!(gb_per_s(0, Duration::ZERO), 0.0);
        assert!(gb_per_s(1, Duration::ZERO).is_finite());
    }

    #[test]
    fn a_slow_rate_is_not_shown_as_none() {
        for (rate, text) in [(12.345, "12.35 GB/s"), (0.51, "0.51 GB/s"), (0.00123, "0.0012 GB/s"), (0.0, "0.00 GB/s")]
        {
            assert_eq!(Rate(rate).to_string(), text);
        }
    }

    #[test]
    fn several_paths_tell_how_much_took_each() {
        let paths = |list: &[(PathKind, u64)]| Paths::from(list.to_vec());
        assert_eq!(paths(&[]).to_string(), "none");
        assert_eq!(paths(&[(PathKind::PageCache, 5)]).to_string(), "page-cache");
        let both = paths(&[(PathKind::Direct, 8 << 20), (PathKind::PageCache, 1 << 20)]);
        assert_eq!(both.to_string(), "direct 8.00 MiB, page-cache 1.00 MiB");
        assert_eq!(both.json(), json!({"direct": 8 << 20, "page-cache": 1 << 20}));
    }
}

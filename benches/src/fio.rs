//! fio, where it is installed.

use std::error::Error;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Whether it can be run.
pub fn is_installed() -> bool {
    Command::new("fio").arg("--version").output().is_ok()
}

/// Runs one job over `path` past the page cache by io_uring, and returns what fio reports of it.
///
/// # Errors
/// What fio says.
pub fn run(
    path: &Path,
    arguments: impl IntoIterator<Item: AsRef<OsStr>>,
) -> Result<Value, Box<dyn Error + Send + Sync>> {
    let output = Command::new("fio")
        .args(["--name=x", "--ioengine=io_uring", "--direct=1", "--output-format=json", "--invalidate=0"])
        .arg(format!("--filename={}", path.display()))
        .args(arguments)
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut report: Value = serde_json::from_str(&text[text.find('{').unwrap_or(0)..])?;
    Ok(report["jobs"][0].take())
}

/// A number that fio reports.
///
/// # Errors
/// There is none of this name.
pub fn number(report: &Value, name: &str) -> Result<f64, Box<dyn Error + Send + Sync>> {
    Ok(report[name].as_f64().ok_or_else(|| format!("fio says nothing of {name}"))?)
}

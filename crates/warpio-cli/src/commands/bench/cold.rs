//! Measuring what is not in the page cache.

use std::fs::File;
use std::path::Path;

use tokio::task::spawn_blocking;
use warpio::local::page_cache::{PageCacheError, Residency, drop_range};

use crate::failure::Failure;

/// What may stay, as a share: an estimate where the kernel does not count reads some pages itself.
const TOLERATED: f64 = 0.02;

/// Drops a file from the page cache, or fails where it stays.
pub(super) async fn cool(path: &Path) -> Result<(), Failure> {
    let name = path.to_owned();
    let drop_all = move || {
        let opened = File::open(&name).map_err(|source| PageCacheError::Io { what: "opening the file", source })?;
        drop_range(&opened, 0..u64::MAX)
    };
    let dropped = match spawn_blocking(drop_all).await {
        Ok(dropped) => dropped.map_err(|error| Failure::of_cache(Some(path), &error))?,
        Err(error) => return Err(Failure::new(format!("unexpected: {error}"))),
    };
    check(path, &dropped)
}

fn check(path: &Path, left: &Residency) -> Result<(), Failure> {
    if left.total_pages == 0 || left.fraction() <= TOLERATED {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} of {} pages of {} stay in the page cache, so that it cannot be measured cold: choose a file on a disk that \
         no other process uses, or leave --cold out",
        left.pages,
        left.total_pages,
        path.display()
    )))
}

//! A part of a file, as the page cache is asked about it.

use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::spawn_blocking;
use warpio::OpenOptions;
use warpio::local::page_cache::{self, Residency};
use warpio::local::sys::statx::FileInfo;

use crate::args::RangeArgs;
use crate::failure::Failure;

/// An open file, and the range that is meant.
pub(super) struct CachedFile {
    pub(super) path: PathBuf,
    pub(super) range: Range<u64>,
    fd: Arc<OwnedFd>,
}

impl CachedFile {
    pub(super) async fn open(path: &std::path::Path, range: &RangeArgs) -> Result<Self, Failure> {
        let path = warpio::local_path(path)?;
        let named = path.clone();
        let (fd, size) = blocking(move || {
            let fd = OpenOptions::new().read(true).open(&named).map_err(warpio::Error::from)?;
            let info = FileInfo::of(fd.as_fd())
                .map_err(|error| Failure::new(format!("{}: its size is unknown: {error}", named.display())))?;
            Ok((Arc::new(fd), info.size))
        })
        .await?;
        Ok(Self { range: range.within(size, &path)?, path, fd })
    }

    /// Asks the page cache, or has it do something, about a range.
    pub(super) async fn ask(
        &self,
        range: Range<u64>,
        call: impl FnOnce(&OwnedFd, Range<u64>) -> page_cache::Result<Residency> + Send + 'static,
    ) -> Result<Residency, Failure> {
        let (fd, path) = (self.fd.clone(), self.path.clone());
        blocking(move || call(&fd, range).map_err(|error| Failure::of_cache(Some(&path), &error))).await
    }

    /// What is cached of the range now.
    pub(super) async fn residency(&self) -> Result<Residency, Failure> {
        self.ask(self.range.clone(), |fd, range| page_cache::residency(fd, range)).await
    }
}

/// Runs what may wait for the disk where it keeps nobody from hearing an interruption.
pub(super) async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    // It fails to join only if it panicked.
    spawn_blocking(call).await.unwrap_or_else(|error| Err(Failure::new(format!("unexpected: {error}"))))
}

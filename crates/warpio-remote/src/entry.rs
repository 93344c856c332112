use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use futures::Stream;
use tokio::sync::mpsc;
use warpio_core::Result;

/// What a store says about one of its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The key: the name in its store, exactly as it is called there. In listings of S3, GCS and Azure, a slash at its
    /// beginning or end is missing.
    pub key: String,
    /// The length in bytes.
    pub size: u64,
    /// When it was written last, where the store tells it.
    pub modified: Option<SystemTime>,
    /// The ETag, where the store tells it.
    pub etag: Option<String>,
}

impl Entry {
    pub(crate) fn new(key: String, size: u64) -> Self {
        Self { key, size, modified: None, etag: None }
    }
}

/// The objects whose keys begin with a prefix, in no order that is promised. It is asked for in pages, as it is read;
/// dropped before its end, the rest is not asked for. It is also a [`Stream`].
pub struct Listing {
    entries: mpsc::Receiver<Result<Entry>>,
}

impl Listing {
    pub(crate) fn new(entries: mpsc::Receiver<Result<Entry>>) -> Self {
        Self { entries }
    }

    /// The next object; `None` behind the last, and after an error.
    ///
    /// # Errors
    /// What the store reports: [`PermissionDenied`](warpio_core::ErrorKind::PermissionDenied),
    /// [`Unavailable`](warpio_core::ErrorKind::Unavailable), …
    pub async fn try_next(&mut self) -> Result<Option<Entry>> {
        self.entries.recv().await.transpose()
    }
}

impl Stream for Listing {
    type Item = Result<Entry>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.entries.poll_recv(cx)
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").finish_non_exhaustive()
    }
}

use std::fmt;
use std::sync::Arc;

use warpio_core::Result;

use super::Key;
use crate::context::RemoteContext;
use crate::origin::{Store, StoreOrigin};
use crate::read::Remote;

/// A bucket or container of a store.
#[derive(Clone)]
pub struct Bucket {
    pub(crate) context: RemoteContext,
    pub(crate) store: Store,
    /// The same store, whose uploads are completed only where there is no object yet.
    pub(crate) create_only: Store,
}

impl Bucket {
    /// Opens an object. Its key is taken as it is: nothing in it is decoded.
    ///
    /// # Errors
    /// [`NotFound`](warpio_core::ErrorKind::NotFound), [`PermissionDenied`](warpio_core::ErrorKind::PermissionDenied),
    /// [`Unavailable`](warpio_core::ErrorKind::Unavailable);
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a key that cannot be asked for.
    pub async fn open(&self, key: &str) -> Result<Remote> {
        let source = self.source(key)?;
        source.look_up().await?;
        Ok(source)
    }

    /// As [`open`](Self::open), but asks for nothing yet: the first read or [`size`](warpio_core::AsyncDeviceRead::size)
    /// does.
    ///
    /// # Errors
    /// [`InvalidInput`](warpio_core::ErrorKind::InvalidInput) for a key that cannot be asked for.
    pub fn source(&self, key: &str) -> Result<Remote> {
        let path = Key::new(key).path(self.store.encodes_keys).map_err(|error| self.named(error, "open", key))?;
        self.context.remote(Arc::new(StoreOrigin::new(self.store.clone(), path, key)), None)
    }

    pub(crate) fn named(&self, error: warpio_core::Error, operation: &'static str, key: &str) -> warpio_core::Error {
        error.with_operation(operation).with_source_name(&self.store.url(key))
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.store).finish()
    }
}

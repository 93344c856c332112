use std::fmt;
use std::sync::Arc;

use futures::StreamExt;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use tokio::sync::mpsc;
#[allow(unused_imports)]
use warpio_core::ErrorKind;
use warpio_core::{Error, Result};

use super::Key;
use crate::context::RemoteContext;
use crate::entry::{Entry, Listing};
use crate::origin::{Note, Store, StoreOrigin, store_failure, with_note};
use crate::read::Remote;
use crate::server::Server;
use crate::write::{ObjectBackend, RemoteSink};

/// A bucket or container of a store. Keys are taken as they are: nothing in them is decoded.
#[derive(Clone)]
pub struct Bucket {
    pub(crate) context: RemoteContext,
    pub(crate) store: Store,
    /// The same store, whose uploads are completed only where there is no object yet.
    pub(crate) create_only: Store,
}

/// Objects of a listing that are fetched ahead of whoever reads it.
const AHEAD: usize = 1000;

impl Bucket {
    /// Opens an object, and asks whether it is there.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound), [`PermissionDenied`](ErrorKind::PermissionDenied),
    /// [`Unavailable`](ErrorKind::Unavailable); [`InvalidInput`](ErrorKind::InvalidInput) for a key that cannot be
    /// asked for.
    pub async fn open(&self, key: &str) -> Result<Remote> {
        let source = self.source(key)?;
        source.look_up().await?;
        Ok(source)
    }

    /// As [`open`](Self::open), but asks for nothing yet: the first read or [`size`](warpio_core::AsyncDeviceRead::size)
    /// does.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a key that cannot be asked for.
    pub fn source(&self, key: &str) -> Result<Remote> {
        let path = Key::new(key).path().map_err(|error| self.named(error, "open", key))?;
        self.context.remote(Arc::new(StoreOrigin::new(self.store.clone(), path, key)), None)
    }

    /// Begins an object that shows when it is [finished](warpio_core::AsyncDeviceWrite::finish), in the place of one
    /// that is there. Nothing is sent yet.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a key that cannot be asked for.
    pub fn create(&self, key: &str) -> Result<RemoteSink> {
        self.sink(&self.store, key, false)
    }

    /// As [`create`](Self::create), but where there is an object of this key when it is finished, it stays, and finishing
    /// fails as [`AlreadyExists`](ErrorKind::AlreadyExists). GCS can do so only for objects of one part. Where the reply
    /// to the last request is lost and it is sent again, the object found there may be this very one.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn create_new(&self, key: &str) -> Result<RemoteSink> {
        self.sink(&self.create_only, key, true)
    }

    fn sink(&self, store: &Store, key: &str, create_only: bool) -> Result<RemoteSink> {
        let path = Key::new(key).path().map_err(|error| self.named(error, "create", key))?;
        let backend = ObjectBackend::new(store.clone(), path, key, create_only);
        self.context.sink(Box::new(backend), &store.server)
    }

    /// What the store says about an object.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn stat(&self, key: &str) -> Result<Entry> {
        let path = Key::new(key).path().map_err(|error| self.named(error, "stat", key))?;
        let (store, shared, owned) = (self.store.clone(), self.server()?, key.to_owned());
        let stat = async move {
            let url = store.url(&owned);
            let meta = shared.try_until(&url, || call(&store, store.store.head(&path))).await?;
            Ok(Entry { key: owned, ..entry(&meta) })
        };
        self.run(stat).await.map_err(|error| self.named(error, "stat", key))
    }

    /// Deletes an object. Stores tell no failure where there is none.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn delete(&self, key: &str) -> Result<()> {
        let path = Key::new(key).path().map_err(|error| self.named(error, "delete", key))?;
        let (store, shared, url) = (self.store.clone(), self.server()?, self.store.url(key));
        let delete = async move { shared.try_until(&url, || call(&store, store.store.delete(&path))).await };
        self.run(delete).await.map_err(|error| self.named(error, "delete", key))
    }

    /// The objects below a prefix: those whose keys go on with a slash behind it, or all for an empty one.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for a prefix that cannot be asked for; others come out of the listing.
    pub fn list(&self, prefix: &str) -> Result<Listing> {
        let path = Key::new(prefix).prefix().map_err(|error| self.named(error, "list", prefix))?;
        let (entries, listing) = mpsc::channel(AHEAD);
        let (store, shared, url) = (self.store.clone(), self.server()?, self.store.url(prefix));
        self.context.net()?.spawn(async move {
            let mut tries = shared.tries();
            let mut last = None;
            loop {
                let (note, before) = (Note::default(), last.clone());
                let failure = with_note(&note, page(&store, path.as_ref(), &mut last, &entries)).await;
                let Err(failure) = failure else { return };
                if last != before {
                    tries = shared.tries();
                }
                let failure = store_failure(&failure, &note, &store);
                if let Err(error) = tries.again(failure, &url).await {
                    let error = error.with_operation("list").with_source_name(&url);
                    // Nobody may be listening any more.
                    let _ = entries.send(Err(error)).await;
                    return;
                }
            }
        });
        Ok(Listing::new(listing))
    }

    fn server(&self) -> Result<Arc<Server>> {
        self.context.server_of(&self.store.server)
    }

    async fn run<T: Send + 'static>(&self, call: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        self.context.net()?.run(call).await
    }

    fn named(&self, error: Error, operation: &'static str, key: &str) -> Error {
        error.with_operation(operation).with_source_name(&self.store.url(key))
    }
}

/// Passes a listing on, from behind the last object that was.
async fn page(
    store: &Store,
    prefix: Option<&object_store::path::Path>,
    last: &mut Option<object_store::path::Path>,
    entries: &mpsc::Sender<Result<Entry>>,
) -> object_store::Result<()> {
    let mut list = match &*last {
        Some(last) => store.store.list_with_offset(prefix, last),
        None => store.store.list(prefix),
    };
    while let Some(meta) = list.next().await {
        let meta = meta?;
        if entries.send(Ok(entry(&meta))).await.is_err() {
            break;
        }
        *last = Some(meta.location);
    }
    Ok(())
}

async fn call<T>(
    store: &Store,
    call: impl Future<Output = object_store::Result<T>>,
) -> Result<T, crate::failure::Failure> {
    let note = Note::default();
    with_note(&note, call).await.map_err(|error| store_failure(&error, &note, store))
}

fn entry(meta: &ObjectMeta) -> Entry {
    let mut entry = Entry::new(meta.location.to_string(), meta.size);
    entry.modified = Some(meta.last_modified.into());
    entry.etag.clone_from(&meta.e_tag);
    entry
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.store).finish()
    }
}

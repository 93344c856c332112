use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use warpio_core::{Error, ErrorKind};

use super::backend::Backend;
use crate::failure::Failure;
use crate::kind::Kind;
use crate::origin::{Note, Store, store_failure, with_note};
use crate::retry::Outlook;

/// A new object of a store, uploaded in parts.
#[derive(Debug)]
pub(crate) struct ObjectBackend {
    store: Store,
    path: Path,
    name: String,
    /// Only where there is no object of this name yet.
    create_only: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    id: Option<String>,
    parts: Vec<Option<PartId>>,
    /// The store was asked before to make the object of its parts.
    completing: bool,
}

impl ObjectBackend {
    pub(crate) fn new(store: Store, path: Path, key: &str, create_only: bool) -> Self {
        let name = store.url(key);
        Self { store, path, name, create_only, state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn multipart(&self) -> Result<Arc<dyn MultipartStore>, Failure> {
        self.store.multipart.clone().ok_or_else(|| {
            Failure::last(Error::new(ErrorKind::Unsupported).with_message("the store takes no objects in parts"))
        })
    }

    fn id(&self) -> Result<String, Failure> {
        self.lock().id.clone().ok_or_else(|| Failure::last(Error::new(ErrorKind::Gone)))
    }

    /// Makes a call of the library's, and reads what became of it.
    async fn call<T>(&self, call: impl Future<Output = object_store::Result<T>>) -> Result<T, Failure> {
        let note = Note::default();
        with_note(&note, call).await.map_err(|error| store_failure(&error, &note, &self.store))
    }

    /// A condition that was not met says that there is an object already.
    fn exists(&self, failure: Failure) -> Failure {
        match (self.create_only, failure.error.kind()) {
            (true, ErrorKind::Changed) => {
                let message = "there is an object of this name already";
                Failure::last(Error::new(ErrorKind::AlreadyExists).with_message(message))
            }
            _ => failure,
        }
    }
}

#[async_trait]
impl Backend for ObjectBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        self.store.kind
    }

    fn is_parallel(&self) -> bool {
        true
    }

    async fn begin(&self) -> Result<(), Failure> {
        if self.create_only && self.store.kind == Kind::Gcs.as_str() {
            let message = "GCS can keep what is there only from objects of one part";
            return Err(Failure::last(Error::new(ErrorKind::Unsupported).with_message(message)));
        }
        let multipart = self.multipart()?;
        let id = self.call(multipart.create_multipart(&self.path)).await?;
        self.lock().id = Some(id);
        Ok(())
    }

    async fn put_part(&self, index: usize, _offset: u64, bytes: Bytes) -> Result<(), Failure> {
        let (multipart, id) = (self.multipart()?, self.id()?);
        let part = self.call(multipart.put_part(&self.path, &id, index, bytes.into())).await?;
        let mut state = self.lock();
        if state.parts.len() <= index {
            state.parts.resize(index + 1, None);
        }
        state.parts[index] = Some(part);
        Ok(())
    }

    async fn complete(&self, parts: usize, len: u64) -> Result<(), Failure> {
        let (multipart, id) = (self.multipart()?, self.id()?);
        let ids: Option<Vec<PartId>> = self.lock().parts.iter().cloned().collect();
        let ids = ids.filter(|ids| ids.len() == parts).ok_or_else(|| {
            Failure::last(Error::new(ErrorKind::Integrity).with_message("a part of the object was not uploaded"))
        })?;
        let again = std::mem::replace(&mut self.lock().completing, true);
        let failure = match self.call(multipart.complete_multipart(&self.path, &id, ids)).await {
            Ok(_) => return Ok(()),
            Err(failure) => failure,
        };
        // A repetition finds the upload gone where only the reply was lost. At the first try, the store has thrown it
        // away, and an object as long is the one of before.
        if again && failure.error.kind() == ErrorKind::NotFound {
            match self.call(self.store.store.head(&self.path)).await {
                Ok(meta) if meta.size == len => return Ok(()),
                Err(again) if again.outlook != Outlook::Final => return Err(again),
                _ => {}
            }
        }
        Err(self.exists(failure))
    }

    async fn put_whole(&self, bytes: Bytes) -> Result<(), Failure> {
        let mode = if self.create_only { PutMode::Create } else { PutMode::Overwrite };
        let options = PutOptions { mode, ..PutOptions::default() };
        let put = self.call(self.store.store.put_opts(&self.path, bytes.into(), options)).await;
        put.map(drop).map_err(|failure| self.exists(failure))
    }

    async fn abort(&self) -> Result<(), Failure> {
        let Ok(id) = self.id() else { return Ok(()) };
        let multipart = self.multipart()?;
        self.call(multipart.abort_multipart(&self.path, &id)).await
    }
}

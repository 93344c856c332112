use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResultPayload, ObjectStore, ObjectStoreExt};
use warpio_core::{Error, ErrorKind};

use super::credentials::Credentials;
use super::note::Note;
use super::{Opened, Origin, Payload};
use crate::failure::Failure;
use crate::reply::{ContentRange, Facts};
use crate::retry::Outlook;

/// A store of objects, and what is known about it.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) store: Arc<dyn ObjectStore>,
    /// The same, where it takes parts one by one.
    pub(crate) multipart: Option<Arc<dyn MultipartStore>>,
    pub(crate) kind: &'static str,
    /// In front of every key in names: `s3://bucket`.
    pub(crate) base: Arc<str>,
    pub(crate) server: Arc<str>,
    /// Its requests go through our client, which notes what became of them.
    pub(crate) notes: bool,
    /// Statuses that may pass.
    pub(crate) statuses: Arc<[u16]>,
    /// Where its credentials come from, if they are asked for by our client.
    pub(crate) credentials: Option<Arc<Credentials>>,
}

impl Store {
    /// What to do where no credentials are found.
    fn no_credentials(&self) -> &'static str {
        match self.kind {
            "gcs" => {
                "no credentials were found: set them in the environment (GOOGLE_APPLICATION_CREDENTIALS, …), or say that \
                 the bucket is public (GOOGLE_SKIP_SIGNATURE=true)"
            }
            "azure" => {
                "no credentials were found: set them in the environment (AZURE_STORAGE_ACCOUNT_KEY, …), or say that the \
                 container is public (AZURE_SKIP_SIGNATURE=true)"
            }
            _ => {
                "no credentials were found: set them in the environment (AWS_ACCESS_KEY_ID, …), or say that the bucket \
                 is public (AWS_SKIP_SIGNATURE=true)"
            }
        }
    }

    /// The URL of an object, its key as it is.
    pub(crate) fn url(&self, key: &str) -> String {
        format!("{}/{key}", self.base)
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The store itself would print its configuration.
        f.debug_struct("Store").field("kind", &self.kind).field("base", &self.base).finish_non_exhaustive()
    }
}

/// An object of a store.
#[derive(Debug)]
pub(crate) struct StoreOrigin {
    store: Store,
    path: Path,
    name: String,
}

impl StoreOrigin {
    pub(crate) fn new(store: Store, path: Path, key: &str) -> Self {
        let name = store.url(key);
        Self { store, path, name }
    }

    async fn request(&self, range: Option<Range<u64>>, note: &Note, head: bool) -> Result<Opened, Failure> {
        let mut options = GetOptions { range: range.clone().map(GetRange::Bounded), head, ..GetOptions::default() };
        options.extensions.insert(note.clone());
        let got = self.store.store.get_opts(&self.path, options).await;
        // What the server said counts, whatever the library made of it.
        if let (Some(facts), Some(body)) = note.take() {
            return Ok(Opened { facts: stored(facts), payload: Payload::Wire(body) });
        }
        let got = match got {
            Ok(got) => got,
            Err(error) => return refused(error, note, &self.store),
        };
        let mut facts = Facts {
            status: 206,
            content_range: Some(Ok(ContentRange { range: Some(got.range.clone()), total: Some(got.meta.size) })),
            content_length: Some(got.range.end - got.range.start),
            etag: got.meta.e_tag.clone(),
            modified: Some(got.meta.last_modified.to_rfc2822()),
            ..Facts::default()
        };
        if range.is_none() {
            facts = Facts { status: 200, content_range: None, content_length: Some(got.meta.size), ..facts };
        }
        let payload = match got.payload {
            GetResultPayload::Stream(stream) => Payload::stream(stream),
            #[allow(unreachable_patterns)]
            _ => Payload::stream(got.into_stream()),
        };
        Ok(Opened { facts, payload })
    }
}

/// Compression is a property of the object here, and its bytes are sent as they are stored.
fn stored(facts: Facts) -> Facts {
    Facts { encoding: None, ..facts }
}

/// A 416 is an answer, all else that is no success a failure.
fn refused(error: object_store::Error, note: &Note, store: &Store) -> Result<Opened, Failure> {
    match note.past_end() {
        Some(facts) => Ok(Opened { facts, payload: Payload::stream(Box::pin(futures::stream::empty())) }),
        None => Err(store_failure(&error, note, store)),
    }
}

/// What a store's error means. Its text is not passed on: it may hold what was sent, keys and tokens included.
pub(crate) fn store_failure(error: &object_store::Error, note: &Note, store: &Store) -> Failure {
    use object_store::Error as E;
    if let Some(mut failure) = note.failure(&store.statuses) {
        // The store's own reading of a status is the finer one.
        if matches!(error, E::AlreadyExists { .. }) {
            let message = "there is an object of this name already";
            failure.error = Error::new(ErrorKind::AlreadyExists).with_message(message);
        }
        return failure;
    }
    if matches!(error, E::Generic { .. }) && note.has_succeeded() {
        let message = "the store's reply broke off, or tells of a failure";
        return Failure::again(Error::new(ErrorKind::Unavailable).with_message(message));
    }
    if is_about_credentials(error, store) {
        let refusal = store.credentials.as_ref().and_then(|credentials| credentials.refusal());
        let none = || Error::new(ErrorKind::PermissionDenied).with_message(store.no_credentials());
        return Failure::last(refusal.unwrap_or_else(none));
    }
    let (kind, message) = match error {
        E::NotFound { .. } => (ErrorKind::NotFound, "there is no such object"),
        E::AlreadyExists { .. } => (ErrorKind::AlreadyExists, "there is an object of this name already"),
        E::Precondition { .. } | E::NotModified { .. } => (ErrorKind::Changed, "the object is not the one expected"),
        E::PermissionDenied { .. } => (ErrorKind::PermissionDenied, "access is refused"),
        E::Unauthenticated { .. } => (ErrorKind::PermissionDenied, "the credentials are refused"),
        E::NotSupported { .. } | E::NotImplemented { .. } => (ErrorKind::Unsupported, "the store cannot do this"),
        E::InvalidPath { .. } => (ErrorKind::InvalidInput, "the store cannot have a key like this"),
        E::UnknownConfigurationKey { .. } => (ErrorKind::InvalidConfig, "a setting of the store is unknown"),
        _ => (ErrorKind::Io, "the store's reply cannot be used"),
    };
    Failure { outlook: Outlook::Final, error: Error::new(kind).with_message(message) }
}

/// Whether it happened before the request for the object was sent.
fn is_about_credentials(error: &object_store::Error, store: &Store) -> bool {
    if !matches!(error, object_store::Error::Generic { .. }) {
        return false;
    }
    if store.credentials.as_ref().is_some_and(|credentials| credentials.are_missing()) {
        return true;
    }
    // An answer without credentials in it, a file that cannot be read.
    let text = error.to_string().to_ascii_lowercase();
    ["credential", "token", "metadata", "169.254."].iter().any(|word| text.contains(word))
}

#[async_trait]
impl Origin for StoreOrigin {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        self.store.kind
    }

    fn server(&self) -> &str {
        &self.store.server
    }

    async fn head(&self) -> Result<Facts, Failure> {
        if self.store.notes {
            return Ok(self.request(None, &Note::taking_body(), true).await?.facts);
        }
        let meta = self.store.store.head(&self.path).await;
        let meta = meta.map_err(|error| store_failure(&error, &Note::default(), &self.store))?;
        let modified = Some(meta.last_modified.to_rfc2822());
        Ok(Facts { status: 200, content_length: Some(meta.size), etag: meta.e_tag, modified, ..Facts::default() })
    }

    async fn get(&self, range: Option<Range<u64>>) -> Result<Opened, Failure> {
        self.request(range, &Note::taking_body(), false).await
    }
}

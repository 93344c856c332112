//! The stores, one module each: what is said about one, and how it becomes a [`Bucket`] or a source.

mod azure;
mod bucket;
mod gcs;
mod http;
mod key;
mod s3;
mod webhdfs;

pub use azure::{Azure, AzureBuilder};
pub use bucket::Bucket;
pub use gcs::{Gcs, GcsBuilder};
pub use http::{Http, HttpBuilder};
pub(crate) use key::Key;
pub use s3::{S3, S3Builder};
pub use webhdfs::{WebHdfs, WebHdfsBuilder};

use std::sync::Arc;
use std::time::Duration;

use object_store::multipart::MultipartStore;
use object_store::{ObjectStore, RetryConfig};
use warpio_core::{Error, ErrorKind};

use crate::context::RemoteContext;
use crate::kind::Kind;
use crate::origin::{Credentials, Store};

/// Repetitions are ours alone: the library would not know what the others do.
fn no_retry() -> RetryConfig {
    RetryConfig { max_retries: 0, retry_timeout: Duration::ZERO, ..RetryConfig::default() }
}

/// A store that was built on our client.
fn store<S: ObjectStore + MultipartStore>(
    context: &RemoteContext,
    store: S,
    kind: Kind,
    base: String,
    endpoint: Option<&str>,
    credentials: Arc<Credentials>,
) -> Store {
    let store = Arc::new(store);
    // The same bucket may be on several servers.
    let server = format!("{base} {}", endpoint.map(warpio_core::redact).unwrap_or_default());
    Store {
        multipart: Some(store.clone()),
        store,
        kind: kind.as_str(),
        base: base.into(),
        server: server.into(),
        notes: true,
        statuses: context.settings().statuses.clone().into(),
        credentials: Some(credentials),
    }
}

/// What a library says about its settings. It names them, not their values, but for one kind that repeats what cannot
/// be read.
fn refused(kind: Kind, error: &object_store::Error) -> Error {
    let what = match error {
        object_store::Error::Generic { source, .. } => source.to_string(),
        object_store::Error::UnknownConfigurationKey { key, .. } => format!("there is no setting {key:?}"),
        _ => "its settings do not go together".to_owned(),
    };
    let what = what.split([':', '"']).next().unwrap_or_default().to_owned();
    Error::new(ErrorKind::InvalidConfig).with_message(format!("the store {kind} cannot be used: {what}"))
}

use std::fmt;

use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use warpio_core::Result;

use super::bucket::Bucket;
use crate::context::RemoteContext;
use crate::kind::Kind;
use crate::origin::{Connector, Store};

/// Google Cloud Storage.
#[derive(Debug)]
pub struct Gcs;

impl Gcs {
    /// A store of which nothing is known yet.
    pub fn builder() -> GcsBuilder {
        GcsBuilder { builder: GoogleCloudStorageBuilder::new(), endpoint: None }
    }

    /// A store as the environment describes it: `GOOGLE_SERVICE_ACCOUNT`, `GOOGLE_APPLICATION_CREDENTIALS` and all
    /// others that object_store knows; else by what the instance is given. What expires is renewed.
    pub fn from_env() -> GcsBuilder {
        GcsBuilder { builder: GoogleCloudStorageBuilder::from_env(), endpoint: None }
    }
}

/// What is said about Google Cloud Storage.
#[derive(Clone)]
#[must_use = "it is a description; bucket() makes something of it"]
pub struct GcsBuilder {
    builder: GoogleCloudStorageBuilder,
    endpoint: Option<String>,
}

impl GcsBuilder {
    fn with(self, change: impl FnOnce(GoogleCloudStorageBuilder) -> GoogleCloudStorageBuilder) -> Self {
        Self { builder: change(self.builder), ..self }
    }

    /// Another server than Google's.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// The key of a service account, as JSON.
    pub fn service_account_key(self, json: impl Into<String>) -> Self {
        self.with(|builder| builder.with_service_account_key(json))
    }

    /// The file that holds the key of a service account.
    pub fn service_account_path(self, path: impl Into<String>) -> Self {
        self.with(|builder| builder.with_service_account_path(path))
    }

    /// A token that was got elsewhere. It is not renewed.
    pub fn bearer_token(self, token: impl Into<String>) -> Self {
        self.with(|builder| builder.with_bearer_token(token))
    }

    /// Signs nothing: for reading public buckets. A write asks for credentials all the same, as object_store does.
    pub fn anonymous(self) -> Self {
        self.with(|builder| builder.with_skip_signature(true))
    }

    /// Any setting of object_store's, by its name.
    ///
    /// # Errors
    /// [`InvalidConfig`](warpio_core::ErrorKind::InvalidConfig) for a name that it does not know.
    pub fn option(self, name: &str, value: impl Into<String>) -> Result<Self> {
        let key: GoogleConfigKey = name.parse().map_err(|error| super::refused(Kind::Gcs, &error))?;
        Ok(self.with(|builder| builder.with_config(key, value)))
    }

    /// A bucket of this store.
    ///
    /// # Errors
    /// [`InvalidConfig`](warpio_core::ErrorKind::InvalidConfig) when the settings do not go together.
    pub fn bucket(&self, context: &RemoteContext, name: &str) -> Result<Bucket> {
        let store = |create_only| self.store(context, name, create_only);
        Ok(Bucket { context: context.clone(), store: store(false)?, create_only: store(true)? })
    }

    fn store(&self, context: &RemoteContext, name: &str, create_only: bool) -> Result<Store> {
        let mut builder = self.builder.clone();
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_base_url(endpoint.trim_end_matches('/'));
        }
        let connector = Connector::new(context.client()?, context.settings()).create_only(create_only);
        let credentials = connector.credentials();
        let built = builder
            .with_bucket_name(name)
            .with_client_options(object_store::ClientOptions::new().with_allow_http(true))
            .with_retry(super::no_retry())
            .with_http_connector(connector)
            .build()
            .map_err(|error| super::refused(Kind::Gcs, &error))?;
        Ok(super::store(context, built, Kind::Gcs, format!("gs://{name}"), self.endpoint.as_deref(), credentials))
    }
}

impl fmt::Debug for GcsBuilder {
    /// Without the settings, some of which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcsBuilder")
            .field("endpoint", &self.endpoint.as_deref().map(warpio_core::redact))
            .finish_non_exhaustive()
    }
}

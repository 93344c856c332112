use std::fmt;

use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use warpio_core::Result;

use super::bucket::Bucket;
use crate::context::RemoteContext;
use crate::kind::Kind;
use crate::origin::{Connector, Store};

/// Azure Blob Storage.
#[derive(Debug)]
pub struct Azure;

impl Azure {
    /// A store of which nothing is known yet.
    pub fn builder() -> AzureBuilder {
        AzureBuilder { builder: MicrosoftAzureBuilder::new(), endpoint: None }
    }

    /// A store as the environment describes it: `AZURE_STORAGE_ACCOUNT_NAME`, `AZURE_STORAGE_ACCOUNT_KEY` and all others
    /// that object_store knows; else by workload identity, or by what the machine is given. What expires is renewed.
    pub fn from_env() -> AzureBuilder {
        AzureBuilder { builder: MicrosoftAzureBuilder::from_env(), endpoint: None }
    }
}

/// What is said about a storage account of Azure's.
#[derive(Clone)]
#[must_use = "it is a description; bucket() makes something of it"]
pub struct AzureBuilder {
    builder: MicrosoftAzureBuilder,
    endpoint: Option<String>,
}

impl AzureBuilder {
    fn with(self, change: impl FnOnce(MicrosoftAzureBuilder) -> MicrosoftAzureBuilder) -> Self {
        Self { builder: change(self.builder), ..self }
    }

    /// Another server than Azure's, up to the container: Azurite's is `http://127.0.0.1:10000/devstoreaccount1`.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        self.endpoint = Some(url.clone());
        self.with(|builder| builder.with_endpoint(url))
    }

    /// The name of the storage account.
    pub fn account(self, name: impl Into<String>) -> Self {
        self.with(|builder| builder.with_account(name))
    }

    /// The key of the account, in base 64.
    pub fn access_key(self, key: impl Into<String>) -> Self {
        self.with(|builder| builder.with_access_key(key))
    }

    /// A shared access signature, as a query string.
    ///
    /// # Errors
    /// [`InvalidConfig`](warpio_core::ErrorKind::InvalidConfig) for what is none.
    pub fn shared_access_signature(self, query: &str) -> Result<Self> {
        self.option("azure_storage_sas_key", query.trim_start_matches('?'))
    }

    /// A token that was got elsewhere. It is not renewed.
    pub fn bearer_token(self, token: impl Into<String>) -> Self {
        self.with(|builder| builder.with_bearer_token_authorization(token))
    }

    /// Signs nothing: for public containers.
    pub fn anonymous(self) -> Self {
        self.with(|builder| builder.with_skip_signature(true))
    }

    /// Any setting of object_store's, by its name.
    ///
    /// # Errors
    /// [`InvalidConfig`](warpio_core::ErrorKind::InvalidConfig) for a name that it does not know.
    pub fn option(self, name: &str, value: impl Into<String>) -> Result<Self> {
        let key: AzureConfigKey = name.parse().map_err(|error| super::refused(Kind::Azure, &error))?;
        Ok(self.with(|builder| builder.with_config(key, value)))
    }

    /// A container of this account.
    ///
    /// # Errors
    /// [`InvalidConfig`](warpio_core::ErrorKind::InvalidConfig) when the settings do not go together.
    pub fn bucket(&self, context: &RemoteContext, name: &str) -> Result<Bucket> {
        let store = |create_only| self.store(context, name, create_only);
        Ok(Bucket { context: context.clone(), store: store(false)?, create_only: store(true)? })
    }

    fn store(&self, context: &RemoteContext, name: &str, create_only: bool) -> Result<Store> {
        let connector = Connector::new(context.client()?, context.settings()).create_only(create_only);
        let credentials = connector.credentials();
        let built = self
            .builder
            .clone()
            .with_container_name(name)
            .with_allow_http(true)
            .with_retry(super::no_retry())
            .with_http_connector(connector)
            .build()
            .map_err(|error| super::refused(Kind::Azure, &error))?;
        Ok(super::store(context, built, Kind::Azure, format!("az://{name}"), self.endpoint.as_deref(), credentials))
    }
}

impl fmt::Debug for AzureBuilder {
    /// Without the settings, some of which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AzureBuilder")
            .field("endpoint", &self.endpoint.as_deref().map(warpio_core::redact))
            .finish_non_exhaustive()
    }
}

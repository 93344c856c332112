use std::fmt;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use warpio_core::{Error, ErrorKind, Result};

use super::bucket::Bucket;
use crate::context::RemoteContext;
use crate::kind::Kind;
use crate::origin::{Connector, Store};

/// Amazon S3, and servers that speak its protocol.
#[derive(Debug)]
pub struct S3;

impl S3 {
    /// A store of which nothing is known yet.
    pub fn builder() -> S3Builder {
        S3Builder { builder: AmazonS3Builder::new(), endpoint: None, virtual_style: false }
    }

    /// A store as the environment describes it: `AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`,
    /// `AWS_SKIP_SIGNATURE` and all others that object_store knows; else by web identity, or by what the container or
    /// the instance is given. What expires is renewed.
    pub fn from_env() -> S3Builder {
        let builder = AmazonS3Builder::from_env();
        let get = |key| builder.get_config_value(&key);
        let endpoint = get(AmazonS3ConfigKey::S3Endpoint).or_else(|| get(AmazonS3ConfigKey::Endpoint));
        let virtual_style = get(AmazonS3ConfigKey::VirtualHostedStyleRequest).as_deref() == Some("true");
        S3Builder { builder, endpoint, virtual_style }
    }
}

/// What is said about a store of S3's kind.
///
/// ```no_run
/// use warpio_remote::{RemoteContext, S3};
///
/// # async fn example() -> Result<(), warpio_core::Error> {
/// let context = RemoteContext::new(warpio_core::Device::host());
/// let bucket = S3::builder()
///     .endpoint("http://127.0.0.1:9000")
///     .region("eu-central-1")
///     .credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI")
///     .bucket(&context, "bucket")?;
/// let object = bucket.open("data/part 1.bin").await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "it is a description; bucket() makes something of it"]
pub struct S3Builder {
    builder: AmazonS3Builder,
    endpoint: Option<String>,
    virtual_style: bool,
}

impl S3Builder {
    fn with(self, change: impl FnOnce(AmazonS3Builder) -> AmazonS3Builder) -> Self {
        Self { builder: change(self.builder), ..self }
    }

    /// Another server than Amazon's, such as `https://minio.example:9000`.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// The region; `us-east-1` by default.
    pub fn region(self, region: impl Into<String>) -> Self {
        self.with(|builder| builder.with_region(region))
    }

    /// Names the bucket in the host (`bucket.server/key`) instead of in the path (`server/bucket/key`).
    pub fn virtual_style(mut self, yes: bool) -> Self {
        self.virtual_style = yes;
        self
    }

    /// The access key's id and secret.
    pub fn credentials(self, id: impl Into<String>, secret: impl Into<String>) -> Self {
        self.with(|builder| builder.with_access_key_id(id).with_secret_access_key(secret))
    }

    /// The token that belongs to temporary credentials.
    pub fn session_token(self, token: impl Into<String>) -> Self {
        self.with(|builder| builder.with_token(token))
    }

    /// Signs nothing: for public buckets.
    pub fn anonymous(self) -> Self {
        self.with(|builder| builder.with_skip_signature(true))
    }

    /// Sends the SHA-256 of everything that is written, for the store to check.
    pub fn checksums(self) -> Self {
        self.with(|builder| builder.with_checksum_algorithm(Checksum::SHA256))
    }

    /// Any setting of object_store's, by its name.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) for a name that it does not know.
    pub fn option(self, name: &str, value: impl Into<String>) -> Result<Self> {
        let key: AmazonS3ConfigKey = name.parse().map_err(|error| super::refused(Kind::S3, &error))?;
        Ok(self.with(|builder| builder.with_config(key, value)))
    }

    /// A bucket of this store.
    ///
    /// # Errors
    /// [`InvalidConfig`](ErrorKind::InvalidConfig) when the settings do not go together.
    pub fn bucket(&self, context: &RemoteContext, name: &str) -> Result<Bucket> {
        let store = |create_only| self.store(context, name, create_only);
        Ok(Bucket { context: context.clone(), store: store(false)?, create_only: store(true)? })
    }

    fn store(&self, context: &RemoteContext, name: &str, create_only: bool) -> Result<Store> {
        let mut builder = self.builder.clone();
        if let Some(endpoint) = &self.endpoint {
            let endpoint = match self.virtual_style {
                true => in_host(endpoint, name)?,
                false => endpoint.clone(),
            };
            // The environment may name one in each of two ways, and this one beats both.
            builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
        }
        let connector = Connector::new(context.client()?, context.settings()).create_only(create_only);
        let credentials = connector.credentials();
        let built = builder
            .with_bucket_name(name)
            .with_virtual_hosted_style_request(self.virtual_style)
            .with_allow_http(true)
            // One request for one object: not every server has the other way.
            .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
            .with_retry(super::no_retry())
            .with_http_connector(connector)
            .build()
            .map_err(|error| super::refused(Kind::S3, &error))?;
        Ok(super::store(context, built, Kind::S3, format!("s3://{name}"), self.endpoint.as_deref(), credentials))
    }
}

/// The endpoint of one bucket: its name belongs in front of the host.
fn in_host(endpoint: &str, bucket: &str) -> Result<String> {
    let (scheme, host) = endpoint.split_once("://").ok_or_else(|| {
        Error::new(ErrorKind::InvalidConfig).with_message("the endpoint of S3 is no URL: it needs http:// or https://")
    })?;
    Ok(match host.split('.').next() == Some(bucket) {
        // As object_store wants it written.
        true => endpoint.to_owned(),
        false => format!("{scheme}://{bucket}.{host}"),
    })
}

impl fmt::Debug for S3Builder {
    /// Without the settings, some of which are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Builder")
            .field("endpoint", &self.endpoint.as_deref().map(warpio_core::redact))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_may_stand_in_the_host() {
        assert_eq!(in_host("http://server:9000", "b").unwrap(), "http://b.server:9000");
        assert_eq!(in_host("https://b.server", "b").unwrap(), "https://b.server", "it does already");
        assert_eq!(in_host("server", "b").unwrap_err().kind(), ErrorKind::InvalidConfig);
        let s3 = S3::builder().endpoint("http://127.0.0.1:1").credentials("id", "hidden");
        let context = RemoteContext::new(warpio_core::Device::host());
        for virtual_style in [false, true] {
            assert!(s3.clone().virtual_style(virtual_style).bucket(&context, "b").is_ok());
        }
        assert!(!format!("{s3:?}").contains("hidden"), "{s3:?}");
        assert_eq!(s3.option("no_such_setting", "x").unwrap_err().kind(), ErrorKind::InvalidConfig);
    }
}

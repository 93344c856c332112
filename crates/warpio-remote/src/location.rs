use std::fmt;

use warpio_core::{Error, ErrorKind, Result};

use crate::context::RemoteContext;
use crate::kind::{Kind, Target};
use crate::origin::HdfsUrl;
use crate::read::Remote;
use crate::store::{Bucket, HttpBuilder, WebHdfsBuilder};

/// What a URL names, with the settings of the environment where its kind has such.
#[derive(Clone)]
pub struct Location {
    context: RemoteContext,
    target: Target,
}

impl RemoteContext {
    /// Reads a URL; see [`Kind`] for those that are known.
    ///
    /// ```
    /// use warpio_remote::{Kind, RemoteContext};
    ///
    /// let context = RemoteContext::new(warpio_core::Device::host());
    /// let location = context.at("s3://bucket/key with spaces?")?;
    /// assert_eq!((location.kind(), location.name().as_str()), (Kind::S3, "s3://bucket/key with spaces?…"));
    /// # Ok::<(), warpio_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for what cannot be read, and [`Unsupported`](ErrorKind::Unsupported)
    /// for other kinds and for those that the settings do not [allow](crate::RemoteSettings::kinds).
    pub fn at(&self, url: &str) -> Result<Location> {
        let refuse = |message: String| {
            let name = warpio_core::redact(url);
            Err(Error::new(ErrorKind::Unsupported).with_message(message).with_operation("open").with_source_name(&name))
        };
        let Some(target) = Target::parse(url) else {
            return refuse("this is no URL of a remote store".to_owned());
        };
        let target = target?;
        let kind = target.kind();
        if !self.settings().kinds.contains(&kind) {
            return refuse(format!("the settings do not allow sources of the kind {kind}"));
        }
        Ok(Location { context: self.clone(), target })
    }

    /// Opens what a URL names.
    ///
    /// # Errors
    /// As for [`at`](Self::at) and [`Location::open`].
    pub async fn open(&self, url: &str) -> Result<Remote> {
        self.at(url)?.open().await
    }
}

impl Location {
    /// The kind.
    pub fn kind(&self) -> Kind {
        self.target.kind()
    }

    /// The URL, without secrets.
    pub fn name(&self) -> String {
        match &self.target {
            Target::Object { kind, bucket, key, .. } => {
                let scheme = match kind {
                    Kind::Gcs => "gs",
                    Kind::Azure => "az",
                    _ => "s3",
                };
                warpio_core::redact(&format!("{scheme}://{bucket}/{key}"))
            }
            Target::Http { kind: Kind::WebHdfs, url } => HdfsUrl::new(url).name(),
            Target::Http { url, .. } => url.name(),
        }
    }

    /// Opens it, and asks whether it is there.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound), [`PermissionDenied`](ErrorKind::PermissionDenied),
    /// [`Unavailable`](ErrorKind::Unavailable); [`InvalidConfig`](ErrorKind::InvalidConfig) when the environment's
    /// settings of the store do not go together.
    pub async fn open(&self) -> Result<Remote> {
        match &self.target {
            Target::Object { key, .. } => self.bucket()?.open(key).await,
            Target::Http { kind: Kind::WebHdfs, url } => self.hdfs(url).open(&self.context).await,
            Target::Http { kind, url } => HttpBuilder::at(url.clone(), *kind).open(&self.context).await,
        }
    }

    /// The bucket that the object is in.
    fn bucket(&self) -> Result<Bucket> {
        match &self.target {
            Target::Object { kind, account, bucket, .. } => self.context.bucket(*kind, account.as_deref(), bucket),
            Target::Http { kind, .. } => {
                Err(Error::unsupported(format!("a source of the kind {kind} is in no bucket")))
            }
        }
    }

    fn hdfs(&self, url: &crate::http::HttpUrl) -> WebHdfsBuilder {
        WebHdfsBuilder { url: HdfsUrl::new(url) }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Location").field("kind", &self.kind()).field("name", &self.name()).finish_non_exhaustive()
    }
}

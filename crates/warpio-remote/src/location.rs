use std::fmt;

use warpio_core::{AsyncDeviceRead, Error, ErrorKind, Result};

use crate::context::RemoteContext;
use crate::entry::{Entry, Listing};
use crate::http::encode_path;
use crate::kind::{Kind, Target};
use crate::origin::HdfsUrl;
use crate::read::Remote;
use crate::store::{Bucket, HttpBuilder, WebHdfsBuilder};
use crate::write::RemoteSink;

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

    /// Begins an object that shows when it is [finished](warpio_core::AsyncDeviceWrite::finish), in the place of one that
    /// is there.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for kinds that cannot be written; otherwise as for [`open`](Self::open).
    pub fn create(&self) -> Result<RemoteSink> {
        match &self.target {
            Target::Object { key, .. } => self.bucket()?.create(key),
            Target::Http { kind: Kind::WebHdfs, url } => self.hdfs(url).create(&self.context),
            Target::Http { .. } => Err(self.cannot("create", "written")),
        }
    }

    /// As [`create`](Self::create), but what is there already stays, and finishing fails as
    /// [`AlreadyExists`](ErrorKind::AlreadyExists).
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub fn create_new(&self) -> Result<RemoteSink> {
        match &self.target {
            Target::Object { key, .. } => self.bucket()?.create_new(key),
            Target::Http { kind: Kind::WebHdfs, url } => self.hdfs(url).create_new(&self.context),
            Target::Http { .. } => Err(self.cannot("create", "written")),
        }
    }

    /// What the store says about it.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn stat(&self) -> Result<Entry> {
        match &self.target {
            Target::Object { key, .. } => self.bucket()?.stat(key).await,
            Target::Http { kind: Kind::WebHdfs, url } => self.hdfs(url).stat(&self.context).await,
            Target::Http { .. } => {
                let source = self.open().await?;
                let mut entry = Entry::new(self.name(), source.size().await?);
                entry.etag = source.etag();
                Ok(entry)
            }
        }
    }

    /// Deletes it.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for kinds that cannot be written; otherwise as for [`open`](Self::open).
    pub async fn delete(&self) -> Result<()> {
        match &self.target {
            Target::Object { key, .. } => self.bucket()?.delete(key).await,
            Target::Http { kind: Kind::WebHdfs, url } => self.hdfs(url).delete(&self.context).await,
            Target::Http { .. } => Err(self.cannot("delete", "deleted")),
        }
    }

    /// What lies below it: the objects whose keys go on with a slash, or the files of a folder and of those in it.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported) for kinds that cannot be listed; others come out of the listing.
    pub fn list(&self) -> Result<Listing> {
        match &self.target {
            Target::Object { key, .. } => self.bucket()?.list(key),
            Target::Http { kind: Kind::WebHdfs, url } => self.hdfs(url).list(&self.context),
            Target::Http { .. } => Err(self.cannot("list", "listed")),
        }
    }

    /// What an [`Entry`] below it is called, from here on; its key where it is not below it.
    pub fn relative<'a>(&self, entry: &'a Entry) -> &'a str {
        let base = match &self.target {
            Target::Object { key, .. } => key.clone(),
            Target::Http { url, .. } => HdfsUrl::new(url).path(),
        };
        let below = entry.key.strip_prefix(base.trim_end_matches('/'));
        below.map_or(entry.key.as_str(), |below| below.trim_start_matches('/'))
    }

    /// The same store, and what is called `name` below this.
    pub fn below(&self, name: &str) -> Self {
        let target = match &self.target {
            Target::Object { kind, account, bucket, key } => {
                let key = match key.trim_end_matches('/') {
                    "" => name.to_owned(),
                    folder => format!("{folder}/{name}"),
                };
                Target::Object { kind: *kind, account: account.clone(), bucket: bucket.clone(), key }
            }
            Target::Http { kind, url } => {
                let (path, query) = url.target.split_once('?').map_or((&*url.target, None), |(p, q)| (p, Some(q)));
                let path = format!("{}/{}", path.trim_end_matches('/'), encode_path(name));
                let target = query.map_or(path.clone(), |query| format!("{path}?{query}"));
                Target::Http { kind: *kind, url: url.with_target(target) }
            }
        };
        Self { context: self.context.clone(), target }
    }

    fn cannot(&self, operation: &'static str, what: &str) -> Error {
        Error::unsupported(format!("a source of the kind {} cannot be {what}", self.kind()))
            .with_operation(operation)
            .with_source_name(&self.name())
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

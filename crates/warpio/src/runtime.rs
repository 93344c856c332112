use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use warpio_core::config::{CompatMode, Config};
use warpio_core::engine::StatsSnapshot;
use warpio_core::{Device, Error, ErrorKind, PoolStats, Result, within};
use warpio_local::file::{FileContext, FileSink, LocalFile};
use warpio_local::mmap::{MmapOptions, MmapSource};
use warpio_local::open::OpenOptions;

use crate::builder::RuntimeBuilder;
use crate::engine::Engines;
use crate::open_options::RuntimeOpenOptions;
use crate::sink::Sink;
use crate::source::Source;
use crate::url::Location;

/// Opens sources and sinks, and owns what they share: a device, its staging memory and the engines. Cheap to clone.
///
/// It works inside any tokio runtime. Dropping it never blocks: what is in flight runs out, and sources that are still
/// held go on working; [`shutdown`](Self::shutdown) ends them.
#[derive(Clone, Debug)]
pub struct Runtime {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: Config,
    files: FileContext,
    #[cfg(feature = "remote")]
    remote: warpio_remote::RemoteContext,
    engines: Engines,
}

/// What a runtime did and holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeStats {
    /// Counts of its transfers.
    pub transfers: StatsSnapshot,
    /// The staging memory of its device.
    pub staging: PoolStats,
}

impl Runtime {
    /// A runtime with the defaults of this machine and what the environment sets.
    ///
    /// # Errors
    /// As for [`RuntimeBuilder::build`].
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// A runtime with settings of its own.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    pub(crate) fn start(
        #[cfg(feature = "remote")] remote: warpio_remote::RemoteContext,
        config: Config,
        files: FileContext,
        engines: Engines,
    ) -> Self {
        let inner = Inner {
            config,
            files,
            #[cfg(feature = "remote")]
            remote,
            engines,
        };
        Self { inner: Arc::new(inner) }
    }

    /// What remote sources share, for those that need more than a URL: other credentials than the environment's, a
    /// listing, a store of one's own.
    ///
    /// ```no_run
    /// use warpio::remote::S3;
    ///
    /// # async fn example() -> warpio::Result<()> {
    /// let rt = warpio::Runtime::new()?;
    /// let bucket = S3::builder().endpoint("https://minio.example").credentials("id", "secret");
    /// let object = bucket.bucket(rt.remote(), "bucket")?.open("data.bin").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "remote")]
    pub fn remote(&self) -> &warpio_remote::RemoteContext {
        &self.inner.remote
    }

    /// The device that sources read into.
    pub fn device(&self) -> &Device {
        &self.inner.files.device
    }

    /// The effective settings, and where each comes from.
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The engine for what the page cache does not serve, whether it was needed yet or not.
    pub fn engine(&self) -> &'static str {
        self.inner.files.engine.name()
    }

    /// Why io_uring is not used, if it is not.
    pub fn why_no_io_uring(&self) -> Option<&str> {
        self.inner.engines.no_io_uring.as_deref()
    }

    /// Waits until it is known whether bytes go between local files and the GPU without passing through host memory, and
    /// says by which way. Nothing else waits for it: until then, transfers go another way.
    ///
    /// # Errors
    /// [`Unsupported`](ErrorKind::Unsupported), or what else stands in the way, with the reason.
    #[cfg(feature = "cufile")]
    pub async fn gds(&self) -> Result<warpio_cufile::GdsPath> {
        self.inner.engines.gds.path().await
    }

    /// Whether a file may be opened in this mode.
    pub(crate) async fn check_compat(&self, mode: CompatMode) -> Result<()> {
        #[cfg(feature = "cufile")]
        return self.inner.engines.gds.check(mode).await;
        #[cfg(not(feature = "cufile"))]
        return crate::engine::check_compat(mode);
    }

    /// Opens a source for reading: a path, a `file://` URL, or, with the feature `remote`, a URL of a store: `s3://`,
    /// `gs://`, `az://`, `https://`, `http://`, `webhdfs://`. Keys are taken as they are; HTTP URLs are encoded already.
    ///
    /// # Errors
    /// [`NotFound`](ErrorKind::NotFound), [`PermissionDenied`](ErrorKind::PermissionDenied),
    /// [`InvalidInput`](ErrorKind::InvalidInput) for what is no file, [`Unsupported`](ErrorKind::Unsupported) for other
    /// URLs, [`Gone`](ErrorKind::Gone) after [`shutdown`](Self::shutdown).
    pub async fn open(&self, location: impl AsRef<Path>) -> Result<Source> {
        self.check_open()?;
        match Location::parse(location.as_ref())? {
            Location::File(path) => {
                let file = LocalFile::open(&self.inner.files, path, &OpenOptions::new().read(true)).await?;
                Ok(Source::new(file))
            }
            Location::Url(url) => self.open_url(&url).await,
        }
    }

    /// Maps a local file, or a part of it, into memory: for files that are loaded again and again and stay cached.
    ///
    /// ```
    /// use warpio::{AsyncDeviceReadExt, MmapOptions, Runtime};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> warpio::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("data.bin");
    /// # std::fs::write(&path, [7; 10_000])?;
    /// let rt = Runtime::new()?;
    /// let map = rt.open_mmap(&path, MmapOptions::new().offset(100).len(5000)).await?;
    /// assert_eq!(map.read_all().await?.len(), 5000);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`open`](Self::open), and [`InvalidInput`](ErrorKind::InvalidInput) for a part that the file does not have.
    pub async fn open_mmap(&self, location: impl AsRef<Path>, options: MmapOptions) -> Result<MmapSource> {
        self.check_open()?;
        MmapSource::open(&self.inner.files, crate::url::local_path(location)?, options).await
    }

    /// How to open a local file otherwise than for reading.
    pub fn open_options(&self) -> RuntimeOpenOptions<'_> {
        RuntimeOpenOptions::new(self)
    }

    #[cfg(feature = "remote")]
    async fn open_url(&self, url: &str) -> Result<Source> {
        Ok(Source::new(self.inner.remote.open(url).await?))
    }

    #[cfg(not(feature = "remote"))]
    async fn open_url(&self, url: &str) -> Result<Source> {
        Err(crate::url::elsewhere(url, "work in this build of warpio, which lacks the feature \"remote\""))
    }

    #[cfg(feature = "remote")]
    fn create_url(&self, url: &str) -> Result<Sink> {
        Ok(Sink::new(self.inner.remote.at(url)?.create()?))
    }

    #[cfg(not(feature = "remote"))]
    fn create_url(&self, url: &str) -> Result<Sink> {
        Err(crate::url::elsewhere(url, "work in this build of warpio, which lacks the feature \"remote\""))
    }

    /// Begins a file or an object that appears whole when it is finished, and not at all when it is dropped before. An
    /// object is written from its beginning to its end, and exists when it is finished.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and [`StorageFull`](ErrorKind::StorageFull).
    pub async fn create(&self, location: impl AsRef<Path>) -> Result<Sink> {
        self.check_open()?;
        match Location::parse(location.as_ref())? {
            Location::File(path) => Ok(Sink::new(FileSink::create(&self.inner.files, path).await?)),
            Location::Url(url) => self.create_url(&url),
        }
    }

    pub(crate) fn files(&self) -> &FileContext {
        &self.inner.files
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        match self.inner.files.stats.is_closed() {
            true => Err(Error::new(ErrorKind::Gone).with_message("the runtime was shut down")),
            false => Ok(()),
        }
    }

    /// What the runtime did and holds.
    pub fn stats(&self) -> RuntimeStats {
        RuntimeStats { transfers: self.inner.files.stats.snapshot(), staging: self.device().staging().stats() }
    }

    /// Ends the runtime: new transfers fail as [`Gone`](ErrorKind::Gone), and those in flight have `limit` to run out.
    /// It can be called again, for those that took longer.
    ///
    /// # Errors
    /// [`DeadlineExceeded`](ErrorKind::DeadlineExceeded) when some did not; their memory stays valid until they do.
    pub async fn shutdown(&self, limit: Duration) -> Result<()> {
        let stats = &self.inner.files.stats;
        stats.close();
        if within(limit, stats.idle()).await.is_none() {
            let message = format!("{} transfers were still in flight after {limit:?}", stats.in_flight());
            return Err(Error::new(ErrorKind::DeadlineExceeded).with_message(message).with_operation("shutdown"));
        }
        self.device().staging().trim();
        Ok(())
    }
}

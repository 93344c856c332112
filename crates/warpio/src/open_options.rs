use std::os::fd::OwnedFd;
use std::path::Path;

use warpio_core::Result;
use warpio_core::config::CompatMode;
use warpio_local::file::{FileContext, FileSink, LocalFile};
use warpio_local::open::{OpenMode, OpenOptions};

use crate::runtime::Runtime;
use crate::sink::Sink;

/// How to open a local file; made by [`Runtime::open_options`].
///
/// ```
/// use warpio::{AsyncDeviceWriteExt, DeviceBytesMut, Runtime};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("log.bin");
/// let rt = Runtime::new()?;
/// let file = rt.open_options().write(true).create(true).truncate(true).open(&path).await?;
/// file.write_all_at(0, DeviceBytesMut::from(vec![1, 2, 3])).await?;
/// file.close().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before open()"]
pub struct RuntimeOpenOptions<'a> {
    runtime: &'a Runtime,
    options: OpenOptions,
    compat: Option<CompatMode>,
}

impl<'a> RuntimeOpenOptions<'a> {
    pub(crate) fn new(runtime: &'a Runtime) -> Self {
        Self { runtime, options: OpenOptions::new(), compat: None }
    }

    /// Open it for reading.
    pub fn read(mut self, yes: bool) -> Self {
        self.options = self.options.read(yes);
        self
    }

    /// Open it for writing.
    pub fn write(mut self, yes: bool) -> Self {
        self.options = self.options.write(yes);
        self
    }

    /// Open it for writing behind what is there, with [`append`](warpio_core::AsyncDeviceWrite::append).
    pub fn append(mut self, yes: bool) -> Self {
        self.options = self.options.append(yes);
        self
    }

    /// Make an existing file empty.
    pub fn truncate(mut self, yes: bool) -> Self {
        self.options = self.options.truncate(yes);
        self
    }

    /// Make the file if it is not there.
    pub fn create(mut self, yes: bool) -> Self {
        self.options = self.options.create(yes);
        self
    }

    /// Make the file, and fail if it is there.
    pub fn create_new(mut self, yes: bool) -> Self {
        self.options = self.options.create_new(yes);
        self
    }

    /// The permissions of a file that is made, less the umask; 0o666 by default.
    pub fn mode(mut self, mode: u32) -> Self {
        self.options = self.options.mode(mode);
        self
    }

    /// Whether this file's transfers go by cuFile, instead of what the runtime's setting says. With `Off`, opening waits
    /// until cuFile is open, and fails where GPUDirect Storage is not available.
    pub fn compat_mode(mut self, mode: CompatMode) -> Self {
        self.compat = Some(mode);
        self
    }

    /// The context of the runtime, with what is this file's own.
    async fn context(&self) -> Result<FileContext> {
        self.runtime.check_open()?;
        let mut context = self.runtime.files().clone();
        if let Some(mode) = self.compat {
            self.runtime.check_compat(mode).await?;
            context.policy.compat = mode;
        }
        Ok(context)
    }

    /// All of it at once: `"r"`, `"w"`, `"a"`, `"r+"` or `"w+"`, parsed as an [`OpenMode`].
    pub fn with_mode(mut self, mode: OpenMode) -> Self {
        self.options = mode.options();
        self
    }

    /// Opens the file.
    ///
    /// # Errors
    /// As for [`Runtime::open`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<LocalFile> {
        LocalFile::open(&self.context().await?, path, &self.options).await
    }

    /// Begins a file that appears whole when it is finished, as [`Runtime::create`] does, with the
    /// [permissions](Self::mode) of these options. A file that is replaced passes its own on.
    ///
    /// ```
    /// use std::os::unix::fs::PermissionsExt;
    /// use warpio::{AsyncDeviceWriteExt, DeviceBytesMut, Runtime};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("secret.bin");
    /// let rt = Runtime::new()?;
    /// let sink = rt.open_options().mode(0o600).create_whole(&path).await?;
    /// sink.write_all_at(0, DeviceBytesMut::from(vec![1, 2, 3])).await?;
    /// sink.finish().await?;
    /// assert_eq!(std::fs::metadata(&path)?.permissions().mode() & 0o777, 0o600);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As for [`Runtime::create`].
    pub async fn create_whole(self, path: impl AsRef<Path>) -> Result<Sink> {
        Ok(Sink::new(FileSink::with_options(&self.context().await?, path, &self.options).await?))
    }

    /// Takes a descriptor that is open already; the options are those it was opened with, but for
    /// [`compat_mode`](Self::compat_mode), whose `Off` shows in transfers that fail.
    ///
    /// # Errors
    /// As for [`LocalFile::from_fd`].
    pub fn from_fd(self, fd: OwnedFd) -> Result<LocalFile> {
        self.runtime.check_open()?;
        let mut context = self.runtime.files().clone();
        context.policy.compat = self.compat.unwrap_or(context.policy.compat);
        LocalFile::from_fd(&context, fd)
    }
}

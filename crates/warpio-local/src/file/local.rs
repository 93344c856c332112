use std::fmt;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use rustix::fs::OFlags;
use tokio::runtime::Handle;
use warpio_core::config::CompatMode;
use warpio_core::engine::{Ledger, Starter, Target, unfinished};
use warpio_core::{
    AsyncDeviceRead, AsyncDeviceWrite, Description, Device, DeviceBytes, DeviceBytesMut, Error, ErrorKind, Ranges,
    Result, Scattered, Transfer,
};

use super::append::AppendPosition;
use super::context::{FileContext, named};
use crate::engine::OpenFile;
use crate::open::OpenOptions;
use crate::sys::reopen::reopen;
use crate::sys::statx::{FileInfo, FileKind};

/// A file or block device on this machine, open for reading, writing or both.
pub struct LocalFile {
    file: Arc<OpenFile>,
    name: String,
    readable: bool,
    writable: bool,
    starter: Starter,
    gap: u64,
    /// The same, entering what it writes in the ledger.
    writer: Starter,
    ledger: Ledger,
    handle: Handle,
    append: AppendPosition,
}

impl LocalFile {
    /// Opens `path`.
    ///
    /// # Errors
    /// What [`OpenOptions::open`] says, by kind: [`NotFound`](ErrorKind::NotFound),
    /// [`InvalidInput`](ErrorKind::InvalidInput) for what is no file, [`ResourceLimit`](ErrorKind::ResourceLimit), …
    pub async fn open(context: &FileContext, path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let (path, options): (PathBuf, _) = (path.as_ref().to_owned(), *options);
        let name = path.display().to_string();
        let fd = FileContext::blocking(&context.handle, move || Ok(options.open(&path)?)).await?;
        Self::from_open(context, fd, &name)
    }

    /// Takes a descriptor that is open already.
    ///
    /// # Errors
    /// [`InvalidInput`](ErrorKind::InvalidInput) for what has no bytes at offsets, for a descriptor with `O_APPEND`,
    /// which would write at the end whatever the offset says, and for one with `O_PATH`. The file of a descriptor with
    /// `O_DIRECT` is opened again without, and errors of that are reported.
    pub fn from_fd(context: &FileContext, fd: OwnedFd) -> Result<Self> {
        let name = std::fs::read_link(crate::sys::reopen::fd_path(fd.as_fd()))
            .map_or_else(|_| "a file descriptor".to_owned(), |path| path.display().to_string());
        Self::from_open(context, fd, &name)
    }

    pub(super) fn from_open(context: &FileContext, fd: OwnedFd, name: &str) -> Result<Self> {
        let info = FileInfo::of(fd.as_fd()).map_err(|error| named(error, "open", name))?;
        if !matches!(info.kind, FileKind::Regular | FileKind::BlockDevice) {
            return Err(Error::invalid_input(format!("it is a {}, which has no bytes at offsets", info.kind))
                .with_operation("open")
                .with_source_name(name));
        }
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(|error| named(error, "open", name))?;
        let refuse = |why: &'static str| Error::invalid_input(why).with_operation("open").with_source_name(name);
        if flags.contains(OFlags::APPEND) {
            return Err(refuse("the descriptor has O_APPEND, which would ignore offsets; open it without"));
        }
        if flags.contains(OFlags::PATH) {
            return Err(refuse("the descriptor has O_PATH, which only names a file; open it for reading or writing"));
        }
        let fd = if flags.contains(OFlags::DIRECT) { through_the_cache(fd, flags, name)? } else { fd };
        let mode = flags & OFlags::RWMODE;
        let (starter, ledger) = (context.starter(name), Ledger::default());
        Ok(Self {
            file: Arc::new(OpenFile::new(fd).with_policy(context.policy, info.fs_type)),
            name: name.to_owned(),
            readable: mode != OFlags::WRONLY,
            writable: mode != OFlags::RDONLY,
            gap: context.gap,
            writer: starter.clone().with_ledger(&ledger),
            starter,
            ledger,
            handle: context.handle.clone(),
            append: AppendPosition::default(),
        })
    }

    /// The path that was opened.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device that the file is read into by default.
    pub fn device(&self) -> &Device {
        self.starter.device()
    }

    /// What this file is.
    pub fn describe(&self) -> Description {
        Description::new(&self.name, "file", self.starter.engine().name()).with_capabilities(|c| {
            c.read = self.readable;
            c.write_at = self.writable;
            c.write_in_order = self.writable;
            c.append = self.writable;
            c.set_len = self.writable;
        })
    }

    /// Makes the bytes durable, and what is needed to find them again.
    ///
    /// # Errors
    /// What the kernel reports; bytes written before may be lost then, and a second try would not say so.
    pub async fn sync_data(&self) -> Result<()> {
        self.call("sync", |fd| rustix::fs::fdatasync(fd)).await
    }

    /// As [`sync_data`](Self::sync_data), and all that is known about the file.
    ///
    /// # Errors
    /// As [`sync_data`](Self::sync_data).
    pub async fn sync_all(&self) -> Result<()> {
        self.call("sync", |fd| rustix::fs::fsync(fd)).await
    }

    /// Closes the file once its transfers have ended, and reports what `close(2)` says.
    ///
    /// # Errors
    /// What the kernel reports: on network file systems, writes that failed late.
    pub async fn close(self) -> Result<()> {
        let closed = self.file.on_close();
        let (name, handle) = (self.name.clone(), self.handle.clone());
        // The descriptor is closed by whoever lets it go last: here, or a thread that ends a transfer.
        FileContext::blocking(&handle, move || {
            drop(self);
            Ok(())
        })
        .await?;
        match closed.await {
            Ok(result) => result.map_err(|error| named(error, "close", &name)),
            Err(_) => Err(Error::new(ErrorKind::Gone).with_operation("close").with_source_name(&name)),
        }
    }

    async fn call(
        &self,
        operation: &'static str,
        call: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<()> + Send + 'static,
    ) -> Result<()> {
        let file = self.file.clone();
        let done = FileContext::blocking(&self.handle, move || Ok(call(file.as_fd()))).await?;
        done.map_err(|error| named(error, operation, &self.name)).inspect_err(|error| self.ledger.note(error))
    }

    /// What the writes came to, and whether more are to come.
    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether `count` ranges of together `total` bytes are read as one. Long ones lose nothing when each is cut and
    /// read by itself, and files that demand to bypass host memory cannot have theirs joined there.
    fn gathers(&self, count: usize, total: usize) -> bool {
        total / count.max(1) < LONG && self.file.policy().compat != CompatMode::Off
    }

    fn target(&self) -> Target {
        self.file.clone()
    }

    fn refuse(&self, operation: &'static str, why: &'static str) -> Error {
        Error::new(ErrorKind::PermissionDenied).with_message(why).with_operation(operation).with_source_name(&self.name)
    }
}

/// Ranges of this many bytes in the mean are read one by one.
const LONG: usize = 1 << 20;

/// The same file without O_DIRECT, which asks for alignment that the callers of a transfer need not keep: what goes past
/// the page cache does so through a descriptor of its own. Whoever else has this one keeps it as it is.
fn through_the_cache(fd: OwnedFd, flags: OFlags, name: &str) -> Result<OwnedFd> {
    let kept = flags & (OFlags::RWMODE | OFlags::SYNC | OFlags::DSYNC);
    reopen(fd.as_fd(), kept).map_err(|error| {
        named(error, "open", name)
            .with_message("the descriptor has O_DIRECT, and the file cannot be opened again without; open it without")
    })
}

const NOT_READABLE: &str = "the file was opened for writing only; open it with read as well";
const NOT_WRITABLE: &str = "the file was opened for reading only; open it with write as well";

impl AsyncDeviceRead for LocalFile {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        self.describe()
    }

    fn size(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let file = self.file.clone();
            let info = FileContext::blocking(&self.handle, move || Ok(FileInfo::of(file.as_fd()))).await?;
            Ok(info.map_err(|error| named(error, "stat", &self.name))?.size)
        })
    }

    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
        if !self.readable {
            return Transfer::failed(self.refuse("read", NOT_READABLE), Some(buf));
        }
        self.starter.read(self.target(), offset, buf)
    }

    fn read_ranges(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
        if !self.readable {
            return Transfer::failed(self.refuse("read", NOT_READABLE), Some(buf));
        }
        match self.gathers(ranges.len(), buf.len()) {
            true => self.starter.read_ranges(self.target(), ranges, buf, self.gap),
            false => self.starter.read_each(self.target(), ranges, buf),
        }
    }

    fn read_scatter(&self, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
        if !self.readable {
            let buffers = requests.into_iter().map(|(_, buffer)| buffer).collect();
            return Transfer::failed(self.refuse("read", NOT_READABLE), Some(buffers));
        }
        let total = requests.iter().map(|(_, buffer)| buffer.len()).sum();
        match self.gathers(requests.len(), total) {
            true => self.starter.read_scatter(self.target(), requests, self.gap),
            false => self.starter.read_each_into(self.target(), requests),
        }
    }
}

impl AsyncDeviceWrite for LocalFile {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        self.describe()
    }

    fn write_at(&self, offset: u64, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        if !self.writable {
            return Transfer::failed(self.refuse("write", NOT_WRITABLE), Some(buf));
        }
        self.writer.write(self.target(), offset, buf)
    }

    fn append(&self, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        if !self.writable {
            return Transfer::failed(self.refuse("append", NOT_WRITABLE), Some(buf));
        }
        match self.append.reserve(self.file.as_fd(), buf.len()) {
            Ok(reserved) => self.writer.write_holding(self.target(), reserved.offset, buf, reserved),
            Err(error) => {
                let error = named(error, "append", &self.name);
                self.ledger.note(&error);
                Transfer::failed(error, Some(buf))
            }
        }
    }

    fn set_len(&self, len: u64) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if !self.writable {
                return Err(self.refuse("set_len", NOT_WRITABLE));
            }
            if len > i64::MAX as u64 {
                return Err(Error::invalid_input("the length exceeds what a file can have"));
            }
            // Entered like a write: whoever finishes the file waits for it, and afterwards it is refused.
            let refused = |error: Error| error.with_operation("set_len").with_source_name(&self.name);
            let (entry, name) = (self.ledger.begin().map_err(refused)?, self.name.clone());
            let set_len = move |fd: BorrowedFd<'_>| {
                let done = rustix::fs::ftruncate(fd, len);
                done.inspect_err(|&error| entry.fail(&named(error, "set_len", &name)))
            };
            self.call("set_len", set_len).await
        })
    }

    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.sync_data())
    }

    fn finish(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.ledger.settle().await.map_err(|first| unfinished(&self.name, first))?;
            self.sync_data().await
        })
    }
}

impl AsFd for LocalFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl fmt::Debug for LocalFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalFile").field("name", &self.name).finish_non_exhaustive()
    }
}

use std::fmt;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use futures::future::BoxFuture;
use warpio_core::engine::unfinished;
use warpio_core::{AsyncDeviceWrite, Description, Device, DeviceBytes, Error, ErrorKind, Result, Transfer};

use super::context::{FileContext, named};
use super::local::LocalFile;
use crate::atomic_file::AtomicFile;
use crate::open::OpenOptions;

/// A file that appears under its name when it is [finished](AsyncDeviceWrite::finish), whole and durable, and not at
/// all when it is dropped before, or when anything that was to be written could not be.
pub struct FileSink {
    /// Writes go through a descriptor of their own.
    file: LocalFile,
    name: String,
    atomic: Mutex<Option<AtomicFile>>,
    context: FileContext,
}

impl FileSink {
    /// Begins a file that will appear at `path`, in the place of one that is there.
    ///
    /// # Errors
    /// As for opening: [`NotFound`](ErrorKind::NotFound) for a directory that is missing,
    /// [`PermissionDenied`](ErrorKind::PermissionDenied), [`StorageFull`](ErrorKind::StorageFull), …
    pub async fn create(context: &FileContext, path: impl AsRef<Path>) -> Result<Self> {
        Self::with_options(context, path, &OpenOptions::new()).await
    }

    /// As [`create`](Self::create), taking the permissions of a file that is new from `options`. One that is replaced
    /// passes its own on.
    ///
    /// # Errors
    /// As for [`create`](Self::create).
    pub async fn with_options(context: &FileContext, path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        let (path, options): (PathBuf, _) = (path.as_ref().to_owned(), *options);
        let name = path.display().to_string();
        let create = move || Ok(AtomicFile::with_options(&path, &options)?);
        let atomic = FileContext::blocking(&context.handle, create).await?;
        let fd = atomic.as_fd().try_clone_to_owned().map_err(|error| named(error, "create", &name))?;
        // Under its own name: what fails is told of the file that was asked for.
        let file = LocalFile::from_open(context, fd, &name)?;
        Ok(Self { file, name, atomic: Mutex::new(Some(atomic)), context: context.clone() })
    }

    /// Where the bytes are until the file is finished, if it is not.
    pub fn temporary_path(&self) -> Option<PathBuf> {
        self.lock().as_ref().and_then(AtomicFile::temporary_path)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<AtomicFile>> {
        self.atomic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncDeviceWrite for FileSink {
    fn device(&self) -> &Device {
        self.file.device()
    }

    fn describe(&self) -> Description {
        let inner = self.file.describe();
        Description::new(&self.name, "file", inner.engine).with_capabilities(|c| {
            c.write_at = true;
            c.write_in_order = true;
            c.append = true;
            c.set_len = true;
        })
    }

    fn write_at(&self, offset: u64, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        self.file.write_at(offset, buf)
    }

    fn append(&self, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        self.file.append(buf)
    }

    fn set_len(&self, len: u64) -> BoxFuture<'_, Result<()>> {
        self.file.set_len(len)
    }

    fn sync(&self) -> BoxFuture<'_, Result<()>> {
        self.file.sync()
    }

    fn finish(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let ledger = self.file.ledger();
            ledger.close();
            let settled = ledger.settle().await.map_err(|first| unfinished(&self.name, first));
            let Some(atomic) = self.lock().take() else {
                return Err(Error::new(ErrorKind::InvalidInput)
                    .with_message("the file was finished already")
                    .with_operation("finish")
                    .with_source_name(&self.name));
            };
            let commit = move || match settled {
                Ok(()) => Ok(atomic.commit()?),
                // Removed here, where that may wait for the disk.
                Err(first) => {
                    drop(atomic);
                    Err(first)
                }
            };
            FileContext::blocking(&self.context.handle, commit).await
        })
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        // Removing the temporary file may wait for the disk, so it does not happen on the caller's thread, unless there
        // is no other left.
        if let Some(atomic) = self.lock().take() {
            self.context.handle.spawn_blocking(move || drop(atomic));
        }
    }
}

impl fmt::Debug for FileSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSink").field("name", &self.name).finish_non_exhaustive()
    }
}

use std::fmt;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use warpio_core::engine::Starter;
use warpio_core::{AsyncDeviceRead, Description, Device, DeviceBytesMut, Error, Result, Transfer};

use crate::file::{FileContext, named};
use crate::open::OpenOptions;
use crate::sys::map::FileMap;
use crate::sys::statx::FileInfo;

/// Which part of a file is mapped: all of it by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct MmapOptions {
    offset: u64,
    len: Option<u64>,
}

impl MmapOptions {
    /// The whole file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the map begins, in bytes from the start of the file. It needs no alignment.
    pub fn offset(self, bytes: u64) -> Self {
        Self { offset: bytes, ..self }
    }

    /// How many bytes are mapped; up to the end of the file by default.
    pub fn len(self, bytes: u64) -> Self {
        Self { len: Some(bytes), ..self }
    }
}

/// A file, or a part of one, mapped into memory. Offsets count from the start of the map.
///
/// It is read by the copy threads, which ask the kernel for the pages before they touch them: a page that cannot be read
/// and a file that was cut short are errors. Only a file that is cut short in the moment between ends the process by
/// `SIGBUS`. The map lasts as long as the source and its transfers.
pub struct MmapSource {
    map: Arc<FileMap>,
    name: String,
    starter: Starter,
}

impl MmapSource {
    /// Maps `path`, for reading.
    ///
    /// # Errors
    /// As for [`LocalFile::open`](crate::file::LocalFile::open); [`InvalidInput`](warpio_core::ErrorKind::InvalidInput)
    /// for a part that the file does not have; what the kernel says of files that cannot be mapped.
    pub async fn open(context: &FileContext, path: impl AsRef<Path>, options: MmapOptions) -> Result<Self> {
        let path: PathBuf = path.as_ref().to_owned();
        let name = path.display().to_string();
        let of = name.clone();
        let map = FileContext::blocking(&context.handle, move || map(&path, &of, options)).await?;
        Ok(Self { map: Arc::new(map), starter: context.starter(&name), name })
    }

    /// How many bytes are mapped.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.map.len() as u64
    }
}

fn map(path: &Path, name: &str, options: MmapOptions) -> Result<FileMap> {
    let fd = OpenOptions::new().read(true).open(path)?;
    let size = FileInfo::of(fd.as_fd()).map_err(|error| named(error, "map", name))?.size;
    let end = options.len.map_or(Some(size.max(options.offset)), |len| options.offset.checked_add(len));
    let Some(end) = end.filter(|&end| end <= size) else {
        let message = format!("the map would reach past the end of the file, which has {size} bytes");
        return Err(Error::invalid_input(message).with_operation("map").with_source_name(name));
    };
    let len = usize::try_from(end - options.offset).map_err(|_| Error::invalid_input("the file fits in no memory"))?;
    FileMap::new(fd, options.offset, len).map_err(|error| named(error, "map", name))
}

impl AsyncDeviceRead for MmapSource {
    fn device(&self) -> &Device {
        self.starter.device()
    }

    fn describe(&self) -> Description {
        Description::new(&self.name, "mmap", "posix").with_capabilities(|c| c.read = true)
    }

    fn size(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(std::future::ready(Ok(self.len())))
    }

    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
        self.starter.read(self.map.clone(), offset, buf)
    }
}

impl fmt::Debug for MmapSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MmapSource").field("name", &self.name).field("len", &self.len()).finish_non_exhaustive()
    }
}

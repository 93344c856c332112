use std::fmt;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::runtime::Handle;
use warpio_core::engine::{Starter, Target};
use warpio_core::plan::Split;
use warpio_core::{AsyncDeviceRead, Description, Device, DeviceBytesMut, Error, Ranges, Result, Scattered, Transfer};

use super::options::{MmapOptions, Protection, Sharing};
use super::pinned::Pin;
use crate::file::{FileContext, named};
use crate::open::OpenOptions;
use crate::sys::map::{FileMap, Pages};
use crate::sys::statx::FileInfo;

/// How much of a pinned map is one copy, in bytes: so much that what each copy costs besides is nothing, and so little
/// that several are under way.
const COPY: usize = 16 << 20;

/// A file, or a part of one, mapped into memory. Offsets count from the start of the map.
///
/// It is read by the copy threads, which ask the kernel for the pages before they touch them: a page that cannot be read
/// and a file that was cut short are errors. Only a file that is cut short in the moment between ends the process by
/// `SIGBUS`. The map lasts as long as the source and its transfers.
///
/// For what is loaded again and again, [`pin`](Self::pin) lets a GPU read the pages itself.
pub struct MmapSource {
    map: Arc<FileMap>,
    pin: Arc<Pin>,
    name: String,
    starter: Starter,
    /// For what a GPU copies by itself.
    pinned_starter: Starter,
    gap: u64,
    handle: Handle,
}

impl MmapSource {
    /// Maps `path`.
    ///
    /// # Errors
    /// As for [`LocalFile::open`](crate::file::LocalFile::open); [`InvalidInput`](warpio_core::ErrorKind::InvalidInput)
    /// for a part that the file does not have; [`Unsupported`](warpio_core::ErrorKind::Unsupported) for files that do not
    /// know their size, as in `/proc`; what the kernel says of others that cannot be mapped.
    pub async fn open(context: &FileContext, path: impl AsRef<Path>, options: MmapOptions) -> Result<Self> {
        let path: PathBuf = path.as_ref().to_owned();
        let name = path.display().to_string();
        let of = name.clone();
        let map = FileContext::blocking(&context.handle, move || map(&path, &of, options)).await?;
        let split = Split::new(COPY).unwrap_or_else(|| unreachable!("not zero"));
        Ok(Self {
            map: Arc::new(map),
            pin: Arc::default(),
            starter: context.starter(&name),
            pinned_starter: context.starter(&name).without_staging(split),
            name,
            gap: context.gap,
            handle: context.handle.clone(),
        })
    }

    /// How many bytes are mapped.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        self.map.len() as u64
    }

    /// Pins the pages for the [device](AsyncDeviceRead::device) of this source, which then reads them by itself: reads
    /// into its memory use no staging memory and hardly any processor time. It takes 70 ms per GiB that is cached
    /// (`docs/results.md`), and as long as reading it for what is not; all of it then stays in memory for as long as the
    /// source, or a transfer of it, lives. Pinning again does nothing. Dropping the future does not stop what has begun.
    ///
    /// A file that changes afterwards, be it in its attributes alone, may have got other pages. It is read as if it were
    /// not pinned from the next read on; opened anew, it can be pinned again.
    ///
    /// # Errors
    /// [`Unsupported`](warpio_core::ErrorKind::Unsupported) for host memory, for private maps, and where driver, device or
    /// file system do not pin mapped files; [`Changed`](warpio_core::ErrorKind::Changed) if the file was cut short since it
    /// was mapped, changed since it was pinned, or is being written. The source reads on without.
    pub async fn pin(&self) -> Result<()> {
        if self.map.is_empty() {
            return Ok(());
        }
        let (map, pin, device) = (self.map.clone(), self.pin.clone(), self.device().clone());
        let pinned = FileContext::blocking(&self.handle, move || {
            if device.is_host_visible() {
                return Err(Error::unsupported(
                    "memory is pinned for a device; the map is read into host memory as it is",
                ));
            }
            if map.is_private() {
                // The kernel would pin copies of its pages, and leave them to the map for good, whatever becomes of the
                // file.
                return Err(Error::unsupported("pages of a private map are not pinned; map the file shared"));
            }
            map.check(0, map.len()).map_err(changed)?;
            pin.make(&map, &device)
        });
        pinned.await.map_err(|error| error.with_operation("pin").with_source_name(&self.name))
    }

    /// Whether a device reads the pages by itself: they are pinned, and no read or pin has found the file changed since.
    pub fn is_pinned(&self) -> bool {
        self.pin.get().is_some()
    }

    fn target(&self) -> Target {
        self.map.clone()
    }
}

/// An error of a map, by meaning.
pub(crate) fn changed(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::new(warpio_core::ErrorKind::Changed)
            .with_message("the file was cut short while it was mapped")
            .with_cause(error),
        _ => error.into(),
    }
}

fn map(path: &Path, name: &str, options: MmapOptions) -> Result<FileMap> {
    let writes = options.protection == Protection::ReadWrite && options.sharing == Sharing::Shared;
    let fd = OpenOptions::new().read(true).write(writes).open(path)?;
    let size = FileInfo::of(fd.as_fd()).map_err(|error| named(error, "map", name))?.size;
    if size == 0 && rustix::io::pread(&fd, &mut [0], 0).map_err(|error| named(error, "map", name))? > 0 {
        // As in /proc and /sys: the kernel makes the bytes when they are read.
        let error = Error::unsupported("the file does not know its size, so that it cannot be mapped; open it instead");
        return Err(error.with_operation("map").with_source_name(name));
    }
    let end = options.len.map_or(Some(size.max(options.offset)), |len| options.offset.checked_add(len));
    let Some(end) = end.filter(|&end| end <= size) else {
        let message = format!("the map would reach past the end of the file, which has {size} bytes");
        return Err(Error::invalid_input(message).with_operation("map").with_source_name(name));
    };
    let len = usize::try_from(end - options.offset).map_err(|_| Error::invalid_input("the file fits in no memory"))?;
    let pages = Pages {
        writable: options.protection == Protection::ReadWrite,
        private: options.sharing == Sharing::Private,
        populate: options.populate,
    };
    FileMap::new(fd, options.offset, len, pages).map_err(|error| named(error, "map", name))
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
        match self.pin.get().filter(|pinned| pinned.device() == buf.device()) {
            Some(pinned) => self.pinned_starter.read(pinned.clone(), offset, buf),
            None => self.starter.read(self.target(), offset, buf),
        }
    }

    fn read_ranges(&self, ranges: &[Range<u64>], buf: DeviceBytesMut) -> Transfer<Ranges> {
        self.starter.read_ranges(self.target(), ranges, buf, self.gap)
    }

    fn read_scatter(&self, requests: Vec<(u64, DeviceBytesMut)>) -> Transfer<Scattered> {
        self.starter.read_scatter(self.target(), requests, self.gap)
    }
}

impl fmt::Debug for MmapSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MmapSource")
            .field("name", &self.name)
            .field("len", &self.len())
            .field("pinned", &self.is_pinned())
            .finish_non_exhaustive()
    }
}

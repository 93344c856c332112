//! What a file is and where it lies, and what direct I/O on it asks for.

use crate::alignment::{COMMON_ALIGN, DirectAlign};
use crate::sys::{block, reopen};
use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

/// What kind of thing a descriptor or path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A disk, or a part of one.
    BlockDevice,
    /// A directory.
    Directory,
    /// A character device, such as `/dev/null`.
    CharDevice,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// Something else.
    Other,
}

impl From<FileType> for FileKind {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::RegularFile => Self::Regular,
            FileType::BlockDevice => Self::BlockDevice,
            FileType::Directory => Self::Directory,
            FileType::CharacterDevice => Self::CharDevice,
            FileType::Fifo => Self::Fifo,
            FileType::Socket => Self::Socket,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Regular => "regular file",
            Self::BlockDevice => "block device",
            Self::Directory => "directory",
            Self::CharDevice => "character device",
            Self::Fifo => "named pipe (FIFO)",
            Self::Socket => "socket",
            Self::Other => "special file",
        })
    }
}

/// The device that a file lies on, or is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// The driver's number.
    pub major: u32,
    /// The device's number within the driver.
    pub minor: u32,
}

impl DeviceId {
    fn new(dev: rustix::fs::Dev) -> Self {
        Self { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// Where a file is stored: what hangs together when storage stops answering, and has direct I/O together or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StorageId {
    device: DeviceId,
    /// Unlike a device's number, never used twice; zero before Linux 6.8.
    mount: u64,
}

impl StorageId {
    /// `STATX_MNT_ID_UNIQUE` of `linux/stat.h`; rustix has no name for it.
    const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

    /// Asks the kernel, which answers from what it remembers: a file server is not asked.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let stat = rustix::fs::statx(fd, c"", flags, StatxFlags::TYPE | Self::UNIQUE_MOUNT)?;
        let mask = StatxFlags::from_bits_retain(stat.stx_mask);
        if FileType::from_raw_mode(stat.stx_mode.into()) == FileType::BlockDevice {
            // The disk itself, not the file system that its name lies on.
            let device = DeviceId { major: stat.stx_rdev_major, minor: stat.stx_rdev_minor };
            return Ok(Self { device, mount: 0 });
        }
        Ok(Self {
            device: DeviceId { major: stat.stx_dev_major, minor: stat.stx_dev_minor },
            mount: if mask.contains(Self::UNIQUE_MOUNT) { stat.stx_mnt_id } else { 0 },
        })
    }
}

/// The type of a file system, by its magic number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FsType(pub u64);

impl FsType {
    /// What the kernel calls the place where disks are files (`BDEVFS_MAGIC`).
    pub const DISK: Self = Self(0x6264_6576);

    /// Its usual name, for those that hold data in practice.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0xEF53 => "ext4",
            0x5846_5342 => "xfs",
            0x9123_683E => "btrfs",
            0x0102_1994 => "tmpfs",
            0x8584_58F6 => "ramfs",
            0x2FC1_2FC1 => "zfs",
            0xF2F5_2010 => "f2fs",
            0x794C_7630 => "overlay",
            0x6969 => "nfs",
            0xFF53_4D42 | 0xFE53_4D42 => "cifs",
            0x6573_5546 => "fuse",
            0x0BD0_0BD0 => "lustre",
            0x4750_4653 => "gpfs",
            0x00C3_6400 => "ceph",
            0x1983_0326 => "beegfs",
            0x0102_1997 => "9p",
            0x7371_7368 => "squashfs",
            0x9584_58F6 => "hugetlbfs",
            0x6264_6576 => "bdev",
            _ => return None,
        })
    }

    /// Asks the kernel about an open file. For a disk it is [`DISK`](Self::DISK), wherever its name lies.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = rustix::fs::fstat(fd)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice {
            return Ok(Self::DISK);
        }
        // Some targets have it signed or 32 bits wide; the magic numbers are 32 bits.
        Ok(Self(rustix::fs::fstatfs(fd)?.f_type as u64 & 0xFFFF_FFFF))
    }

    /// Whether its files are on this machine, so that opening one waits for no server.
    pub fn is_local(self) -> bool {
        const LOCAL: [&str; 11] =
            ["bdev", "ext4", "xfs", "btrfs", "zfs", "f2fs", "squashfs", "overlay", "tmpfs", "ramfs", "hugetlbfs"];
        self.name().is_some_and(|name| LOCAL.contains(&name))
    }

    /// Whether its files are nowhere but in memory.
    pub fn is_memory(self) -> bool {
        matches!(self.name(), Some("tmpfs" | "ramfs" | "hugetlbfs"))
    }
}

impl fmt::Display for FsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

/// What is known of an open file.
///
/// ```
/// use std::os::fd::AsFd;
/// use warpio_local::sys::statx::{FileInfo, FileKind};
/// let file = tempfile::tempfile()?;
/// file.set_len(100)?;
/// let info = FileInfo::of(file.as_fd())?;
/// assert_eq!((info.size, info.kind), (100, FileKind::Regular));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// In bytes; of a block device, what the device holds.
    pub size: u64,
    /// What it is.
    pub kind: FileKind,
    /// The device that it lies on.
    pub device: DeviceId,
    /// Its number there. Together with `device` it names the file.
    pub inode: u64,
    /// The permission bits.
    pub mode: u32,
    /// The type of the file system that it lies on, [`FsType::DISK`] for a disk.
    pub fs_type: FsType,
}

impl FileInfo {
    /// Asks the kernel.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let stat = rustix::fs::fstat(fd)?;
        let kind = FileKind::from(FileType::from_raw_mode(stat.st_mode));
        let size = match kind {
            FileKind::BlockDevice => block::size(fd)?,
            _ => u64::try_from(stat.st_size).unwrap_or(0),
        };
        Ok(Self {
            size,
            kind,
            device: DeviceId::new(stat.st_dev),
            inode: stat.st_ino,
            mode: stat.st_mode & 0o7777,
            fs_type: FsType::of(fd)?,
        })
    }
}

/// Whether a file can be read past the page cache, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectSupport {
    /// The kernel names the alignment.
    Reported(DirectAlign),
    /// The kernel names none, but opens the file with O_DIRECT: the sector of the disk, 4096 at least.
    Assumed(DirectAlign),
    /// There is no direct I/O on this file.
    Unsupported,
}

impl DirectSupport {
    /// Asks the kernel about an open file.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        match Self::expected(fd)? {
            Self::Assumed(_) if refuses_direct(fd) => Ok(Self::Unsupported),
            support => Ok(support),
        }
    }

    /// As [`of`](Self::of) for who will open the file with O_DIRECT anyway, and sees then whether what is assumed holds.
    pub fn expected(fd: BorrowedFd<'_>) -> io::Result<Self> {
        match reported(fd) {
            Some(Some(align)) => return Ok(Self::Reported(align)),
            Some(None) => return Ok(Self::Unsupported),
            None => {}
        }
        let stat = rustix::fs::fstat(fd)?;
        let sector = match FileKind::from(FileType::from_raw_mode(stat.st_mode)) {
            FileKind::Regular => disk_sector(DeviceId::new(stat.st_dev)),
            FileKind::BlockDevice => block::sector(fd).ok(),
            _ => return Ok(Self::Unsupported),
        };
        Ok(assumed(sector))
    }

    /// What to align to, `None` without direct I/O.
    pub const fn alignment(self) -> Option<DirectAlign> {
        match self {
            Self::Reported(align) | Self::Assumed(align) => Some(align),
            Self::Unsupported => None,
        }
    }
}

/// The size of a page of memory, and of the page cache, in bytes.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// The kernel's own answer (Linux 6.1): outer `None` if it gives none, inner `None` if there is no direct I/O.
fn reported(fd: BorrowedFd<'_>) -> Option<Option<DirectAlign>> {
    let answer = rustix::fs::statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    if !StatxFlags::from_bits_retain(answer.stx_mask).contains(StatxFlags::DIOALIGN) {
        return None;
    }
    Some(DirectAlign::new(answer.stx_dio_mem_align, answer.stx_dio_offset_align))
}

fn assumed(sector: Option<u32>) -> DirectSupport {
    let align = sector.unwrap_or(COMMON_ALIGN).max(COMMON_ALIGN);
    match DirectAlign::new(align, align) {
        Some(align) => DirectSupport::Assumed(align),
        None => DirectSupport::Unsupported,
    }
}

/// Whether an open with O_DIRECT fails for that flag. Any other failure (no right to read, no `/proc`) tells nothing.
fn refuses_direct(fd: BorrowedFd<'_>) -> bool {
    let opened = reopen::reopen(fd, OFlags::RDONLY | OFlags::DIRECT | OFlags::NONBLOCK);
    opened.is_err_and(|e| e.raw_os_error() == Some(libc::EINVAL))
}

/// The logical sector of the disk under a file system; a partition's is kept with the whole disk.
fn disk_sector(device: DeviceId) -> Option<u32> {
    ["queue", "../queue"].iter().find_map(|queue| {
        let path = format!("/sys/dev/block/{device}/{queue}/logical_block_size");
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_alignment_is_the_sector_but_not_under_4096() {
        let align = |n| DirectSupport::Assumed(DirectAlign::new(n, n).unwrap());
        assert_eq!(assumed(None), align(4096));
        assert_eq!(assumed(Some(512)), align(4096));
        assert_eq!(assumed(Some(16384)), align(16384));
        assert_eq!(assumed(Some(5000)), DirectSupport::Unsupported);
    }

    #[test]
    fn file_systems_are_named_or_shown_by_number() {
        assert_eq!(FsType(0xEF53).to_string(), "ext4");
        assert_eq!(FsType(0x1234).to_string(), "0x1234");
    }
}

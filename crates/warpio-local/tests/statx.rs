//! What the system tells of files.

mod support;

use rustix::fs::{MemfdFlags, OFlags};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use support::{AlignedBuf, disk_dir, file_with, on_loop_device, on_ramfs, on_tmpfs, pattern, skipped};
use warpio_local::sys::block;
use warpio_local::sys::reopen::reopen;
use warpio_local::sys::rw::pread_full_direct;
use warpio_local::sys::statx::{DirectSupport, FileInfo, FileKind, page_size};

#[test]
fn a_file_is_what_the_standard_library_says() {
    let dir = disk_dir();
    let file = file_with(&dir.path().join("x"), &pattern(12_345));
    let info = FileInfo::of(file.as_fd()).unwrap();
    let meta = file.metadata().unwrap();
    assert_eq!((info.size, info.kind, info.inode), (12_345, FileKind::Regular, meta.ino()));
    assert_eq!(rustix::fs::makedev(info.device.major, info.device.minor), meta.dev());
    assert_eq!(info.mode, meta.mode() & 0o7777);
    let other = file_with(&dir.path().join("y"), b"");
    let other = FileInfo::of(other.as_fd()).unwrap();
    assert_eq!((other.device, other.fs_type), (info.device, info.fs_type));
    assert_ne!(other.inode, info.inode);
}

#[test]
fn kinds_are_told_apart() {
    let kind = |file: BorrowedFd<'_>| FileInfo::of(file).unwrap().kind;
    assert_eq!(kind(File::open("/").unwrap().as_fd()), FileKind::Directory);
    assert_eq!(kind(File::open("/dev/null").unwrap().as_fd()), FileKind::CharDevice);
    let (reader, _writer) = std::io::pipe().unwrap();
    assert_eq!(kind(reader.as_fd()), FileKind::Fifo);
    let (socket, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(kind(socket.as_fd()), FileKind::Socket);
    for file in [reader.as_fd(), socket.as_fd(), File::open("/").unwrap().as_fd()] {
        assert_eq!(DirectSupport::of(file).unwrap(), DirectSupport::Unsupported);
    }
}

#[test]
fn a_tmpfs_is_known_by_its_number() {
    on_tmpfs("size=1m", |path| {
        let file = file_with(&path.join("x"), b"abc");
        let info = FileInfo::of(file.as_fd()).unwrap();
        assert_eq!(info.fs_type.name(), Some("tmpfs"));
        agrees_with_an_open(file.as_fd());
    });
}

#[test]
fn a_file_system_without_direct_io_claims_none() {
    on_ramfs(|path| {
        let file = file_with(&path.join("x"), b"abc");
        assert_eq!(FileInfo::of(file.as_fd()).unwrap().fs_type.name(), Some("ramfs"));
        assert_eq!(DirectSupport::of(file.as_fd()).unwrap(), DirectSupport::Unsupported);
    });
}

/// Direct I/O is claimed exactly where the kernel opens for it.
fn agrees_with_an_open(file: BorrowedFd<'_>) {
    let claimed = DirectSupport::of(file).unwrap().alignment().is_some();
    let opened = reopen(file, OFlags::RDONLY | OFlags::DIRECT).is_ok();
    assert_eq!(claimed, opened);
}

#[test]
fn direct_io_is_claimed_where_the_kernel_opens_for_it() {
    let dir = disk_dir();
    let file = file_with(&dir.path().join("x"), &pattern(1000));
    agrees_with_an_open(file.as_fd());
    let memory = rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC).unwrap();
    agrees_with_an_open(memory.as_fd());
    // A file of the kernel's own making has no disk to go to directly.
    let proc = File::open("/proc/version").unwrap();
    assert_eq!(DirectSupport::of(proc.as_fd()).unwrap(), DirectSupport::Unsupported);
}

#[test]
fn the_alignment_told_is_enough_for_the_kernel() {
    let dir = disk_dir();
    let bytes = pattern(1 << 20);
    let file = file_with(&dir.path().join("x"), &bytes);
    let Some(align) = DirectSupport::of(file.as_fd()).unwrap().alignment() else {
        return skipped("no direct I/O where the build lies");
    };
    let direct = reopen(file.as_fd(), OFlags::RDONLY | OFlags::DIRECT).unwrap();
    // One past a multiple of twice the alignment, so that no larger alignment comes about by chance.
    let mut buf = AlignedBuf::new(align.offset() as usize + align.memory(), 2 * align.memory());
    let odd = &mut buf.as_mut_slice()[align.memory()..];
    // SAFETY: an exclusive slice of that length.
    let n = unsafe { pread_full_direct(direct.as_fd(), odd.as_mut_ptr(), odd.len(), align.offset(), align) }.unwrap();
    assert_eq!(n, align.offset() as usize);
    assert!(odd[..] == bytes[n..2 * n]);
}

#[test]
fn a_disk_has_a_size_and_a_sector() {
    let dir = disk_dir();
    let path = dir.path().join("disk");
    // A size that is a multiple of the sector and of nothing larger.
    file_with(&path, b"").set_len((3 << 20) + 512).unwrap();
    on_loop_device(&path, |device| {
        let disk = File::open(device).unwrap();
        let info = FileInfo::of(disk.as_fd()).unwrap();
        assert_eq!((info.kind, info.size), (FileKind::BlockDevice, (3 << 20) + 512));
        assert_eq!(block::size(disk.as_fd()).unwrap(), info.size);
        let name = device.file_name().unwrap().to_string_lossy();
        let sysfs = format!("/sys/class/block/{name}/queue/logical_block_size");
        let sector = std::fs::read_to_string(sysfs).unwrap();
        assert_eq!(block::sector(disk.as_fd()).unwrap().to_string(), sector.trim());
        let align = DirectSupport::of(disk.as_fd()).unwrap().alignment().unwrap();
        assert!(align.offset() >= sector.trim().parse().unwrap());
    });
}

#[test]
fn what_is_no_disk_has_no_disk_size() {
    let file = tempfile::tempfile().unwrap();
    assert!(block::size(file.as_fd()).is_err());
    assert!(block::sector(file.as_fd()).is_err());
}

#[test]
fn the_page_size_is_that_of_this_process_mappings() {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let line = smaps.lines().find_map(|l| l.strip_prefix("KernelPageSize:")).unwrap();
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    assert_eq!(page_size(), kilobytes * 1024);
}

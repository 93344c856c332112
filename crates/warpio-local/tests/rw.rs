//! Reads and writes at an offset, on real files.

mod support;

use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use support::{AlignedBuf, disk_dir, file_with, pattern, skipped};
use warpio_local::alignment::DirectAlign;
use warpio_local::page_cache::{drop_range, warm_range};
use warpio_local::sys::reopen::reopen;
use warpio_local::sys::rw::{pread_full_direct, pwrite_full_direct, read_at, read_at_nowait, write_at};
use warpio_local::sys::statx::DirectSupport;
use warpio_local::sys::usage::blocks_read;

const MAX_OFFSET: u64 = i64::MAX as u64;

#[test]
fn what_is_written_at_an_offset_is_read_there() {
    let file = tempfile::tempfile().unwrap();
    let bytes = pattern(100_000);
    write_at(file.as_fd(), &bytes, 12_345).unwrap();
    let mut back = vec![0; bytes.len()];
    assert_eq!(read_at(file.as_fd(), &mut back, 12_345).unwrap(), bytes.len());
    assert!(back == bytes);
    let mut before = vec![1; 12_345];
    assert_eq!(read_at(file.as_fd(), &mut before, 0).unwrap(), 12_345);
    assert!(before.iter().all(|b| *b == 0), "the hole reads as zeros");
}

#[test]
fn a_read_over_the_end_is_short_and_behind_it_is_empty() {
    let file = tempfile::tempfile().unwrap();
    write_at(file.as_fd(), &pattern(1000), 0).unwrap();
    let mut back = vec![0xEE; 500];
    assert_eq!(read_at(file.as_fd(), &mut back, 900).unwrap(), 100);
    assert_eq!(back[..100], pattern(1000)[900..]);
    assert!(back[100..].iter().all(|b| *b == 0xEE), "nothing is written behind what was read");
    assert_eq!(read_at(file.as_fd(), &mut back, 1000).unwrap(), 0);
    assert_eq!(read_at(file.as_fd(), &mut back, MAX_OFFSET - 500).unwrap(), 0);
    assert_eq!(read_at(file.as_fd(), &mut [], 0).unwrap(), 0);
}

#[test]
fn ranges_past_the_largest_offset_are_refused_before_the_kernel_sees_them() {
    let file = tempfile::tempfile().unwrap();
    let mut buf = [0; 2];
    for offset in [u64::MAX, u64::MAX - 1, MAX_OFFSET + 1, MAX_OFFSET, MAX_OFFSET - 1] {
        let read = read_at(file.as_fd(), &mut buf, offset).unwrap_err();
        assert_eq!((read.kind(), read.raw_os_error()), (ErrorKind::InvalidInput, None), "{offset}");
        let nowait = read_at_nowait(file.as_fd(), &mut buf, offset).unwrap_err();
        assert_eq!((nowait.kind(), nowait.raw_os_error()), (ErrorKind::InvalidInput, None));
        let write = write_at(file.as_fd(), &buf, offset).unwrap_err();
        assert_eq!((write.source.kind(), write.source.raw_os_error()), (ErrorKind::InvalidInput, None));
        assert_eq!(write.written, 0);
    }
    assert_eq!(file.metadata().unwrap().len(), 0);
}

#[test]
fn a_full_device_is_told_from_other_failures() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let error = write_at(full.as_fd(), &[0; 100], 0).unwrap_err();
    assert_eq!((error.written, error.source.kind()), (0, ErrorKind::StorageFull));
    let error = io::Error::from(error);
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert!(error.to_string().contains("after 0 bytes"), "{error}");
}

#[test]
fn a_descriptor_not_open_for_it_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    file_with(&path, b"abc");
    let read_only = File::open(&path).unwrap();
    let write_only = File::options().write(true).open(&path).unwrap();
    let write = write_at(read_only.as_fd(), b"x", 0).unwrap_err();
    assert_eq!((write.written, write.source.raw_os_error()), (0, Some(libc::EBADF)));
    let read = read_at(write_only.as_fd(), &mut [0], 0).unwrap_err();
    assert_eq!(read.raw_os_error(), Some(libc::EBADF));
    let read = read_at_nowait(write_only.as_fd(), &mut [0], 0).unwrap_err();
    assert_eq!(read.raw_os_error(), Some(libc::EBADF));
}

#[test]
fn reading_without_waiting_gives_what_is_cached_and_nothing_else() {
    let dir = disk_dir();
    let bytes = pattern(1 << 20);
    let file = file_with(&dir.path().join("x"), &bytes);
    let len = bytes.len() as u64;
    let mut back = vec![0; bytes.len()];
    assert!(warm_range(&file, 0..len).unwrap().is_full());
    if read_at_nowait(file.as_fd(), &mut back, 0).unwrap() != Some(bytes.len()) {
        return skipped("this file system has no reads that do not wait");
    }
    assert!(back == bytes);
    if drop_range(&file, 0..len).unwrap().pages > 0 {
        return skipped("this file system does not let go of pages");
    }
    assert_eq!(read_at_nowait(file.as_fd(), &mut back, len).unwrap(), Some(0), "the end is known");
    // The kernel asks the disk for what it misses, and a quick one may bring it during the call.
    let missed = (0..100).any(|_| {
        // What is still on its way stays.
        assert_eq!(read_at(file.as_fd(), &mut back, 0).unwrap(), bytes.len());
        if drop_range(&file, 0..len).unwrap().pages > 0 {
            return false;
        }
        let before = blocks_read();
        let Some(n) = read_at_nowait(file.as_fd(), &mut back, 0).unwrap() else {
            return true;
        };
        assert!(blocks_read() > before, "{n} bytes came from neither cache nor disk");
        assert!(back[..n] == bytes[..n]);
        false
    });
    assert!(missed, "a read that does not wait has waited a hundred times");
    assert_eq!(read_at(file.as_fd(), &mut back, 0).unwrap(), bytes.len());
    assert!(back == bytes);
}

/// A file on disk, a second descriptor of it without page cache, and its alignment.
fn direct(bytes: &[u8]) -> Option<(tempfile::TempDir, File, File, DirectAlign)> {
    let dir = disk_dir();
    let file = file_with(&dir.path().join("x"), bytes);
    let Some(align) = DirectSupport::of(file.as_fd()).unwrap().alignment() else {
        skipped("no direct I/O where the build lies");
        return None;
    };
    let direct = reopen(file.as_fd(), OFlags::RDWR | OFlags::DIRECT).unwrap();
    Some((dir, file, File::from(direct), align))
}

#[test]
fn a_direct_read_ends_with_the_file_inside_a_block() {
    let bytes = pattern((3 << 20) + 777);
    let Some((_dir, _file, direct, align)) = direct(&bytes) else {
        return;
    };
    let unit = align.unit() as usize;
    for (offset, len) in
        [(0, 4 << 20), (unit, 1 << 20), ((3 << 20) - unit, 4 * unit), (3 << 20, 1 << 20), (4 << 20, unit)]
    {
        let len = len.next_multiple_of(unit);
        let mut buf = AlignedBuf::new(len, align.memory());
        let slice = buf.as_mut_slice();
        // SAFETY: an exclusive slice of that length.
        let n = unsafe { pread_full_direct(direct.as_fd(), slice.as_mut_ptr(), len, offset as u64, align) }.unwrap();
        let expected = bytes.get(offset..).unwrap_or_default();
        let expected = &expected[..expected.len().min(len)];
        assert_eq!(n, expected.len(), "{offset} {len}");
        assert!(&buf.as_slice()[..n] == expected, "{offset} {len}");
    }
}

#[test]
fn direct_calls_that_are_not_aligned_never_reach_the_kernel() {
    let Some((_dir, file, direct, align)) = direct(&pattern(1 << 20)) else {
        return;
    };
    let (unit, memory) = (align.unit() as usize, align.memory());
    let mut buf = AlignedBuf::new(4 * unit, memory.max(2));
    let start = buf.as_mut_slice().as_mut_ptr();
    let mut cases = vec![(start, unit + 1, 0), (start, unit, 1), (start, 1, 0)];
    if memory > 1 {
        cases.push((start.wrapping_add(1), unit, 0));
    }
    for (ptr, len, offset) in cases {
        // SAFETY: the buffer is four units long, and each case stays within it.
        let read = unsafe { pread_full_direct(direct.as_fd(), ptr, len, offset, align) }.unwrap_err();
        assert_eq!((read.kind(), read.raw_os_error()), (ErrorKind::InvalidInput, None), "{read}");
        assert!(read.to_string().contains("multiples"), "{read}");
        // SAFETY: as above; the buffer was made of zeros.
        let write = unsafe { pwrite_full_direct(direct.as_fd(), ptr, len, offset, align) }.unwrap_err();
        assert_eq!((write.written, write.source.raw_os_error()), (0, None), "{write}");
    }
    // SAFETY: nothing is accessed.
    let empty = unsafe { pread_full_direct(direct.as_fd(), start, 0, 0, align) };
    assert_eq!(empty.unwrap(), 0);
    let mut back = vec![0; 1 << 20];
    read_at(file.as_fd(), &mut back, 0).unwrap();
    assert!(back == pattern(1 << 20), "nothing was written");
}

#[test]
fn a_direct_write_is_seen_by_buffered_readers() {
    let Some((_dir, file, direct, align)) = direct(&vec![0; 1 << 20]) else {
        return;
    };
    let unit = align.unit() as usize;
    let mut buf = AlignedBuf::new(8 * unit, align.memory());
    buf.as_mut_slice().copy_from_slice(&pattern(8 * unit));
    let offset = 2 * unit as u64;
    // SAFETY: a slice of that length, initialised and not written meanwhile.
    unsafe { pwrite_full_direct(direct.as_fd(), buf.as_slice().as_ptr(), 8 * unit, offset, align) }.unwrap();
    let mut back = vec![0xEE; 12 * unit];
    assert_eq!(read_at(file.as_fd(), &mut back, 0).unwrap(), back.len());
    assert!(back[..2 * unit].iter().all(|b| *b == 0));
    assert!(back[2 * unit..10 * unit] == pattern(8 * unit));
    assert!(back[10 * unit..].iter().all(|b| *b == 0));
}

//! A kernel whose reads that do not wait say 0 of what is not cached, as if the file ended there: Linux 5.9 and 5.10.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;

use rustix::fs::Advice;
use support::place::{LEN, Place, small_pool};
use warpio_core::testing::FakeGpu;
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Device};
use warpio_local::file::LocalFile;
use warpio_local::open::OpenOptions;
use warpio_local::page_cache::drop_range;

/// Stands in for the C library's in this program.
///
/// # Safety
/// As for preadv2(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn preadv2(fd: i32, iov: *const libc::iovec, count: i32, offset: i64, flags: i32) -> isize {
    // SAFETY: the caller's promise. The offset's upper half is passed by itself, and not looked at where longs hold all.
    let n = unsafe { libc::syscall(libc::SYS_preadv2, fd, iov, count, offset, 0, flags) } as isize;
    let missing = n < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN);
    if missing { 0 } else { n }
}

/// Lets these pages alone be cached.
fn cache_only(place: &Place, pages: &[u64]) {
    let file = File::open(place.path()).unwrap();
    drop_range(&file, 0..u64::MAX).unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::Random).unwrap();
    for page in pages {
        file.read_exact_at(&mut [0], page * 4096).unwrap();
    }
}

#[tokio::test]
async fn what_is_not_cached_is_not_the_end() {
    let place = Place::new();
    for device in [Device::host(), FakeGpu::device(0, small_pool()).0] {
        let options = OpenOptions::new().read(true);
        let file = LocalFile::open(&place.context(&device), place.path(), &options).await.unwrap();
        // Small and large, cached at the beginning and at both ends.
        for (len, pages) in [(8192, &[0][..]), (12_288, &[0, 2]), (LEN, &[0, 9, LEN as u64 / 4096]), (LEN, &[])] {
            cache_only(&place, pages);
            let read = file.read_at(0, device.alloc(len).unwrap()).await.unwrap();
            assert_eq!(read.n, len, "cached {pages:?}");
            assert!(read.buffer.freeze().to_host().await.unwrap()[..] == place.bytes[..len]);
        }
        cache_only(&place, &[0, 1, 50]);
        let ranges: Vec<_> = (0..60).map(|at| at * 4096 + 7..at * 4096 + 900).collect();
        let total = ranges.iter().map(|range| (range.end - range.start) as usize).sum();
        let bytes = file.read_ranges_exact(&ranges, device.alloc(total).unwrap()).await.unwrap();
        let wanted: Vec<u8> =
            ranges.iter().flat_map(|range| &place.bytes[range.start as usize..range.end as usize]).copied().collect();
        assert!(bytes.freeze().to_host().await.unwrap()[..] == wanted);
        // The end is still one.
        assert_eq!(file.read_at(LEN as u64 - 5, device.alloc(100).unwrap()).await.unwrap().n, 5);
        assert_eq!(file.read_at(LEN as u64 + 5, device.alloc(100).unwrap()).await.unwrap().n, 0);
    }
}

//! Sources read as a whole.

use tokio::runtime::Handle;
use warpio_core::testing::{FakeGpu, MemorySource, pattern};
use warpio_core::{AsyncDeviceReadExt, Device, ErrorKind, Staged};

use crate::double::Double;
use crate::support::small_pool;

#[tokio::test]
async fn a_source_that_became_shorter_is_not_read_as_if_it_were_whole() {
    let source = Staged::new(Double::open(1000).claim_size(1001), Device::host(), Handle::current());
    let error = source.read_all().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert!(error.to_string().contains("1001") && error.to_string().contains("1000"), "{error}");
}

#[tokio::test]
async fn a_source_that_became_longer_is_read_as_far_as_it_was() {
    let source = Staged::new(Double::open(1000).claim_size(900), Device::host(), Handle::current());
    assert_eq!(source.read_all().await.unwrap().as_slice(), Some(&pattern(900)[..]));
}

#[tokio::test]
async fn a_source_that_does_not_know_its_size_is_read_to_its_end() {
    for len in [0, 1, 65_535, 65_536, 65_537, 131_072, 400_000] {
        let source = Staged::new(Double::open(len).claim_size(0), Device::host(), Handle::current());
        assert!(source.read_all().await.unwrap().as_slice() == Some(&pattern(len)[..]), "{len} bytes");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_does_not_know_its_size_is_read_into_a_gpu() {
    let (device, _gpu) = FakeGpu::device(0, small_pool());
    let source = Staged::new(Double::open(200_000).claim_size(0), device.clone(), Handle::current());
    let data = source.read_all().await.unwrap();
    assert_eq!(data.device(), &device);
    assert!(data.to_host().await.unwrap() == pattern(200_000));
}

#[tokio::test]
async fn more_than_any_memory_holds_is_an_error() {
    for size in [u64::MAX, i64::MAX as u64] {
        let source = Staged::new(Double::open(10).claim_size(size), Device::host(), Handle::current());
        assert_eq!(source.read_all().await.unwrap_err().kind(), ErrorKind::OutOfMemory);
    }
    let (device, gpu) = FakeGpu::device(0, small_pool());
    gpu.limit_memory(100);
    let source = MemorySource::on_device(pattern(101), device);
    assert_eq!(source.read_all().await.unwrap_err().kind(), ErrorKind::OutOfMemory);
}

#[tokio::test]
async fn exactly_means_exactly() {
    let source = MemorySource::new(pattern(100));
    let exact = |offset, len| source.read_exact_at(offset, Device::host().alloc(len).unwrap());
    assert_eq!(exact(50, 50).await.unwrap().as_slice(), Some(&pattern(100)[50..]));
    assert!(exact(100, 0).await.unwrap().is_empty());
    let failed = exact(51, 50).await.unwrap_err();
    assert_eq!((failed.error.kind(), failed.error.offset()), (ErrorKind::UnexpectedEof, Some(51)));
    assert!(failed.error.to_string().contains("49 bytes are left"), "{}", failed.error);
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(50));
}

//! Sources as tokio readers and as streams of `Bytes`.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::runtime::Handle;
use warpio_core::testing::{FakeGpu, MemorySource, pattern};
use warpio_core::{AsyncDeviceReadExt, Device, ErrorKind, Result, Staged};

use crate::double::{Act, Double};
use crate::support::small_pool;

const LEN: usize = 2_500_007;

#[tokio::test]
async fn a_reader_reads_everything() {
    let mut bytes = Vec::new();
    let n = MemorySource::new(pattern(LEN)).into_reader().read_to_end(&mut bytes).await.unwrap();
    assert_eq!(n, LEN);
    assert!(bytes == pattern(LEN));
}

#[tokio::test]
async fn a_reader_fills_buffers_of_any_size() {
    let mut reader = MemorySource::new(pattern(10_000)).into_reader();
    let mut bytes = Vec::new();
    for size in (1..).take_while(|size| size * (size - 1) / 2 < 10_000) {
        let mut buffer = vec![0; size];
        let n = reader.read(&mut buffer).await.unwrap();
        bytes.extend_from_slice(&buffer[..n]);
    }
    reader.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes == pattern(10_000));
    assert_eq!(reader.read(&mut [0; 10]).await.unwrap(), 0, "and then nothing");
}

#[tokio::test]
async fn a_reader_with_no_room_to_read_into_reads_nothing() {
    let mut reader = MemorySource::new(pattern(10)).into_reader();
    assert_eq!(reader.read(&mut []).await.unwrap(), 0);
    assert_eq!(reader.read(&mut [0; 20]).await.unwrap(), 10);
}

#[tokio::test]
async fn a_reader_reports_errors_as_io_errors() {
    let double = Double::open(LEN).act(1 << 20, Act::Fail(ErrorKind::PermissionDenied));
    let source = Staged::with_parts(double, Device::host(), Handle::current(), 1 << 20, 4);
    let mut bytes = Vec::new();
    let error = source.into_reader().read_to_end(&mut bytes).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(warpio_core::Error::from(error).source_name(), Some("double"));
    assert!(bytes == pattern(1 << 20), "what arrived before is there");
}

#[tokio::test]
async fn a_reader_of_a_gpu_source_reads_into_host_memory() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let mut reader = MemorySource::on_device(pattern(1000), device).into_reader();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).await.unwrap();
    assert!(bytes == pattern(1000));
    assert_eq!(gpu.copies(), 0);
}

#[test]
fn a_reader_is_what_tokio_wants() {
    fn wanted<R: AsyncRead + Unpin + Send + 'static>(_: R) {}
    wanted(MemorySource::new(pattern(1)).into_reader());
    wanted(std::sync::Arc::new(MemorySource::new(pattern(1))).into_reader());
}

#[tokio::test]
async fn a_stream_yields_full_pieces_and_a_rest() {
    let stream = MemorySource::new(pattern(1000)).into_bytes_stream(300);
    let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
    assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [300, 300, 300, 100]);
    assert!(pieces.concat() == pattern(1000));
}

#[tokio::test]
async fn a_stream_of_nothing_and_of_whole_pieces_ends() {
    for (len, pieces) in [(0, 0), (300, 1), (600, 2)] {
        let stream = MemorySource::new(pattern(len)).into_bytes_stream(300);
        assert_eq!(stream.collect::<Vec<Result<Bytes>>>().await.len(), pieces);
    }
    let bytes: Vec<Bytes> = MemorySource::new(pattern(3)).into_bytes_stream(0).try_collect().await.unwrap();
    assert_eq!(bytes.len(), 3, "a piece has at least a byte");
}

#[tokio::test]
async fn a_stream_ends_with_its_first_error() {
    let double = Double::open(1000).act(500, Act::Fail(ErrorKind::Changed));
    let source = Staged::with_parts(double, Device::host(), Handle::current(), 100, 2);
    let mut stream = source.into_bytes_stream(100);
    for _ in 0..5 {
        assert_eq!(stream.next().await.unwrap().unwrap().len(), 100);
    }
    assert_eq!(stream.next().await.unwrap().unwrap_err().kind(), ErrorKind::Changed);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_stream_without_memory_is_an_error() {
    let mut stream = MemorySource::new(pattern(10)).into_bytes_stream(isize::MAX as usize);
    assert_eq!(stream.next().await.unwrap().unwrap_err().kind(), ErrorKind::OutOfMemory);
    assert!(stream.next().await.is_none());
}

#[test]
fn a_stream_dropped_in_mid_flight_drops_its_fetches() {
    let double = Double::shut(1000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let source = Staged::with_parts(double.clone(), Device::host(), runtime.handle().clone(), 100, 2);
    let mut stream = source.into_bytes_stream(100);
    assert!(crate::support::poll(&mut stream.next()).is_pending());
    double.wait_started(2);
    drop(stream);
    double.wait_abandoned(2);
}

//! Sources read piece by piece.

use std::sync::Arc;

use futures::StreamExt;
use tokio::runtime::Handle;
use warpio_core::testing::{FakeGpu, HeldEngine, MemorySource, pattern};
use warpio_core::{AsyncDeviceRead, AsyncDeviceReadExt, Chunk, Chunks, Device, Error, ErrorKind, Result, Staged};

use crate::double::{Act, Double};
use crate::support::{HeldSource, block_on, held, poll, small_pool};

/// A source of 1000 bytes whose engine holds every read back.
fn held_source() -> (Arc<HeldEngine>, HeldSource) {
    let (engine, starter) = held(&Device::host(), 1000);
    (engine, HeldSource(starter, 1000))
}

async fn collect<S: AsyncDeviceRead>(chunks: &mut Chunks<S>) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.try_next().await? {
        assert_eq!(chunk.offset(), bytes.len() as u64);
        bytes.extend_from_slice(chunk.as_slice().expect("host memory"));
    }
    Ok(bytes)
}

fn fill(engine: &HeldEngine) {
    engine.take().into_iter().for_each(|held| held.fill(1));
}

#[tokio::test]
async fn chunks_of_any_length_and_depth_cover_the_source_in_order() {
    let source = MemorySource::new(pattern(1000));
    for len in [1, 7, 100, 999, 1000, 1001, 5000] {
        for depth in [1, 2, 5] {
            let bytes = collect(&mut source.chunks(len).depth(depth).start()).await.unwrap();
            assert!(bytes == pattern(1000), "{depth} chunks of {len} bytes");
        }
    }
}

#[tokio::test]
async fn all_chunks_but_the_last_are_full() {
    let source = MemorySource::new(pattern(1000));
    let lengths: Vec<_> =
        source.chunks(300).start().map(|chunk| chunk.map(|chunk| chunk.len()).unwrap()).collect().await;
    assert_eq!(lengths, [300, 300, 300, 100]);
    let lengths: Vec<_> = source.into_chunks(500).start().map(|chunk| chunk.unwrap().len()).collect().await;
    assert_eq!(lengths, [500, 500], "no empty chunk at the end");
}

#[test]
fn as_many_chunks_are_read_ahead_as_there_is_room_for() {
    let (engine, source) = held_source();
    let mut chunks = source.chunks(100).depth(3).start();
    assert_eq!(engine.len(), 3, "it begins at once");
    fill(&engine);
    let first = block_on(chunks.try_next()).unwrap().unwrap();
    let second = block_on(chunks.try_next()).unwrap().unwrap();
    assert_eq!(engine.len(), 0, "all chunks are in use or waiting");
    drop(first);
    drop(block_on(chunks.try_next()).unwrap().unwrap());
    assert_eq!(engine.len(), 1, "one came back before the last call, and was used again");
    drop(second);
}

#[test]
fn chunks_that_arrive_out_of_order_are_handed_out_in_order() {
    let (engine, source) = held_source();
    let mut chunks = source.chunks(100).depth(3).start();
    engine.take().into_iter().rev().enumerate().for_each(|(i, held)| held.fill(i as u8));
    for (offset, byte) in [(0, 2), (100, 1), (200, 0)] {
        let chunk = block_on(chunks.try_next()).unwrap().unwrap();
        assert_eq!((chunk.offset(), chunk.as_slice().unwrap()[0]), (offset, byte));
    }
}

#[tokio::test]
async fn a_range_is_read_exactly() {
    let source = MemorySource::new(pattern(1000));
    for range in [0..1000, 0..1, 5..5, 999..1000, 1000..1000, 123..789] {
        let (start, end) = (range.start as usize, range.end as usize);
        let mut chunks = source.chunks(100).range(range.clone()).start();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.try_next().await.unwrap() {
            assert_eq!(chunk.offset() as usize, start + bytes.len());
            bytes.extend_from_slice(chunk.as_slice().unwrap());
        }
        assert!(bytes == pattern(1000)[start..end], "{range:?}");
    }
}

#[tokio::test]
async fn a_range_past_the_end_is_an_error_and_then_nothing() {
    let source = MemorySource::new(pattern(1000));
    for range in [0..1001, 950..1050, 1000..1001, 5000..5001] {
        let mut chunks = source.chunks(100).range(range.clone()).start();
        let error = loop {
            match chunks.try_next().await {
                Ok(Some(chunk)) => assert_eq!(chunk.len(), 100),
                Ok(None) => panic!("{range:?} ended without an error"),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{range:?}");
        assert!(chunks.try_next().await.unwrap().is_none());
        assert!(chunks.try_next().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn what_cannot_be_is_told_by_the_first_call() {
    let source = MemorySource::new(pattern(1000));
    let reversed = std::ops::Range { start: 10, end: 5 };
    let cases = [
        (source.chunks(0).start(), ErrorKind::InvalidInput),
        (source.chunks(10).depth(0).start(), ErrorKind::InvalidInput),
        (source.chunks(10).range(reversed).start(), ErrorKind::InvalidInput),
        (source.chunks(isize::MAX as usize).start(), ErrorKind::OutOfMemory),
        (source.chunks(10).range(u64::MAX - 5..u64::MAX).start(), ErrorKind::InvalidInput),
    ];
    for (mut chunks, kind) in cases {
        assert_eq!(chunks.try_next().await.unwrap_err().kind(), kind);
        assert!(chunks.try_next().await.unwrap().is_none(), "after an error there is nothing");
    }
}

#[tokio::test]
async fn an_error_in_the_middle_comes_in_its_place_and_is_the_last() {
    let double = Double::open(1000).act(300, Act::Fail(ErrorKind::Unavailable));
    let source = Staged::with_parts(double, Device::host(), Handle::current(), 100, 4);
    let mut chunks = source.chunks(100).depth(4).start();
    for _ in 0..3 {
        assert_eq!(chunks.try_next().await.unwrap().unwrap().len(), 100);
    }
    assert_eq!(chunks.try_next().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(chunks.try_next().await.unwrap().is_none());
}

#[test]
fn a_consumer_that_holds_all_chunks_is_woken_when_one_comes_back() {
    let (engine, source) = held_source();
    let mut chunks = source.chunks(100).depth(2).start();
    fill(&engine);
    let first = block_on(chunks.try_next()).unwrap().unwrap();
    let _second = block_on(chunks.try_next()).unwrap().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut next = Box::pin(chunks.try_next());
            assert!(poll(&mut next).is_pending());
            block_on(async move { next.await.map(|chunk| chunk.map(|chunk: Chunk| chunk.offset())) })
        });
        drop(first);
        while engine.is_empty() {
            std::thread::yield_now();
        }
        fill(&engine);
        assert_eq!(waiting.join().unwrap().unwrap(), Some(200));
    });
}

#[test]
fn dropped_in_mid_flight_its_reads_are_cancelled_and_their_memory_stays() {
    let (engine, source) = held_source();
    let chunks = source.into_chunks(100).depth(3).start();
    drop(chunks);
    let held = engine.take();
    assert_eq!(held.len(), 3);
    assert!(held.iter().all(|held| held.segment().is_moot()));
    held.into_iter().for_each(|held| held.fill(9));
}

#[tokio::test]
async fn chunks_may_be_read_into_memory_of_the_host() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let source = MemorySource::on_device(pattern(1000), device);
    let bytes = collect(&mut source.chunks(300).on_device(&Device::host()).start()).await.unwrap();
    assert!(bytes == pattern(1000));
    assert_eq!(gpu.copies(), 0);
}

#[tokio::test]
async fn memory_that_is_not_there_is_an_error() {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    gpu.limit_memory(150);
    let source = MemorySource::on_device(pattern(1000), device);
    let mut chunks = source.chunks(100).depth(2).start();
    let error: Error = chunks.try_next().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(chunks.try_next().await.unwrap().is_none());
    drop(chunks);
    gpu.wait_freed();
}

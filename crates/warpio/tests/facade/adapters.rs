//! Files as `AsyncRead`, as streams and in chunks: each of them is the file.

use futures::{StreamExt, TryStreamExt};
use tokio::io::{AsyncReadExt, BufReader};
use warpio::core::testing::pattern;
use warpio::{AsyncDeviceReadExt, Device};

use crate::support::{KIB, MIB, Scratch, TASK, for_each_runtime, host};

const LENGTHS: [usize; 6] = [0, 1, 4096, TASK, MIB - 1, 2 * MIB + 777];

#[tokio::test]
async fn as_an_async_read() {
    let scratch = Scratch::on_disk();
    for len in LENGTHS {
        let (path, want) = (scratch.file("file", len), pattern(len));
        for_each_runtime(async |rt| {
            let mut all = Vec::new();
            rt.open(&path).await.unwrap().into_reader().read_to_end(&mut all).await.unwrap();
            assert!(all == want, "{len}");
            // In pieces that fit nothing.
            let mut reader = BufReader::with_capacity(1000, rt.open(&path).await.unwrap().into_reader());
            let (mut some, mut piece) = (Vec::new(), [0; 7777]);
            loop {
                match reader.read(&mut piece).await.unwrap() {
                    0 => break,
                    n => some.extend_from_slice(&piece[..n]),
                }
            }
            assert!(some == want, "{len}");
            assert_eq!(reader.read(&mut piece).await.unwrap(), 0, "the end stays the end");
        })
        .await;
    }
}

#[tokio::test]
async fn as_a_stream_of_bytes() {
    let scratch = Scratch::on_disk();
    for len in LENGTHS {
        let (path, want) = (scratch.file("file", len), pattern(len));
        for_each_runtime(async |rt| {
            for piece in [100 * KIB, 3 * MIB] {
                let stream = rt.open(&path).await.unwrap().into_bytes_stream(piece);
                let pieces: Vec<_> = stream.try_collect().await.unwrap();
                assert_eq!(pieces.len(), len.div_ceil(piece));
                assert!(pieces.concat() == want, "{len}");
            }
        })
        .await;
    }
}

#[tokio::test]
async fn in_chunks_of_every_depth_and_on_another_device() {
    let scratch = Scratch::on_disk();
    for len in LENGTHS {
        let (path, want) = (scratch.file("file", len), pattern(len));
        for_each_runtime(async |rt| {
            for (size, depth) in [(64 * KIB, 1), (100 * KIB + 1, 3), (4 * MIB, 2)] {
                let mut all = Vec::new();
                let mut chunks = rt.open(&path).await.unwrap().into_chunks(size).depth(depth).start();
                while let Some(chunk) = chunks.try_next().await.unwrap() {
                    assert_eq!(chunk.offset(), all.len() as u64);
                    all.extend(host(&chunk.into_buffer().freeze()).await);
                }
                assert!(all == want, "{len} in {size}");
            }
            let source = rt.open(&path).await.unwrap();
            let chunks = source.chunks(200 * KIB).on_device(&Device::host()).start();
            let all: Vec<u8> =
                chunks.map(|chunk| chunk.unwrap().as_slice().unwrap().to_vec()).collect::<Vec<_>>().await.concat();
            assert!(all == want, "{len}");
        })
        .await;
    }
}

#[tokio::test]
async fn dropped_in_the_middle_they_leave_the_source_usable() {
    let scratch = Scratch::on_disk();
    let (path, want) = (scratch.file("file", 2 * MIB), pattern(2 * MIB));
    for_each_runtime(async |rt| {
        let source = rt.open(&path).await.unwrap();
        let mut byte = [0];
        (&source).into_reader().read_exact(&mut byte).await.unwrap();
        assert_eq!(byte[0], want[0]);
        let first = (&source).into_bytes_stream(1000).next().await.unwrap().unwrap();
        assert!(first == want[..1000]);
        drop(source.chunks(10_000).start().try_next().await.unwrap());
        assert!(host(&source.read_all().await.unwrap()).await == want);
    })
    .await;
}

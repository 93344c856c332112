//! An object of a store, chunk by chunk through device memory: the next is on its way while this one is used.
//!
//! `cargo run --release --example s3_stream -- s3://bucket/key` takes credentials, region and endpoint from the
//! environment (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`; `AWS_SKIP_SIGNATURE=true` for a public bucket).

use std::time::Instant;

use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, Runtime};

const CHUNK: usize = 64 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("usage: s3_stream URL")?;
    let rt = Runtime::new()?;
    let object = rt.open(&url).await?;
    let stream = rt.device().new_stream()?;

    let (start, mut total, mut sum) = (Instant::now(), 0, 0u64);
    let mut chunks = object.chunks(CHUNK).depth(2).on_stream(&stream).start();
    while let Some(chunk) = chunks.try_next().await? {
        total += chunk.len() as u64;
        // A kernel would be launched on `stream` here. To look at the bytes, the host has to wait for them.
        for byte in chunk.into_buffer().freeze().to_host().await?.iter() {
            sum += u64::from(*byte);
        }
    }
    let (name, device) = (object.describe().name, rt.device());
    let rate = total as f64 / start.elapsed().as_secs_f64() / 1e9;
    println!("{name}: {total} bytes on {device}, sum {sum}, {rate:.2} GB/s");
    Ok(())
}

//! Loads a file into device memory: that of the first GPU, or host memory where there is none.
//!
//!     cargo run --release --example load -- FILE

use std::time::Instant;

use warpio::{AsyncDeviceReadExt, Runtime};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: load FILE")?;
    let rt = Runtime::new()?;
    let start = Instant::now();

    let file = rt.open(path).await?;
    let data = file.read_all().await?;

    let seconds = start.elapsed().as_secs_f64();
    let speed = data.len() as f64 / seconds / 1e9;
    println!("{} bytes on {} in {seconds:.6} s: {speed:.2} GB/s", data.len(), data.device());
    Ok(())
}

//! Reads a file of 32-bit floats into device memory, in place of opening it, reading it and copying it there:
//!
//!     let mut bytes = Vec::new();
//!     File::open(path)?.read_to_end(&mut bytes)?; // blocks this thread, and goes through pageable memory
//!     let data = stream.clone_htod(&bytes)?;      // which the driver copies once more
//!
//!     cargo run --release --example replace_open -- FILE

use warpio::{AsyncDeviceReadExt, DeviceBytes, Runtime};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: replace_open FILE")?;
    let rt = Runtime::new()?;

    let data: DeviceBytes = rt.open(path).await?.read_all().await?;

    // A kernel would be given `data.device_ptr()`. Here, the first numbers are looked at from the host.
    let head = data.slice(..data.len().min(16)).to_host().await?;
    let first: Vec<f32> = head.as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect();
    println!("{} floats on {}, beginning with {first:?}", data.len() / 4, data.device());
    Ok(())
}

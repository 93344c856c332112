//! Copies a file: the next pieces are read while one is written. The copy appears whole, or not at all.
//!
//!     cargo run --release --example copy -- FROM TO

use warpio::{AsyncDeviceReadExt, AsyncDeviceWriteExt, DeviceSpec, Runtime};

const PIECE: usize = 8 << 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (Some(from), Some(to)) = (std::env::args_os().nth(1), std::env::args_os().nth(2)) else {
        return Err("usage: copy FROM TO".into());
    };
    // No GPU takes part.
    let rt = Runtime::builder().device(DeviceSpec::Host).build()?;
    let source = rt.open(from).await?;
    let target = rt.create(to).await?;

    let mut copied = 0;
    let mut pieces = source.chunks(PIECE).depth(3).start();
    while let Some(piece) = pieces.try_next().await? {
        let offset = piece.offset();
        copied += target.write_all_at(offset, piece.into_buffer()).await?.len();
    }
    target.finish().await?;
    println!("{copied} bytes copied");
    Ok(())
}

//! Ingests files: a tokio task for each of them, in which a chunk is loaded while a kernel works on the one before.
//!
//!     cargo run --release --example ingest -- FILE…

use std::ffi::OsString;

use cudarc::driver::{LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use tokio::task::spawn_blocking;
use warpio::cuda::{CudaDeviceExt, CudaStream, memset};
use warpio::{AsyncDeviceReadExt, Runtime, Source};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
const CHUNK: usize = 16 << 20;
const GRID: LaunchConfig = LaunchConfig { grid_dim: (256, 1, 1), block_dim: (256, 1, 1), shared_mem_bytes: 0 };

#[tokio::main]
async fn main() -> Result<()> {
    let rt = Runtime::new()?;
    let tasks: Vec<_> = std::env::args_os().skip(1).map(|path| tokio::spawn(ingest(rt.clone(), path))).collect();
    for task in tasks {
        println!("{}", task.await??);
    }
    Ok(())
}

async fn ingest(rt: Runtime, path: OsString) -> Result<String> {
    let file = rt.open(&path).await?;
    let sum = if rt.device().is_host_visible() { on_host(file).await? } else { on_gpu(&rt, file).await? };
    Ok(format!("{}: the bytes add up to {sum}, on {}", path.display(), rt.device()))
}

async fn on_gpu(rt: &Runtime, file: Source) -> Result<u64> {
    let stream = CudaStream::new(rt.device())?;
    let module = rt.device().cuda_context()?.load_module(Ptx::from_src(include_str!("sum_u8.ptx")))?;
    let kernel = module.load_function("warpio_sum_u8")?;
    let size = file.size().await?;
    let mut sums = rt.device().alloc(8 * size.div_ceil(CHUNK as u64) as usize)?;
    memset(&mut sums, 0, &stream)?;
    let mut chunks = file.chunks(CHUNK).depth(2).range(0..size).on_stream(&stream).start();
    while let Some(chunk) = chunks.try_next().await? {
        let (bytes, len) = (chunk.device_ptr(), chunk.len() as u64);
        let sum = sums.device_ptr() + 8 * (chunk.offset() / CHUNK as u64);
        // SAFETY: both are valid for what the kernel does; chunk and sums are released and used again only behind it.
        unsafe { stream.launch_builder(&kernel).arg(&bytes).arg(&len).arg(&sum).launch(GRID) }?;
        sums.after(&stream)?;
    } // The chunk is dropped here: its memory is loaded into again as soon as the kernel is done with it.
    let sums = sums.freeze().to_host().await?;
    Ok(sums.as_chunks().0.iter().map(|&sum| u64::from_le_bytes(sum)).sum())
}

async fn on_host(file: Source) -> Result<u64> {
    let (mut sum, mut chunks) = (0, file.chunks(CHUNK).depth(2).start());
    while let Some(chunk) = chunks.try_next().await? {
        let add_up = move || chunk.as_slice().unwrap_or_default().iter().map(|&byte| u64::from(byte)).sum::<u64>();
        sum += spawn_blocking(add_up).await?;
    }
    Ok(sum)
}

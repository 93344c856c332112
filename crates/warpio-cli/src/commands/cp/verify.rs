//! Whether a copy holds what its source holds.

use std::fs::File;
use std::path::{Path, PathBuf};

use warpio::local::page_cache;
use warpio::{AsyncDeviceReadExt, Device, Runtime, Source};

use super::place::Place;
use crate::failure::Failure;
use crate::output::{Output, named};
use crate::progress::Progress;

/// How much is read at a time, and how many such pieces are in memory for each file.
const PIECE: usize = 4 << 20;
const PIECES: usize = 4;

/// Reads both files again and compares them; returns their CRC-32C.
pub(super) async fn both(
    rt: &Runtime,
    source: &Path,
    copy: &Place,
    bytes: u64,
    output: &Output,
) -> Result<u32, Failure> {
    if let Some(file) = copy.file() {
        forget_cached(file.to_owned()).await;
    }
    let progress = Progress::new(output, "verifying", 2 * bytes);
    let (original, copied) = (rt.open(source).await?, copy.open(rt).await?);
    let (original, copied) = futures::try_join!(content(&original, &progress), content(&copied, &progress))?;
    if original == copied {
        return Ok(copied.crc32c);
    }
    Err(Failure::new(format!(
        "{} ({copied}) is not what {} holds now ({original}); copy it again, and check the storage if nothing else \
         writes to these files",
        copy.name().display(),
        named(source),
    )))
}

/// Lets the copy be read from where it is stored rather than from memory. Where that can't be done (tmpfs has nothing
/// but memory), it is compared as it is there.
async fn forget_cached(copy: PathBuf) {
    let forget = move || {
        let _ = File::open(copy).is_ok_and(|file| page_cache::drop_range(&file, 0..u64::MAX).is_ok());
    };
    // An error means that this program ends.
    let _ = tokio::task::spawn_blocking(forget).await;
}

#[derive(PartialEq)]
struct Content {
    bytes: u64,
    crc32c: u32,
}

impl std::fmt::Display for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes, crc32c {:08x}", self.bytes, self.crc32c)
    }
}

async fn content(source: &Source, progress: &Progress) -> Result<Content, Failure> {
    let mut chunks = source.chunks(PIECE).depth(PIECES).on_device(&Device::host()).start();
    let mut content = Content { bytes: 0, crc32c: 0 };
    while let Some(chunk) = chunks.try_next().await? {
        let piece = chunk.as_slice().unwrap_or_default();
        content.crc32c = crc32c::crc32c_append(content.crc32c, piece);
        content.bytes += piece.len() as u64;
        progress.add(piece.len() as u64);
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::cp::target::Target;
    use crate::runtime;

    #[tokio::test]
    async fn a_copy_that_differs_in_a_byte_or_in_length_is_found() {
        let (rt, output) = (runtime::start_on_host().unwrap(), Output::new(true));
        let dir = tempfile::tempdir().unwrap();
        let (source, copy) = (dir.path().join("source"), dir.path().join("copy"));
        let place = Place::File(Target { path: copy.clone(), permissions: None });
        let bytes = vec![7; 5_000_000];
        std::fs::write(&source, &bytes).unwrap();
        std::fs::write(&copy, &bytes).unwrap();
        both(&rt, &source, &place, 5_000_000, &output).await.unwrap();
        let mut wrong = bytes.clone();
        wrong[4_500_000] = 8;
        for wrong in [&wrong[..], &bytes[1..], &[]] {
            std::fs::write(&copy, wrong).unwrap();
            let failure = both(&rt, &source, &place, 5_000_000, &output).await.unwrap_err().to_string();
            assert!(failure.contains("copy") && failure.contains("source"), "{failure}");
        }
    }
}

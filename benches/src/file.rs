//! Test files, whose content depends on the offset.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

pub use crate::content::{holds, word};

const MIB: usize = 1 << 20;

/// Makes `path` a file of `len` bytes, unless it is one already.
///
/// # Errors
/// What the system says.
pub fn make(path: &Path, len: u64) -> io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|meta| meta.len() == len) {
        return Ok(());
    }
    let mut file = File::create(path)?;
    let mut block = vec![0u8; 4 * MIB];
    let mut at = 0;
    while at < len {
        for (i, bytes) in block.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&word(at / 8 + i as u64).to_le_bytes());
        }
        let n = (len - at).min(block.len() as u64) as usize;
        file.write_all(&block[..n])?;
        at += n as u64;
    }
    file.sync_all()
}

/// Reads the file once, so that the page cache holds it. Returns its crc32c.
///
/// # Errors
/// What the system says.
pub fn warm(path: &Path) -> io::Result<u32> {
    let file = File::open(path)?;
    let mut block = vec![0u8; 4 * MIB];
    let (mut at, mut crc) = (0, 0);
    loop {
        let n = file.read_at(&mut block, at)?;
        if n == 0 {
            return Ok(crc);
        }
        crc = crc32c::crc32c_append(crc, &block[..n]);
        at += n as u64;
    }
}

/// Takes the file's pages out of the page cache.
///
/// # Errors
/// What the system says.
pub fn cool(path: &Path) -> io::Result<()> {
    let file = File::open(path)?;
    warpio::local::page_cache::drop_range(&file, 0..file.metadata()?.len()).map_err(io::Error::other)?;
    Ok(())
}

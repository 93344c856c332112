//! The file that is measured, and how it is known what must arrive.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempPath};
use tokio::task::spawn_blocking;
use warpio::{AsyncDeviceWriteExt, Device, DeviceBytes, ErrorKind, Runtime};

use super::pattern;
use crate::failure::{Failure, OrAdvise};
use crate::output::Output;
use crate::progress::Progress;
use crate::readback;

/// How much is written or read at a time when a file is made or checked.
const PIECE: usize = 4 << 20;

/// A file to be measured.
pub(super) enum Subject {
    /// Our own, with the pattern in it; removed when this is dropped.
    Own { path: TempPath, size: u64 },
    /// The user's.
    Given { path: PathBuf, size: u64, crc32c: u32 },
}

impl Subject {
    /// Makes a file of `size` bytes in `dir`.
    pub(super) async fn make(rt: &Runtime, dir: &Path, size: u64, output: &Output) -> Result<Self, Failure> {
        let file = NamedTempFile::with_prefix_in("warpio-bench-", dir).map_err(|error| {
            let dir = dir.display();
            Failure::new(format!("no file can be made in {dir}: {error}; choose another directory with --dir"))
        })?;
        let path = file.into_temp_path();
        write_pattern(rt, &path, size, output)
            .await
            .or_advise(ErrorKind::StorageFull, "choose a smaller --size, or another directory with --dir")?;
        Ok(Self::Own { path, size })
    }

    /// Takes the user's file. It is read here by other means than those that are measured.
    pub(super) async fn given(path: PathBuf, output: &Output) -> Result<Self, Failure> {
        let (size, crc32c) = checksum(&path, output)
            .await
            .map_err(|error| Failure::new(format!("{} cannot be read: {error}", path.display())))?;
        Ok(Self::Given { path, size, crc32c })
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Own { path, .. } => path,
            Self::Given { path, .. } => path,
        }
    }

    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Own { size, .. } | Self::Given { size, .. } => *size,
        }
    }

    /// Checks every byte that arrived, as it is read back from the device.
    pub(super) async fn verify(&self, arrived: &DeviceBytes) -> Result<(), Failure> {
        match self {
            Self::Own { .. } => {
                readback::each_piece(arrived, |at, piece| match pattern::first_wrong(at as u64, piece) {
                    None => Ok(()),
                    Some(at) => Err(wrong(&format!("the byte at {at}, read back from {},", arrived.device()))),
                })
                .await
            }
            Self::Given { crc32c, .. } => {
                let found = readback::crc32c(arrived).await?;
                let what = || format!("what was read back from {} (crc32c {found:08x})", arrived.device());
                if found == *crc32c { Ok(()) } else { Err(wrong(&what())) }
            }
        }
    }
}

fn wrong(what: &str) -> Failure {
    Failure::new(format!(
        "{what} is not what the file holds, so that the speed means nothing; unless another program writes to the \
         file, please report this"
    ))
}

async fn write_pattern(rt: &Runtime, path: &Path, size: u64, output: &Output) -> Result<(), Failure> {
    let progress = Progress::new(output, "making a file", size);
    let file = rt.open_options().write(true).open(path).await?;
    let mut buffer = Device::host().alloc(PIECE)?;
    let mut offset = 0;
    while offset < size {
        drop(buffer.split_off((size - offset).min(PIECE as u64) as usize));
        pattern::fill(offset, buffer.as_mut_slice().unwrap_or_default());
        let written = file.write_all_at(offset, buffer).await?;
        offset += written.len() as u64;
        progress.add(written.len() as u64);
        buffer = match written.try_into_mut() {
            Ok(buffer) => buffer,
            Err(_) => Device::host().alloc(PIECE)?,
        };
    }
    Ok(file.close().await?)
}

/// Size and CRC-32C of a file, by the standard library's reads.
async fn checksum(path: &Path, output: &Output) -> std::io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let progress = Progress::new(output, "reading the file", file.metadata()?.len());
    let (mut buffer, mut size, mut crc32c) = (vec![0; PIECE], 0, 0);
    loop {
        // A piece at a time, so that an interruption is heard.
        let (n, read_file, read) = spawn_blocking(move || {
            let n = file.read(&mut buffer)?;
            std::io::Result::Ok((n, file, buffer))
        })
        .await??;
        (file, buffer) = (read_file, read);
        if n == 0 {
            return Ok((size, crc32c));
        }
        size += n as u64;
        crc32c = crc32c::crc32c_append(crc32c, &buffer[..n]);
        progress.add(n as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime;

    const QUIET: bool = true;

    async fn read(rt: &Runtime, path: &Path) -> Vec<u8> {
        use warpio::AsyncDeviceReadExt;
        rt.open(path).await.unwrap().read_all().await.unwrap().to_host().await.unwrap().to_vec()
    }

    fn arrived(bytes: Vec<u8>) -> DeviceBytes {
        warpio::DeviceBytesMut::from(bytes).freeze()
    }

    #[tokio::test]
    async fn one_wrong_byte_of_an_own_file_is_found_and_named() {
        let (rt, output) = (runtime::start_on_host().unwrap(), Output::new(QUIET));
        let dir = tempfile::tempdir().unwrap();
        let subject = Subject::make(&rt, dir.path(), 5_000_001, &output).await.unwrap();
        let mut bytes = read(&rt, subject.path()).await;
        subject.verify(&arrived(bytes.clone())).await.unwrap();
        bytes[4_999_999] ^= 1;
        let failure = subject.verify(&arrived(bytes)).await.unwrap_err().to_string();
        assert!(failure.contains("4999999"), "{failure}");
        drop(subject);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn other_bytes_than_a_given_file_has_are_found() {
        let output = Output::new(QUIET);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("given");
        std::fs::write(&path, b"123456789").unwrap();
        let subject = Subject::given(path.clone(), &output).await.unwrap();
        assert!(matches!(subject, Subject::Given { size: 9, crc32c: 0xE306_9283, .. }));
        subject.verify(&arrived(b"123456789".to_vec())).await.unwrap();
        for wrong in [&b"123456788"[..], b"12345678", b""] {
            let failure = subject.verify(&arrived(wrong.to_vec())).await.unwrap_err().to_string();
            assert!(failure.contains("crc32c"), "{failure}");
        }
    }
}

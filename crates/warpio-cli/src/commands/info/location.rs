//! Where a path lies, and what direct I/O on it asks for.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use indicatif::BinaryBytes;
use serde_json::{Value, json};
use warpio::OpenOptions;
use warpio::local::sys::statx::{DirectSupport, FileInfo, FileKind};

use super::table::Table;
use crate::failure::Failure;
use crate::output::shown_path;

/// What a path leads to.
pub(super) struct Location {
    path: PathBuf,
    kind: FileKind,
    /// What is known of files and directories only: to open other things can have effects.
    info: Option<(FileInfo, DirectSupport)>,
}

impl Location {
    pub(super) fn probe(path: &Path) -> Result<Self, Failure> {
        let path = warpio::local_path(path)?;
        let failed = |error: io::Error| Failure::new(format!("{}: {error}; check the path", path.display()));
        let kind = kind_of(std::fs::metadata(&path).map_err(failed)?.file_type());
        let opened: Option<OwnedFd> = match kind {
            FileKind::Regular | FileKind::BlockDevice => {
                Some(OpenOptions::new().read(true).open(&path).map_err(warpio::Error::from)?)
            }
            FileKind::Directory => Some(File::open(&path).map_err(failed)?.into()),
            _ => None,
        };
        let ask = |fd: OwnedFd| Ok((FileInfo::of(fd.as_fd())?, DirectSupport::of(fd.as_fd())?));
        let info = opened.map(ask).transpose().map_err(failed)?;
        Ok(Self { path, kind, info })
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "path": self.path.to_string_lossy(),
            "kind": self.kind.to_string(),
            "size": self.info.map(|(info, _)| info.size),
            "file_system": self.info.map(|(info, _)| info.fs_type.to_string()),
            "storage": self.info.map(|(info, _)| info.device.to_string()),
            "direct_io": self.info.map(|(_, direct)| direct_io(direct)),
        })
    }

    pub(super) fn rows(&self, table: &mut Table) {
        table.row(["path", &shown_path(&self.path)]);
        let Some((info, direct)) = self.info else {
            return table.row(["kind", &format!("{}, which has no bytes at offsets", self.kind)]);
        };
        let size = match self.kind {
            FileKind::Directory => String::new(),
            _ => format!(", {} bytes ({})", info.size, BinaryBytes(info.size)),
        };
        table.row(["kind", &format!("{}{size}", self.kind)]);
        table.row(["stored on", &format!("{}, device {}", info.fs_type, info.device)]);
        let direct = match (direct, direct.alignment()) {
            (DirectSupport::Reported(_), Some(align)) => {
                format!("memory aligned to {}, offset and length to {}", align.memory(), align.offset())
            }
            (_, Some(align)) => format!("taken to be aligned to {}: the kernel does not tell", align.unit()),
            (_, None) if self.kind == FileKind::Directory => "not told for a directory; name a file in it".to_owned(),
            (_, None) => "not offered by its file system".to_owned(),
        };
        table.row(["direct I/O", &direct]);
    }
}

fn direct_io(direct: DirectSupport) -> Value {
    let align = direct.alignment();
    json!({
        "supported": align.is_some(),
        "reported_by_kernel": matches!(direct, DirectSupport::Reported(_)),
        "memory_alignment": align.map(|align| align.memory()),
        "offset_alignment": align.map(|align| align.offset()),
    })
}

fn kind_of(kind: std::fs::FileType) -> FileKind {
    match kind {
        kind if kind.is_file() => FileKind::Regular,
        kind if kind.is_dir() => FileKind::Directory,
        kind if kind.is_block_device() => FileKind::BlockDevice,
        kind if kind.is_char_device() => FileKind::CharDevice,
        kind if kind.is_fifo() => FileKind::Fifo,
        kind if kind.is_socket() => FileKind::Socket,
        _ => FileKind::Other,
    }
}

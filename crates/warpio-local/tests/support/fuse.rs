//! A file system of the tests' own, whose storage fails in the ways that storage does.

use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session,
    WriteFlags,
};
use tempfile::TempDir;

/// The kernel is to remember what it was told: a file system that does not answer is asked for bytes only.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);
const FILE: INodeNo = INodeNo(2);

/// What is wrong with the storage.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    /// Requests are not answered.
    pub(crate) hold: bool,
    /// These bytes cannot be read or written.
    pub(crate) broken: Range<u64>,
    /// No request moves more bytes than this.
    pub(crate) longest: usize,
    /// A file cannot be opened with O_DIRECT.
    pub(crate) refuse_direct_open: bool,
    /// It can, but nothing can be read or written then.
    pub(crate) refuse_direct_io: bool,
}

/// One file, [`FaultyFs::file`], on storage that fails as told. It passes the page cache by.
pub(crate) struct FaultyFs {
    shared: Arc<Shared>,
    mount: Option<(BackgroundSession, TempDir)>,
}

/// A loop device on the file.
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
    _held: File,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

type Answer = Box<dyn FnOnce(&mut State) + Send>;

#[derive(Default)]
struct State {
    content: Vec<u8>,
    faults: Option<Faults>,
    held: Vec<Answer>,
    direct_opens: usize,
    direct_requests: usize,
}

impl FaultyFs {
    /// Mounts it, or says that it cannot be.
    pub(crate) fn mount(content: Vec<u8>) -> Option<Self> {
        let shared = Arc::new(Shared::default());
        shared.lock().content = content;
        let dir = tempfile::tempdir().unwrap();
        let mounted = Session::new(Fs(shared.clone()), dir.path(), &Config::default()).and_then(Session::spawn);
        match mounted {
            Ok(session) => Some(Self { shared, mount: Some((session, dir)) }),
            Err(error) => {
                super::skipped(&format!("cannot mount a FUSE file system ({error}); needs /dev/fuse and root"));
                None
            }
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        let (_, dir) = self.mount.as_ref().expect("mounted");
        dir.path().join("file")
    }

    /// A disk whose sectors are the file's: unlike the file, the kernel lets rings wait for it.
    pub(crate) fn disk(&self) -> Option<Disk> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(self.file()).output();
        let device = match output {
            Ok(output) if output.status.success() => String::from_utf8(output.stdout).unwrap(),
            Ok(output) => {
                super::skipped(&format!("no loop device ({})", String::from_utf8_lossy(&output.stderr).trim()));
                return None;
            }
            Err(error) => {
                super::skipped(&format!("no losetup ({error})"));
                return None;
            }
        };
        let path = PathBuf::from(device.trim());
        // Held open, it is detached now and goes with its last descriptor, even if the test panics.
        let held = File::open(&path).unwrap();
        assert!(Command::new("losetup").arg("--detach").arg(&path).status().unwrap().success());
        Some(Disk { path, _held: held })
    }

    /// Changes what is wrong. Requests that were held are answered if they are not to be held any more.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Faults)) {
        let mut state = self.shared.lock();
        let mut faults = state.faults();
        change(&mut faults);
        let release = !faults.hold;
        state.faults = Some(faults);
        if release {
            for answer in std::mem::take(&mut state.held) {
                answer(&mut state);
            }
        }
    }

    /// Blocks until at least `count` requests are held.
    pub(crate) fn wait_for_held(&self, count: usize) {
        let state = self.shared.lock();
        drop(self.shared.changed.wait_while(state, |state| state.held.len() < count).unwrap());
    }

    pub(crate) fn held(&self) -> usize {
        self.shared.lock().held.len()
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        self.shared.lock().content.clone()
    }

    /// How often the file was opened with O_DIRECT, and how many requests came through such descriptors.
    pub(crate) fn direct_uses(&self) -> (usize, usize) {
        let state = self.shared.lock();
        (state.direct_opens, state.direct_requests)
    }
}

impl Drop for FaultyFs {
    fn drop(&mut self) {
        self.set(|faults| faults.hold = false);
        let Some((session, dir)) = self.mount.take() else { return };
        // A file may still be open; then it goes with the last descriptor.
        let _ = rustix::mount::unmount(dir.path(), rustix::mount::UnmountFlags::DETACH);
        drop(session);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Answers a request now, or later.
    fn answer(&self, direct: bool, answer: impl FnOnce(&mut State) + Send + 'static) {
        let mut state = self.lock();
        state.direct_requests += usize::from(direct);
        if state.faults().hold {
            state.held.push(Box::new(answer));
            self.changed.notify_all();
        } else {
            answer(&mut state);
        }
    }
}

impl State {
    fn faults(&self) -> Faults {
        self.faults.clone().unwrap_or(Faults {
            hold: false,
            broken: 0..0,
            longest: usize::MAX,
            refuse_direct_open: false,
            refuse_direct_io: false,
        })
    }

    /// How much of `len` bytes at `offset` a request moves.
    fn admit(&self, offset: u64, len: usize, direct: bool) -> Result<usize, Errno> {
        let faults = self.faults();
        if direct && faults.refuse_direct_io {
            return Err(Errno::EINVAL);
        }
        let end = offset + len as u64;
        if offset < faults.broken.end && faults.broken.start < end {
            return Err(Errno::EIO);
        }
        Ok(len.min(faults.longest))
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_file = inode == FILE;
        FileAttr {
            ino: inode,
            size: if is_file { self.content.len() as u64 } else { 0 },
            blocks: 1,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: 0o755,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

struct Fs(Arc<Shared>);

fn is_direct(flags: OpenFlags) -> bool {
    flags.0 & libc::O_DIRECT != 0
}

impl Filesystem for Fs {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match name.to_str() {
            Some("file") => reply.entry(&FOR_EVER, &self.0.lock().attributes(FILE), Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.0.lock().attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let mut state = self.0.lock();
        if is_direct(flags) {
            state.direct_opens += 1;
            if state.faults().refuse_direct_open {
                return reply.error(Errno::EINVAL);
            }
        }
        let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
        reply.opened(FileHandle(0), flags);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let direct = is_direct(flags);
        self.0.answer(direct, move |state| match state.admit(offset, size as usize, direct) {
            Ok(len) => {
                let start = (offset as usize).min(state.content.len());
                let end = (start + len).min(state.content.len());
                reply.data(&state.content[start..end]);
            }
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (direct, data) = (is_direct(flags), data.to_vec());
        self.0.answer(direct, move |state| match state.admit(offset, data.len(), direct) {
            Ok(len) => {
                let end = offset as usize + len;
                if state.content.len() < end {
                    state.content.resize(end, 0);
                }
                state.content[offset as usize..end].copy_from_slice(&data[..len]);
                reply.written(len as u32);
            }
            Err(error) => reply.error(error),
        });
    }
}

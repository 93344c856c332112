use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

use rustix::fs::OFlags;
use warpio_core::engine::Direction;
use warpio_core::{Error, ErrorKind, PathKind};

use super::shared::Shared;
use crate::driver::lock;
use crate::handle::FileHandle;

/// A file for cuFile: a descriptor of its own, registered when it is first used, on a thread that may wait.
pub struct CuFile {
    readable: bool,
    writable: bool,
    state: Mutex<State>,
}

type Opener = Box<dyn FnOnce() -> io::Result<OwnedFd> + Send>;

enum State {
    New(Opener),
    Registered(Arc<Registered>),
    Refused(Error),
    /// Some thread is at it, and panicked.
    Lost,
}

/// A registered file, and the way that its bytes take.
#[derive(Debug)]
pub(super) struct Registered {
    pub(super) handle: FileHandle,
    pub(super) path: PathKind,
}

/// An open file, and what matters of it.
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    /// The device number of the storage that it lies on.
    pub(super) storage: u64,
    pub(super) is_direct: bool,
}

impl CuFile {
    /// Takes a descriptor that is used for nothing else. GPUDirect Storage asks for one with `O_DIRECT`.
    ///
    /// # Errors
    /// What the kernel says about the descriptor.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let mode = rustix::fs::fcntl_getfl(&fd)?;
        let access = mode & OFlags::RWMODE;
        let writable = access != OFlags::RDONLY && !mode.contains(OFlags::APPEND);
        Ok(Self::opened_by(access != OFlags::WRONLY, writable, || Ok(fd)))
    }

    /// As [`new`](Self::new), with a descriptor that is opened when it is needed, on a thread that may wait.
    pub fn opened_by(
        readable: bool,
        writable: bool,
        open: impl FnOnce() -> io::Result<OwnedFd> + Send + 'static,
    ) -> Self {
        Self { readable, writable, state: Mutex::new(State::New(Box::new(open))) }
    }

    /// Whether the descriptor is open for this.
    pub(super) fn allows(&self, direction: Direction) -> bool {
        match direction {
            Direction::Read => self.readable,
            Direction::Write => self.writable,
        }
    }

    /// Why cuFile does not serve the file, if it was found out already. Never waits.
    pub(super) fn known_refusal(&self) -> Option<Error> {
        match &*self.state.try_lock().ok()? {
            State::Refused(error) => Some(error.clone()),
            _ => None,
        }
    }

    /// The file, registered now if it is not yet. This blocks.
    pub(super) fn registered(&self, shared: &Shared) -> Result<Arc<Registered>, Error> {
        let mut state = lock(&self.state);
        let open = match std::mem::replace(&mut *state, State::Lost) {
            State::New(open) => open,
            other => {
                *state = other;
                return state.outcome();
            }
        };
        let registered = open().and_then(Opened::new).map_err(Error::from).and_then(|file| shared.register(self, file));
        *state = match registered {
            Ok(registered) => State::Registered(Arc::new(registered)),
            Err(error) => State::Refused(error),
        };
        state.outcome()
    }

    /// cuFile does not serve the file any more. Whether that is news.
    pub(super) fn refuse(&self, error: Error) -> bool {
        let old = std::mem::replace(&mut *lock(&self.state), State::Refused(error));
        !matches!(old, State::Refused(_))
    }
}

impl Opened {
    fn new(fd: OwnedFd) -> io::Result<Self> {
        let is_direct = rustix::fs::fcntl_getfl(&fd)?.contains(OFlags::DIRECT);
        let storage = rustix::fs::fstat(&fd)?.st_dev;
        Ok(Self { fd, storage, is_direct })
    }
}

impl State {
    fn outcome(&self) -> Result<Arc<Registered>, Error> {
        match self {
            Self::Registered(registered) => Ok(registered.clone()),
            Self::Refused(error) => Err(error.clone()),
            Self::New(_) | Self::Lost => Err(Error::new(ErrorKind::Gone)),
        }
    }
}

impl fmt::Debug for CuFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuFile")
            .field("readable", &self.readable)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

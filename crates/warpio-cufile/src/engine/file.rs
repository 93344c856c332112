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
    storage: u64,
    mode: OFlags,
    state: Mutex<State>,
}

enum State {
    New(OwnedFd),
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

impl CuFile {
    /// Takes a descriptor that is used for nothing else. GPUDirect Storage asks for one with `O_DIRECT`.
    ///
    /// # Errors
    /// What the kernel says about the descriptor.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let mode = rustix::fs::fcntl_getfl(&fd)?;
        let storage = rustix::fs::fstat(&fd)?.st_dev;
        Ok(Self { storage, mode, state: Mutex::new(State::New(fd)) })
    }

    /// Whether the descriptor was opened for this.
    pub(super) fn allows(&self, direction: Direction) -> bool {
        let access = self.mode & OFlags::RWMODE;
        match direction {
            Direction::Read => access != OFlags::WRONLY,
            Direction::Write => access != OFlags::RDONLY && !self.mode.contains(OFlags::APPEND),
        }
    }

    /// The device number of the storage that the file lies on.
    pub(super) fn storage(&self) -> u64 {
        self.storage
    }

    pub(super) fn is_direct(&self) -> bool {
        self.mode.contains(OFlags::DIRECT)
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
        let fd = match std::mem::replace(&mut *state, State::Lost) {
            State::New(fd) => fd,
            other => {
                *state = other;
                return state.outcome();
            }
        };
        *state = match shared.register(self, fd) {
            Ok(registered) => State::Registered(Arc::new(registered)),
            Err(error) => State::Refused(error),
        };
        state.outcome()
    }

    /// cuFile does not serve the file any more.
    pub(super) fn refuse(&self, error: Error) {
        let old = std::mem::replace(&mut *lock(&self.state), State::Refused(error));
        drop(old);
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
        f.debug_struct("CuFile").field("storage", &self.storage).field("mode", &self.mode).finish_non_exhaustive()
    }
}

//! The software cuFile for tests: finds it, loads it, and controls it.
//!
//! It works over the software GPU. [`session`] gives a test both for itself.

use std::{path::PathBuf, sync::OnceLock};

use crate::{mock, mock_gpu};

/// Which of the two libraries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edition {
    /// With all functions.
    Current,
    /// With those of 1.11.
    Old,
}

/// What the software cuFile holds and has done, as its `mock_cufile_counters` gives it: first what is alive, from
/// `max_in_flight` on what was done since the last reset. Bytes where not said otherwise.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it; the mock's README explains the others")]
pub struct Counters {
    pub open: u64,
    pub handles: u64,
    pub buffers: u64,
    pub pinned_bytes: u64,
    pub batches: u64,
    pub streams: u64,
    pub in_flight: u64,
    pub blocked: u64,
    pub max_in_flight: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub entries: u64,
    pub leaks: u64,
    pub violations: u64,
    pub idle_us: u64,
}

/// The controls of a loaded software cuFile. Entry points are named without `cuFile`.
pub type Control = mock::Control<Counters>;

/// Where the mock lies: beside the test executable or one folder above it.
pub fn path(edition: Edition) -> Option<PathBuf> {
    let file = match edition {
        Edition::Current => "libmock_cufile.so",
        Edition::Old => "libmock_cufile_old.so",
    };
    mock::beside(file)
}

/// Loads the mock, once.
///
/// # Panics
///
/// If the mock is not there or does not load. The package that runs the test needs it as a dev-dependency.
pub fn load(edition: Edition) -> Control {
    static LOADED: [OnceLock<Control>; 2] = [OnceLock::new(), OnceLock::new()];
    *LOADED[edition as usize].get_or_init(|| {
        let Some(path) = path(edition) else {
            panic!("no mock of cuFile beside the test executable: is it a dev-dependency?");
        };
        // SAFETY: these are the mock's counters, and what `load` opens stays.
        mock::load(&path, |library| unsafe { Control::of(library, "mock_cufile", "the mock cuFile") })
    })
}

/// The software GPU and a software cuFile for one test at a time. Both are reset at both ends.
#[derive(Debug)]
pub struct Session {
    control: Control,
    // Behind `drop`: cuFile lets go of streams first.
    gpu: mock_gpu::Session,
}

impl Session {
    /// The controls of cuFile.
    pub fn control(&self) -> Control {
        self.control
    }

    /// The GPU's session.
    pub fn gpu(&self) -> &mock_gpu::Session {
        &self.gpu
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Not `ctl`: a test may be panicking.
        let _ = self.control.try_ctl("reset");
    }
}

/// Waits for both, and takes them. `None` on a real GPU, whose memory the mock cannot reach.
pub fn session(edition: Edition) -> Option<Session> {
    let gpu = mock_gpu::session();
    gpu.control()?;
    let control = load(edition);
    control.ctl("reset");
    Some(Session { control, gpu })
}

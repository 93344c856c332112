//! A source and a sink whose every step a test decides about.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};

use tokio::sync::Semaphore;
use warpio_core::testing::pattern;
use warpio_core::{Description, Error, ErrorKind, Fetch, Flush, Result};

use crate::support::LONG;

/// What happens at an offset, once the gate is open.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Fail(ErrorKind),
    Panic,
    /// Claims that this many bytes were moved.
    Claim(usize),
    /// Does not wait for the gate.
    FailNow(ErrorKind),
}

#[derive(Default, Debug)]
struct State {
    started: usize,
    running: usize,
    peak: usize,
    abandoned: usize,
    acts: HashMap<u64, Act>,
    taken: Vec<u8>,
    size: Option<u64>,
    finished: bool,
}

/// Counts what it is asked to do, and does it when the gate is open.
#[derive(Clone)]
pub(crate) struct Double(Arc<Inner>);

struct Inner {
    bytes: Vec<u8>,
    gate: Semaphore,
    state: Mutex<State>,
    changed: Condvar,
}

impl Double {
    /// `len` bytes of the pattern behind an open gate.
    pub(crate) fn open(len: usize) -> Self {
        let double = Self::shut(len);
        double.release();
        double
    }

    /// The same behind a gate that is shut.
    pub(crate) fn shut(len: usize) -> Self {
        let inner =
            Inner { bytes: pattern(len), gate: Semaphore::new(0), state: Mutex::default(), changed: Condvar::new() };
        Self(Arc::new(inner))
    }

    pub(crate) fn act(self, offset: u64, act: Act) -> Self {
        self.0.state.lock().unwrap().acts.insert(offset, act);
        self
    }

    /// Says that it has another size than it has.
    pub(crate) fn claim_size(self, size: u64) -> Self {
        self.0.state.lock().unwrap().size = Some(size);
        self
    }

    /// Opens the gate.
    pub(crate) fn release(&self) {
        self.0.gate.close();
    }

    pub(crate) fn started(&self) -> usize {
        self.0.state.lock().unwrap().started
    }

    /// The most calls that ran at once.
    pub(crate) fn peak(&self) -> usize {
        self.0.state.lock().unwrap().peak
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.state.lock().unwrap().finished
    }

    /// What was flushed.
    pub(crate) fn taken(&self) -> Vec<u8> {
        self.0.state.lock().unwrap().taken.clone()
    }

    /// Blocks until `n` calls were begun.
    pub(crate) fn wait_started(&self, n: usize) {
        self.wait(|state| state.started >= n);
    }

    /// Blocks until `n` calls were dropped before their end.
    pub(crate) fn wait_abandoned(&self, n: usize) {
        self.wait(|state| state.abandoned >= n);
    }

    fn wait(&self, until: impl Fn(&State) -> bool) {
        let state = self.0.state.lock().unwrap();
        let (state, timeout) = self.0.changed.wait_timeout_while(state, LONG, |state| !until(state)).unwrap();
        assert!(!timeout.timed_out(), "waited in vain: {} started, {} abandoned", state.started, state.abandoned);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.state.lock().unwrap());
        self.0.changed.notify_all();
    }

    /// Waits for the gate; the number of bytes to claim, where that was decided.
    async fn pass(&self, offset: u64) -> Result<Option<usize>> {
        let act = self.0.state.lock().unwrap().acts.get(&offset).copied();
        if !matches!(act, Some(Act::FailNow(_))) {
            // The gate is open when the semaphore is closed.
            assert!(self.0.gate.acquire().await.is_err());
        }
        match act {
            Some(Act::Fail(kind) | Act::FailNow(kind)) => Err(Error::new(kind)),
            Some(Act::Panic) => panic!("a source that panics"),
            Some(Act::Claim(n)) => Ok(Some(n)),
            None => Ok(None),
        }
    }
}

/// One call under way.
struct Running<'a>(&'a Double, bool);

impl<'a> Running<'a> {
    fn start(double: &'a Double) -> Self {
        double.change(|state| {
            state.started += 1;
            state.running += 1;
            state.peak = state.peak.max(state.running);
        });
        Self(double, false)
    }

    fn end(mut self) {
        self.1 = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.running -= 1;
            state.abandoned += usize::from(!self.1);
        });
    }
}

impl Fetch for Double {
    async fn size(&self) -> Result<u64> {
        Ok(self.0.state.lock().unwrap().size.unwrap_or(self.0.bytes.len() as u64))
    }

    async fn fetch(&self, offset: u64, dst: &mut [u8]) -> Result<usize> {
        let running = Running::start(self);
        let claim = self.pass(offset).await?;
        let start = self.0.bytes.len().min(offset as usize);
        let n = dst.len().min(self.0.bytes.len() - start);
        dst[..n].copy_from_slice(&self.0.bytes[start..start + n]);
        running.end();
        Ok(claim.unwrap_or(n))
    }

    fn describe(&self) -> Description {
        Description::new("double", "double", "staged")
    }
}

impl Flush for Double {
    async fn flush(&self, offset: u64, src: &[u8]) -> Result<()> {
        let running = Running::start(self);
        self.pass(offset).await?;
        self.change(|state| {
            let end = offset as usize + src.len();
            state.taken.resize(end.max(state.taken.len()), 0);
            state.taken[offset as usize..end].copy_from_slice(src);
        });
        running.end();
        Ok(())
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }

    async fn finish(&self) -> Result<()> {
        self.change(|state| state.finished = true);
        Ok(())
    }

    fn describe(&self) -> Description {
        Description::new("double", "double", "staged")
    }
}

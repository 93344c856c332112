use std::task::Waker;

use crate::buffer::DeviceBytesMut;
use crate::device::DeviceId;
use crate::sync::{Arc, Mutex, lock};
use crate::{Error, Result};

/// The memory of the chunks that are not in use.
pub(super) struct Ring {
    device: DeviceId,
    len: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: Vec<DeviceBytesMut>,
    /// Chunks whose memory will not come back.
    kept: usize,
    /// Why a chunk's memory cannot come back.
    error: Option<Error>,
    /// Nobody will read into the memory any more.
    closed: bool,
    waker: Option<Waker>,
}

/// Where the next chunk can be read to.
pub(super) enum Vacancy {
    Free(DeviceBytesMut),
    /// Into new memory, in the place of what was kept.
    Kept,
    /// Every chunk is in use.
    None,
}

impl Ring {
    /// The ring of `buffers`, which have `len` bytes of `device` each.
    pub(super) fn new(device: DeviceId, len: usize, buffers: Vec<DeviceBytesMut>) -> Arc<Self> {
        Arc::new(Self { device, len, state: Mutex::new(State { free: buffers, ..State::default() }) })
    }

    /// # Errors
    /// Why memory was lost.
    pub(super) fn take(&self) -> Result<Vacancy> {
        let mut state = lock(&self.state);
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        Ok(match state.free.pop() {
            Some(buffer) => Vacancy::Free(buffer),
            None if state.kept > 0 => {
                state.kept -= 1;
                Vacancy::Kept
            }
            None => Vacancy::None,
        })
    }

    /// Somebody keeps the memory of a chunk.
    pub(super) fn keep(&self) {
        self.change(|state| state.kept += 1);
    }

    /// The memory of a chunk, or what its user has left in its place.
    pub(super) fn give_back(&self, buffer: DeviceBytesMut) {
        if buffer.len() != self.len || buffer.device().id() != self.device {
            // A part was split off, or the whole was replaced: the next chunk would be too short.
            return self.keep();
        }
        let mut buffer = Some(buffer);
        self.change(|state| {
            if !state.closed {
                state.free.extend(buffer.take());
            }
        });
    }

    /// The memory of a chunk is lost.
    pub(super) fn fail(&self, error: Error) {
        self.change(|state| state.error = Some(error));
    }

    /// Wakes this one when there may be a vacancy.
    pub(super) fn set_waker(&self, waker: &Waker) {
        let old = lock(&self.state).waker.replace(waker.clone());
        drop(old);
    }

    /// Releases what is free, and what comes back later.
    pub(super) fn close(&self) {
        let free = {
            let mut state = lock(&self.state);
            state.closed = true;
            (std::mem::take(&mut state.free), state.waker.take())
        };
        drop(free);
    }

    /// Wakers and memory are foreign: they are woken and dropped outside the lock.
    fn change(&self, change: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = lock(&self.state);
            change(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

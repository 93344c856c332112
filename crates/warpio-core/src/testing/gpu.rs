mod control;

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::device::{
    Device, DeviceBackend, DeviceEvent, DeviceId, DeviceStream, EventBackend, StreamBackend, WatchDone,
};
use crate::pool::PoolConfig;
use crate::{Error, ErrorKind, Result};

pub use control::GpuControl;

/// A device whose memory the processor is not told about and whose copies run later, on a thread of their own: enough
/// of a GPU for what staging, fences and completions have to get right. All its streams are one queue.
///
/// Its memory is ordinary heap, so AddressSanitizer sees a copy that comes after the memory was freed.
pub struct FakeGpu {
    shared: Arc<Shared>,
    memory: Device,
    ordinal: u32,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Work>,
    held: bool,
    broken: bool,
    /// A copy runs at this moment.
    copying: bool,
    capturing: bool,
    ended: bool,
    allocations: usize,
    staging: usize,
    memory_left: Option<usize>,
    staging_left: Option<usize>,
    records_to_fail: usize,
    copies: usize,
    /// Registrations of the program's own memory.
    pins: Vec<usize>,
    /// Calls that are about to add to them.
    pinning: usize,
    refuses_pins: bool,
}

enum Work {
    Copy { dst: Address, src: Address, len: usize },
    Mark(Arc<FakeEvent>),
}

struct Address(NonNull<u8>);
// SAFETY: an address; whoever enqueued the copy keeps the memory.
unsafe impl Send for Address {}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self) -> Result<()> {
        match self.lock().broken {
            true => Err(lost()),
            false => Ok(()),
        }
    }

    fn push(&self, work: Work) -> Result<()> {
        self.check()?;
        self.lock().queue.push_back(work);
        self.changed.notify_all();
        Ok(())
    }

    fn run(&self) {
        loop {
            let work = {
                let mut state = self.lock();
                loop {
                    if state.broken {
                        let queue = std::mem::take(&mut state.queue);
                        drop(state);
                        queue.into_iter().for_each(Work::fail);
                        state = self.lock();
                    } else if !state.held
                        && let Some(work) = state.queue.pop_front()
                    {
                        state.copying = matches!(work, Work::Copy { .. });
                        break work;
                    }
                    if state.ended && (state.queue.is_empty() || state.held) {
                        return;
                    }
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
            };
            match work {
                Work::Copy { dst, src, len } => {
                    // SAFETY: whoever enqueued the copy keeps both sides valid until the event behind it is done.
                    unsafe { dst.0.copy_from_nonoverlapping(src.0, len) };
                    let mut state = self.lock();
                    state.copies += 1;
                    state.copying = false;
                    drop(state);
                    self.changed.notify_all();
                }
                Work::Mark(event) => event.finish(Ok(())),
            }
        }
    }
}

impl Work {
    fn fail(self) {
        if let Self::Mark(event) = self {
            event.finish(Err(lost()));
        }
    }
}

/// Takes `len` bytes from what is left, where there is a limit.
fn take(left: &mut Option<usize>, len: usize) -> Result<()> {
    if let Some(room) = left {
        *room = room.checked_sub(len).ok_or_else(|| {
            Error::new(ErrorKind::OutOfMemory).with_message(format!("{len} bytes asked for, {room} left"))
        })?;
    }
    Ok(())
}

fn lost() -> Error {
    Error::new(ErrorKind::DeviceLost)
}

impl FakeGpu {
    /// Device `ordinal` of its kind, with a staging pool as configured, and its control.
    pub fn device(ordinal: u32, pool: PoolConfig) -> (Device, GpuControl) {
        let shared = Arc::new(Shared::default());
        let worker = shared.clone();
        std::thread::spawn(move || worker.run());
        let gpu = Self { shared: shared.clone(), memory: Device::host(), ordinal };
        (Device::new(Arc::new(gpu), pool), GpuControl(shared))
    }
}

impl Drop for FakeGpu {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for FakeGpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeGpu").field("ordinal", &self.ordinal).finish_non_exhaustive()
    }
}

// SAFETY: memory comes from the host device and lives until it is freed; an event is done once the queue has run past
// it, or once the queue was thrown away.
unsafe impl DeviceBackend for FakeGpu {
    fn id(&self) -> DeviceId {
        DeviceId { kind: "fake", ordinal: self.ordinal, context: 0 }
    }

    fn host_visible(&self) -> bool {
        false
    }

    fn alloc(&self, len: usize) -> Result<NonNull<u8>> {
        self.shared.check()?;
        {
            let mut state = self.shared.lock();
            take(&mut state.memory_left, len)?;
            state.allocations += 1;
        }
        self.memory.alloc_raw(len)
    }

    unsafe fn free(&self, ptr: NonNull<u8>, len: usize) {
        {
            let mut state = self.shared.lock();
            state.allocations -= 1;
            state.memory_left = state.memory_left.map(|left| left + len);
        }
        // SAFETY: the caller's promise; the memory came from the same device.
        unsafe { self.memory.backend().free(ptr, len) }
        self.shared.changed.notify_all();
    }

    fn alloc_staging(&self, len: usize) -> Result<NonNull<u8>> {
        self.shared.check()?;
        {
            let mut state = self.shared.lock();
            take(&mut state.staging_left, len)?;
            state.staging += 1;
        }
        self.memory.backend().alloc_staging(len)
    }

    unsafe fn free_staging(&self, ptr: NonNull<u8>, len: usize) {
        {
            let mut state = self.shared.lock();
            state.staging -= 1;
            state.staging_left = state.staging_left.map(|left| left + len);
        }
        // SAFETY: the caller's promise; the memory came from the same device.
        unsafe { self.memory.backend().free_staging(ptr, len) }
    }

    unsafe fn pin(&self, ptr: NonNull<u8>, _len: usize) -> Result<()> {
        self.shared.check()?;
        let at = ptr.as_ptr() as usize;
        let mut state = self.shared.lock();
        state.pinning += 1;
        self.shared.changed.notify_all();
        state = self.shared.changed.wait_while(state, |state| state.held).unwrap_or_else(PoisonError::into_inner);
        state.pinning -= 1;
        if state.refuses_pins {
            return Err(Error::unsupported("this device pins no memory of the program's own"));
        }
        if state.pins.contains(&at) {
            return Err(Error::unsupported("this memory is pinned already"));
        }
        state.pins.push(at);
        Ok(())
    }

    unsafe fn unpin(&self, ptr: NonNull<u8>, keep: Box<dyn std::any::Any + Send>) {
        let at = ptr.as_ptr() as usize;
        let mut state = self.shared.lock();
        assert!(state.pins.contains(&at), "what is not pinned is unpinned");
        state.pins.retain(|pinned| *pinned != at);
        drop(state);
        drop(keep);
        self.shared.changed.notify_all();
    }

    fn new_stream(&self) -> Result<DeviceStream> {
        self.shared.check()?;
        Ok(DeviceStream::new(Arc::new(FakeStream { shared: self.shared.clone(), id: self.id() })))
    }

    fn earlier_work(&self) -> Result<DeviceEvent> {
        self.new_stream()?.record()
    }

    fn watch(&self, event: DeviceEvent, done: WatchDone) {
        let backend: Arc<dyn std::any::Any + Send + Sync> = event.backend().clone();
        match backend.downcast::<FakeEvent>() {
            Ok(event) => event.watch(done),
            Err(_) => done(event.synchronize()),
        }
    }
}

struct FakeStream {
    shared: Arc<Shared>,
    id: DeviceId,
}

impl fmt::Debug for FakeStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeStream").field("device", &self.id).finish_non_exhaustive()
    }
}

impl FakeStream {
    fn copy(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        self.shared.push(Work::Copy { dst: Address(dst), src: Address(src), len })
    }
}

// SAFETY: one queue, run in order.
unsafe impl StreamBackend for FakeStream {
    fn device_id(&self) -> DeviceId {
        self.id
    }

    unsafe fn copy_to_device(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        self.copy(dst, src, len)
    }

    unsafe fn copy_to_host(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        self.copy(dst, src, len)
    }

    unsafe fn copy_on_device(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        self.copy(dst, src, len)
    }

    fn record(&self) -> Result<DeviceEvent> {
        {
            let mut state = self.shared.lock();
            if state.records_to_fail > 0 {
                state.records_to_fail -= 1;
                return Err(Error::new(ErrorKind::Device).with_message("no event could be recorded"));
            }
        }
        let event = Arc::new(FakeEvent::default());
        self.shared.push(Work::Mark(event.clone()))?;
        Ok(DeviceEvent::new(event))
    }

    fn wait(&self, _: &DeviceEvent) -> Result<()> {
        // Every event of this device is ahead of what is enqueued from now on: there is one queue.
        self.shared.check()
    }

    fn is_capturing(&self) -> Result<bool> {
        Ok(self.shared.lock().capturing)
    }
}

#[derive(Default)]
struct FakeEvent {
    state: Mutex<EventState>,
    changed: Condvar,
}

#[derive(Default)]
struct EventState {
    result: Option<Result<()>>,
    watchers: Vec<WatchDone>,
}

impl FakeEvent {
    fn lock(&self) -> MutexGuard<'_, EventState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, result: Result<()>) {
        let watchers = {
            let mut state = self.lock();
            state.result = Some(result.clone());
            std::mem::take(&mut state.watchers)
        };
        self.changed.notify_all();
        for done in watchers {
            // A waker is the caller's code and may panic; a reactor serves others too.
            if catch_unwind(AssertUnwindSafe(|| done(result.clone()))).is_err() {
                tracing::error!("a callback panicked on the thread of a fake GPU");
            }
        }
    }

    fn watch(&self, done: WatchDone) {
        let result = {
            let mut state = self.lock();
            match &state.result {
                Some(result) => result.clone(),
                None => return state.watchers.push(done),
            }
        };
        done(result);
    }
}

impl fmt::Debug for FakeEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeEvent").field("result", &self.lock().result).finish_non_exhaustive()
    }
}

// SAFETY: the result is set when the queue reaches the event.
unsafe impl EventBackend for FakeEvent {
    fn is_done(&self) -> Result<bool> {
        match &self.lock().result {
            Some(Ok(())) => Ok(true),
            Some(Err(error)) => Err(error.clone()),
            None => Ok(false),
        }
    }

    fn synchronize(&self) -> Result<()> {
        let mut state = self.lock();
        loop {
            if let Some(result) = &state.result {
                return result.clone();
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

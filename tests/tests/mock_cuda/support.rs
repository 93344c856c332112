//! What the tests share: a device with its context, and thin wrappers that panic where a test expects success.

use std::{
    env,
    ffi::c_void,
    mem::MaybeUninit,
    process::Command,
    ptr, slice,
    sync::mpsc::{Receiver, Sender, channel},
    time::Duration,
};

use cudarc::driver::{
    DriverError,
    result::{self, stream::StreamKind},
    sys::{self, CUcontext, CUdeviceptr, CUevent, CUresult, CUstream},
};
use warpio_tests::mock_gpu::{self, Control, Session};

/// Long enough for any machine; reaching it fails the test.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The outcome of a driver call as a number, so that any code can be compared.
pub(crate) fn code<T>(outcome: Result<T, DriverError>) -> u32 {
    match outcome {
        Ok(_) => 0,
        Err(DriverError(code)) => code as u32,
    }
}

/// A session with device 0's primary context current on the calling thread.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) context: CUcontext,
    // Released before the session ends.
    _retained: Retained,
    session: Session,
}

/// A reference to device 0's primary context.
#[derive(Debug)]
struct Retained(Option<Control>);

impl Gpu {
    pub(crate) fn new() -> Self {
        let session = mock_gpu::session();
        result::init().unwrap();
        // SAFETY: device 0 exists; the context is retained until the drop.
        let context = unsafe { result::primary_ctx::retain(0) }.unwrap();
        // SAFETY: the context was just retained.
        unsafe { result::ctx::set_current(context) }.unwrap();
        Self {
            context,
            _retained: Retained(session.control()),
            session,
        }
    }

    /// A session on the software GPU; nothing on a real one, where the test cannot be run.
    pub(crate) fn controlled() -> Option<(Self, Control)> {
        let gpu = Self::new();
        let control = gpu.control()?;
        Some((gpu, control))
    }

    pub(crate) fn control(&self) -> Option<Control> {
        self.session.control()
    }

    /// Makes the context current on another thread.
    pub(crate) fn bind(&self) {
        // SAFETY: the context is retained as long as `self` lives.
        unsafe { result::ctx::set_current(self.context) }.unwrap();
    }

    /// Releases the context and keeps the GPU.
    pub(crate) fn release(self) -> Session {
        self.session
    }
}

// SAFETY: a context may be used from any thread.
unsafe impl Sync for Gpu {}

impl Drop for Retained {
    fn drop(&mut self) {
        if let Some(control) = self.0 {
            // Opens the gate and heals what the test broke, so that the release has nothing to wait for.
            let _ = control.try_ctl("reset");
        }
        // SAFETY: retained in `Gpu::new`.
        let released = unsafe { result::primary_ctx::release(0) };
        if !std::thread::panicking() {
            released.unwrap();
        }
    }
}

/// A stream that the legacy default stream ignores.
pub(crate) fn stream() -> CUstream {
    result::stream::create(StreamKind::NonBlocking).unwrap()
}

/// A stream that synchronises with the legacy default stream.
pub(crate) fn blocking_stream() -> CUstream {
    result::stream::create(StreamKind::Default).unwrap()
}

pub(crate) fn synchronize(stream: CUstream) -> Result<(), DriverError> {
    // SAFETY: tests pass streams, live or not: a driver refuses those that are gone.
    unsafe { result::stream::synchronize(stream) }
}

pub(crate) fn query(stream: CUstream) -> Result<(), DriverError> {
    // SAFETY: as in `synchronize`.
    unsafe { sys::cuStreamQuery(stream) }.result()
}

pub(crate) fn destroy(stream: CUstream) -> Result<(), DriverError> {
    // SAFETY: as in `synchronize`.
    unsafe { result::stream::destroy(stream) }
}

/// An event without timing, recorded on a stream.
pub(crate) fn recorded(stream: CUstream) -> CUevent {
    let event = event();
    record(event, stream).unwrap();
    event
}

pub(crate) fn event() -> CUevent {
    result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).unwrap()
}

pub(crate) fn record(event: CUevent, stream: CUstream) -> Result<(), DriverError> {
    // SAFETY: as in `synchronize`.
    unsafe { result::event::record(event, stream) }
}

pub(crate) fn wait(stream: CUstream, event: CUevent) -> Result<(), DriverError> {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: as in `synchronize`.
    unsafe { result::stream::wait_event(stream, event, flags) }
}

pub(crate) fn query_event(event: CUevent) -> Result<(), DriverError> {
    // SAFETY: as in `synchronize`.
    unsafe { result::event::query(event) }
}

pub(crate) fn synchronize_event(event: CUevent) -> Result<(), DriverError> {
    // SAFETY: as in `synchronize`.
    unsafe { result::event::synchronize(event) }
}

pub(crate) fn alloc(len: usize) -> CUdeviceptr {
    try_alloc(len).unwrap()
}

pub(crate) fn try_alloc(len: usize) -> Result<CUdeviceptr, DriverError> {
    // SAFETY: nothing is asked of the caller.
    unsafe { result::malloc_sync(len) }
}

pub(crate) fn free(pointer: CUdeviceptr) -> Result<(), DriverError> {
    // SAFETY: tests pass pointers, live or not: a driver refuses those that are gone.
    unsafe { result::free_sync(pointer) }
}

/// Pinned host memory, zeroed.
#[derive(Debug)]
pub(crate) struct Pinned {
    base: *mut u8,
    len: usize,
}

impl Pinned {
    pub(crate) fn new(len: usize) -> Self {
        // SAFETY: nothing is asked of the caller.
        let base = unsafe { result::malloc_host(len, 0) }.unwrap().cast::<u8>();
        // SAFETY: `len` bytes were just allocated.
        unsafe { base.write_bytes(0, len) };
        Self { base, len }
    }

    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut pinned = Self::new(bytes.len());
        pinned.bytes_mut().copy_from_slice(bytes);
        pinned
    }

    pub(crate) fn address(&self) -> u64 {
        self.base as u64
    }

    /// The bytes; the test must know that no copy writes them.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: allocated and initialised in `new`.
        unsafe { slice::from_raw_parts(self.base, self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and borrowed uniquely.
        unsafe { slice::from_raw_parts_mut(self.base, self.len) }
    }
}

// SAFETY: plain memory.
unsafe impl Send for Pinned {}
// SAFETY: plain memory.
unsafe impl Sync for Pinned {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`. In a broken context this fails, and the memory goes with the context.
        let _ = unsafe { result::free_host(self.base.cast()) };
    }
}

/// Host to device, asynchronous if the memory is pinned.
pub(crate) fn upload(to: CUdeviceptr, from: &[u8], stream: CUstream) -> Result<(), DriverError> {
    // SAFETY: tests keep what they copy.
    unsafe { result::memcpy_htod_async(to, from, stream) }
}

/// Device to host, asynchronous if the memory is pinned.
pub(crate) fn download(
    to: &mut [u8],
    from: CUdeviceptr,
    stream: CUstream,
) -> Result<(), DriverError> {
    // SAFETY: tests keep what they copy.
    unsafe { result::memcpy_dtoh_async(to, from, stream) }
}

/// Device to device.
pub(crate) fn copy(
    to: CUdeviceptr,
    from: CUdeviceptr,
    len: usize,
    stream: CUstream,
) -> Result<(), DriverError> {
    // SAFETY: a driver checks device pointers.
    unsafe { result::memcpy_dtod_async(to, from, len, stream) }
}

pub(crate) fn fill(
    to: CUdeviceptr,
    value: u8,
    len: usize,
    stream: CUstream,
) -> Result<(), DriverError> {
    // SAFETY: a driver checks device pointers.
    unsafe { result::memset_d8_async(to, value, len, stream) }
}

/// The bytes on a device, once all work that blocks the legacy stream is done.
pub(crate) fn read(from: CUdeviceptr, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // SAFETY: a driver checks the device pointer, and the bytes are there.
    unsafe { result::memcpy_dtoh_sync(&mut bytes, from) }.unwrap();
    bytes
}

/// Has a stream call `run` on the host.
pub(crate) fn call(stream: CUstream, run: impl FnOnce() + Send + 'static) {
    /// Calls the boxed closure that `data` is.
    ///
    /// # Safety
    ///
    /// `data` is a `Box<dyn FnOnce() + Send>` in a box made raw, given away with the call.
    unsafe extern "C" fn trampoline(data: *mut c_void) {
        // SAFETY: made by `Box::into_raw` below, and called once.
        let run = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
        run();
    }
    let run: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(run));
    let data = Box::into_raw(run).cast();
    // SAFETY: the trampoline takes exactly this data.
    unsafe { result::stream::launch_host_function(stream, trampoline, data) }.unwrap();
}

/// Does work on a stream of its own, long enough for any other stream to have gone on if it could.
pub(crate) fn let_others_run() {
    let own = stream();
    let pointer = alloc(64);
    for round in 0..100 {
        fill(pointer, round, 64, own).unwrap();
        synchronize(own).unwrap();
    }
    destroy(own).unwrap();
}

/// Keeps a stream busy until it is dropped.
#[derive(Debug)]
pub(crate) struct Stall {
    _open: Sender<()>,
    started: Receiver<()>,
}

impl Stall {
    /// Waits until the stream has got to the stall.
    pub(crate) fn wait_for_start(&self) {
        self.started.recv_timeout(PATIENCE).unwrap();
    }
}

pub(crate) fn stall(stream: CUstream) -> Stall {
    let (open, closed) = channel::<()>();
    let (start, started) = channel();
    call(stream, move || {
        // The test has gone on if nobody listens.
        let _ = start.send(());
        // Ends when the other side is dropped.
        let _ = closed.recv_timeout(PATIENCE);
    });
    Stall {
        _open: open,
        started,
    }
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|index| (index as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ seed)
        .collect()
}

/// Runs `body` in a process of its own, with variables set before the first CUDA call. `test` is the path of the
/// calling test.
pub(crate) fn in_child(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) {
    const MARK: &str = "WARPIO_TEST_CHILD";
    if env::var(MARK).is_ok_and(|name| name == test) {
        return body();
    }
    let output = Command::new(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(MARK, test)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// How a forked child that ran `body` ended: the wait status. The child may call nothing that takes a lock.
pub(crate) fn forked(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `body` and leaves at once; the tests pass bodies that take no lock of this process.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let code = body();
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: our own child, and a place for its status.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    status
}

/// Asks a driver function that fills one value.
pub(crate) fn ask<T>(call: impl FnOnce(*mut T) -> CUresult) -> Result<T, DriverError> {
    let mut value = MaybeUninit::uninit();
    call(value.as_mut_ptr()).result()?;
    // SAFETY: a call that succeeds has filled the value.
    Ok(unsafe { value.assume_init() })
}

/// A null stream: the legacy default one.
pub(crate) const LEGACY: CUstream = ptr::null_mut();

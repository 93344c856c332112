//! What several test programs share.
#![allow(dead_code, reason = "every program uses another part of it")]

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::future::BoxFuture;
use warpio_core::engine::{Segment, Starter};
use warpio_core::plan::Split;
use warpio_core::testing::{FakeGpu, GpuControl, HeldEngine};
use warpio_core::{AsyncDeviceRead, Description, Device, DeviceBytesMut, Moved, PoolConfig, Result, Transfer};

/// So long that no event of a test takes it, on the slowest machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A pool that is soon used up: six large slots of 64 KiB, and small ones of 4 KiB.
pub(crate) fn small_pool() -> PoolConfig {
    PoolConfig { budget: 512 << 10, slot_len: 64 << 10, small_slot_len: 4 << 10, slab_len: 128 << 10 }
}

/// Counts how often it was woken, and lets a thread wait for that.
#[derive(Default)]
pub(crate) struct Wakes {
    count: AtomicUsize,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Wakes {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        self.clone().into()
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Blocks until it was woken `n` times in all.
    pub(crate) fn wait_for(&self, n: usize) {
        let guard = self.lock.lock().unwrap();
        let (_guard, timeout) = self.woken.wait_timeout_while(guard, LONG, |()| self.count() < n).unwrap();
        assert!(!timeout.timed_out(), "woken {} times instead of {n}", self.count());
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        let _guard = self.lock.lock().unwrap();
        self.count.fetch_add(1, Ordering::SeqCst);
        self.woken.notify_all();
    }
}

/// Polls once, in nobody's name.
pub(crate) fn poll<F: Future + Unpin + ?Sized>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// The output of a future that is ready.
pub(crate) fn ready<F: Future + Unpin>(mut future: F) -> F::Output {
    match poll(&mut future) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future is not ready"),
    }
}

/// Runs a future without any runtime.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let wakes = Wakes::new();
    let waker = wakes.waker();
    let mut future = std::pin::pin!(future);
    loop {
        let seen = wakes.count();
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => wakes.wait_for(seen + 1),
        }
    }
}

/// Runs a test that leaks memory, which is the only safe end where nobody can tell when a device is done with it.
/// LeakSanitizer is told of this function's name, so everything must be allocated below it and on this thread.
#[inline(never)]
pub(crate) fn leaks_on_purpose<T>(test: impl FnOnce() -> T) -> T {
    std::hint::black_box(test())
}

/// Waits for what other threads bring about.
pub(crate) fn eventually(condition: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < LONG, "it never came about");
        std::thread::yield_now();
    }
}

/// A starter of transfers in segments of `task` bytes, on an engine that holds them back.
pub(crate) fn held(device: &Device, task: usize) -> (Arc<HeldEngine>, Starter) {
    let engine = Arc::new(HeldEngine::default());
    let starter = Starter::new(engine.clone(), Split::new(task).unwrap(), "held", device.clone());
    (engine, starter)
}

/// A source whose engine holds every read back, and the size that it claims to have.
#[derive(Debug)]
pub(crate) struct HeldSource(pub(crate) Starter, pub(crate) u64);

impl AsyncDeviceRead for HeldSource {
    fn device(&self) -> &Device {
        self.0.device()
    }

    fn describe(&self) -> Description {
        Description::new("held", "held", "held")
    }

    fn size(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(std::future::ready(Ok(self.1)))
    }

    fn read_at(&self, offset: u64, buf: DeviceBytesMut) -> Transfer {
        self.0.read(Arc::new(()), offset, buf)
    }
}

/// A read of one segment of `len` bytes into a GPU whose pool is [small](small_pool).
pub(crate) fn one_segment(len: usize) -> (Device, GpuControl, Transfer, Segment) {
    let (device, gpu) = FakeGpu::device(0, small_pool());
    let (engine, starter) = held(&device, len);
    let transfer = starter.read(Arc::new(()), 0, device.alloc(len).unwrap());
    let segment = engine.take().pop().unwrap().into_segment();
    (device, gpu, transfer, segment)
}

/// A read of `len` bytes at 0 into host memory.
pub(crate) fn read(starter: &Starter, len: usize) -> Transfer<Moved<DeviceBytesMut>> {
    starter.read(Arc::new(()), 0, Device::host().alloc(len).unwrap())
}

/// Counts how often the owners of its foreign memory were dropped.
#[derive(Clone, Default)]
pub(crate) struct Drops(Arc<AtomicUsize>);

impl Drops {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    /// Foreign memory whose owner is counted when it is dropped.
    pub(crate) fn buffer(&self, device: &Device, len: usize) -> DeviceBytesMut {
        let bytes = Box::into_raw(vec![0u8; len].into_boxed_slice());
        let owner = Owner { bytes, drops: self.0.clone() };
        let ptr = std::ptr::NonNull::new(bytes.cast()).unwrap();
        // SAFETY: the box was taken apart, and its memory is used by nothing else until the owner is dropped.
        unsafe { DeviceBytesMut::from_raw_parts(device, ptr, len, owner) }
    }
}

struct Owner {
    bytes: *mut [u8],
    drops: Arc<AtomicUsize>,
}

// SAFETY: the only handle to a box's memory, besides the buffer made of it.
unsafe impl Send for Owner {}
// SAFETY: nothing is accessible through a shared reference.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        self.drops.fetch_add(1, Ordering::SeqCst);
        // SAFETY: made by `Box::into_raw`, and dropped once.
        drop(unsafe { Box::from_raw(self.bytes) });
    }
}

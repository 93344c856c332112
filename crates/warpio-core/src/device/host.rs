//! Host memory as a device: copies are immediate and every event is done.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::{DeviceBackend, DeviceEvent, DeviceId, DeviceStream, EventBackend, StreamBackend, WatchDone};
use crate::{Error, ErrorKind, Result};

/// What direct I/O asks of memory on every block device in use.
const ALIGN: usize = 4096;
/// Room in front of the aligned block for the address of the allocation that it lies in.
const HEADER: usize = size_of::<*mut u8>();

const ID: DeviceId = DeviceId { kind: "host", ordinal: 0, context: 0 };

#[derive(Debug)]
pub(super) struct HostDevice;

/// A large zeroed block of ordinary alignment comes straight from the kernel and is not touched, whereas
/// `alloc_zeroed` with a large alignment writes every byte. So the block is aligned by hand.
fn layout(len: usize) -> Result<Layout> {
    len.checked_add(ALIGN + HEADER)
        .and_then(|total| Layout::from_size_align(total, align_of::<*mut u8>()).ok())
        .ok_or_else(|| out_of_memory(len))
}

fn out_of_memory(len: usize) -> Error {
    Error::new(ErrorKind::OutOfMemory).with_message(format!("cannot allocate {len} bytes of host memory"))
}

fn alloc_aligned(len: usize) -> Result<NonNull<u8>> {
    let layout = layout(len)?;
    // SAFETY: the layout's size is not zero, as it contains the header.
    let base = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| out_of_memory(len))?;
    // SAFETY: header, the aligned block of `len` bytes and the padding fit in the allocation, whose size is
    // `len + ALIGN + HEADER`; the header in front of the block is aligned because ALIGN is a multiple of its size.
    unsafe {
        let after_header = base.add(HEADER);
        let block = after_header.add(after_header.align_offset(ALIGN));
        block.cast::<*mut u8>().sub(1).write(base.as_ptr());
        Ok(block)
    }
}

/// # Safety
/// `block` and `len` come from one call of [`alloc_aligned`] and are not used afterwards.
unsafe fn free_aligned(block: NonNull<u8>, len: usize) {
    if let Ok(layout) = layout(len) {
        // SAFETY: the header holds the address that `alloc_zeroed` returned for this very layout.
        unsafe { dealloc(block.cast::<*mut u8>().sub(1).read(), layout) }
    }
}

// SAFETY: the memory lives until it is freed, and copies are finished when the call that enqueues them returns, so
// every event is done when it is made.
unsafe impl DeviceBackend for HostDevice {
    fn id(&self) -> DeviceId {
        ID
    }

    fn host_visible(&self) -> bool {
        true
    }

    fn alloc(&self, len: usize) -> Result<NonNull<u8>> {
        alloc_aligned(len)
    }

    unsafe fn free(&self, ptr: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { free_aligned(ptr, len) }
    }

    fn alloc_staging(&self, len: usize) -> Result<NonNull<u8>> {
        alloc_aligned(len)
    }

    unsafe fn free_staging(&self, ptr: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { free_aligned(ptr, len) }
    }

    fn new_stream(&self) -> Result<DeviceStream> {
        Ok(DeviceStream::new(Arc::new(HostStream)))
    }

    fn earlier_work(&self) -> Result<DeviceEvent> {
        HostStream.record()
    }

    fn watch(&self, event: DeviceEvent, done: WatchDone) {
        // Host work is done when it is enqueued, but a host buffer may be used by another device's stream.
        match event.is_done() {
            Ok(true) => done(Ok(())),
            _ => wait_elsewhere(event, done),
        }
    }
}

/// Waits for an event of another device on a thread of its own, as the caller must not be blocked.
fn wait_elsewhere(event: DeviceEvent, done: WatchDone) {
    let job = Arc::new(Mutex::new(Some((event, done))));
    let run = |job: &Mutex<Option<(DeviceEvent, WatchDone)>>| {
        let job = job.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((event, done)) = job {
            done(event.synchronize());
        }
    };
    let theirs = job.clone();
    let spawned = std::thread::Builder::new().name("warpio-host-wait".into()).spawn(move || run(&theirs));
    if spawned.is_err() {
        // Late is better than never, and never is better than early.
        run(&job);
    }
}

#[derive(Debug)]
struct HostStream;

// SAFETY: copies are finished when the call returns.
unsafe impl StreamBackend for HostStream {
    fn device_id(&self) -> DeviceId {
        ID
    }

    unsafe fn copy_to_device(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        // SAFETY: both sides are valid for `len` bytes by the caller's promise.
        unsafe { dst.copy_from(src, len) };
        Ok(())
    }

    unsafe fn copy_to_host(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        // SAFETY: both sides are valid for `len` bytes by the caller's promise.
        unsafe { dst.copy_from(src, len) };
        Ok(())
    }

    unsafe fn copy_on_device(&self, dst: NonNull<u8>, src: NonNull<u8>, len: usize) -> Result<()> {
        // SAFETY: both sides are valid for `len` bytes by the caller's promise.
        unsafe { dst.copy_from(src, len) };
        Ok(())
    }

    fn record(&self) -> Result<DeviceEvent> {
        Ok(DeviceEvent::new(Arc::new(HostEvent)))
    }

    fn wait(&self, event: &DeviceEvent) -> Result<()> {
        event.synchronize()
    }

    fn is_capturing(&self) -> Result<bool> {
        Ok(false)
    }
}

#[derive(Debug)]
struct HostEvent;

// SAFETY: see HostStream.
unsafe impl EventBackend for HostEvent {
    fn is_done(&self) -> Result<bool> {
        Ok(true)
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_zeroed_and_freed() {
        for len in [1, 8, 4095, 4096, 4097, 1 << 20] {
            let block = alloc_aligned(len).unwrap();
            assert_eq!(block.as_ptr() as usize % ALIGN, 0);
            // SAFETY: the block is valid and initialised for `len` bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), len) };
            assert!(bytes.iter().all(|&b| b == 0));
            bytes.fill(7);
            // SAFETY: allocated above, not used afterwards.
            unsafe { free_aligned(block, len) };
        }
    }

    #[test]
    fn a_length_that_no_machine_has_is_an_error() {
        for len in [usize::MAX, usize::MAX - ALIGN, isize::MAX as usize] {
            assert_eq!(alloc_aligned(len).unwrap_err().kind(), ErrorKind::OutOfMemory);
        }
    }
}

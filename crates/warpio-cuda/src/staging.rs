//! Pinned host memory.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex};

use warpio_core::{Error, ErrorKind, Result};

use crate::context::{Context, lock};
use crate::driver::HOST_PORTABLE;
use crate::janitor;
use crate::pages::Pages;

/// The pinned host memory of one device. It is never write-combined: the processor reads it when bytes go from the
/// device to storage, and when headers are parsed.
#[derive(Debug)]
pub(crate) struct Staging {
    context: Arc<Context>,
    /// The NUMA node to take memory of.
    node: Option<u32>,
    blocks: Mutex<HashMap<usize, Block>>,
}

#[derive(Debug)]
enum Block {
    /// Pages of our own, huge where possible, registered with the driver. Pinning them is faster than the driver's own
    /// allocation, and copies run as fast (`docs/results.md`).
    Registered(#[allow(dead_code, reason = "unmapped when it is dropped")] Pages),
    /// The driver's.
    Allocated,
}

impl Staging {
    pub(crate) fn new(context: &Arc<Context>, node: Option<u32>) -> Self {
        Self { context: context.clone(), node, blocks: Mutex::default() }
    }

    pub(crate) fn alloc(&self, len: usize) -> Result<NonNull<u8>> {
        let _entered = self.context.enter()?;
        let (ptr, block) = self.register(len).or_else(|refusal| {
            if refusal.kind() == ErrorKind::DeviceLost {
                return Err(refusal);
            }
            tracing::debug!(error = %refusal, len, "own pages cannot be pinned; the driver allocates them");
            self.alloc_by_driver(len)
        })?;
        lock(&self.blocks).insert(ptr.as_ptr() as usize, block);
        Ok(ptr)
    }

    fn register(&self, len: usize) -> Result<(NonNull<u8>, Block)> {
        let pages = Pages::new(len, self.node)?;
        let ptr = pages.ptr();
        // SAFETY: the pages belong to us and stay mapped until they are unregistered.
        let code =
            unsafe { (self.context.driver().cuMemHostRegister_v2)(ptr.as_ptr().cast(), pages.len(), HOST_PORTABLE) };
        self.context.check(code, "cuMemHostRegister")?;
        Ok((ptr, Block::Registered(pages)))
    }

    fn alloc_by_driver(&self, len: usize) -> Result<(NonNull<u8>, Block)> {
        let mut ptr = null_mut::<c_void>();
        // SAFETY: a valid place for the result, and a current context.
        let code = unsafe { (self.context.driver().cuMemHostAlloc)(&mut ptr, len, HOST_PORTABLE) };
        let checked = self.context.check(code, "cuMemHostAlloc").map_err(|error| match error.kind() {
            ErrorKind::OutOfMemory => error.with_message(format!("cannot pin {len} bytes of host memory")),
            _ => error,
        });
        checked?;
        let ptr = NonNull::new(ptr.cast::<u8>()).ok_or_else(|| Error::new(ErrorKind::Device))?;
        // SAFETY: `len` bytes, just allocated. The driver does not promise that they are initialised.
        unsafe { ptr.write_bytes(0, len) };
        Ok((ptr, Block::Allocated))
    }

    /// Unpins and frees memory, later and on another thread: unpinning waits for the kernel and takes milliseconds.
    ///
    /// # Safety
    /// It came from [`alloc`](Self::alloc), and no unfinished work touches it.
    pub(crate) unsafe fn free(&self, ptr: NonNull<u8>) {
        let address = ptr.as_ptr() as usize;
        let Some(block) = lock(&self.blocks).remove(&address) else { return };
        let context = self.context.clone();
        janitor::later(move || release(&context, address as *mut c_void, block));
    }
}

fn release(context: &Context, ptr: *mut c_void, block: Block) {
    let driver = context.driver();
    let released = context.enter().and_then(|_entered| match &block {
        // SAFETY: registered by `register`, and not used any more.
        Block::Registered(_) => context.check(unsafe { (driver.cuMemHostUnregister)(ptr) }, "cuMemHostUnregister"),
        // SAFETY: allocated by `alloc_by_driver`, and not used any more.
        Block::Allocated => context.check(unsafe { (driver.cuMemFreeHost)(ptr) }, "cuMemFreeHost"),
    });
    match released {
        Ok(()) => {}
        // The pins went with the context; the pages can go too.
        Err(error) if error.kind() == ErrorKind::DeviceLost => {}
        Err(error) => {
            tracing::warn!(%error, "pinned memory cannot be released, and is leaked");
            // Unmapped, the addresses would be handed out again while the driver takes them for pinned.
            std::mem::forget(block);
        }
    }
}

//! Memory of the program's own, such as a mapped file, that the device reads by itself.

use std::any::Any;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use warpio_core::{Error, ErrorKind, Result};

use crate::context::Context;
use crate::driver::{ATTRIBUTE_READ_ONLY_PINS, HOST_PORTABLE, HOST_READ_ONLY};
use crate::janitor;
use crate::probe::attribute_of;

/// Registers memory that is only read.
///
/// # Safety
/// The memory is mapped and readable until it is unregistered.
pub(crate) unsafe fn pin(context: &Context, ptr: NonNull<u8>, len: usize) -> Result<()> {
    let _entered = context.enter()?;
    if attribute_of(context.driver(), context.device()?, ATTRIBUTE_READ_ONLY_PINS)? == 0 {
        return Err(Error::unsupported(format!("{} pins no memory that can only be read", context.id())));
    }
    let (address, flags) = (ptr.as_ptr().cast(), HOST_PORTABLE | HOST_READ_ONLY);
    // SAFETY: the caller's promise.
    let code = unsafe { (context.driver().cuMemHostRegister_v2)(address, len, flags) };
    context.check(code, "cuMemHostRegister").map_err(|error| match error.kind() {
        ErrorKind::DeviceLost | ErrorKind::OutOfMemory => error,
        // A file system whose pages cannot be held, or a driver that registers no mapped files.
        _ => Error::unsupported(format!("the driver does not pin these {len} bytes")).with_cause(error),
    })
}

/// Ends a registration, later and on another thread: it takes tens of milliseconds for a few GiB. `keep` is dropped
/// afterwards.
///
/// # Safety
/// `ptr` was registered by [`pin`], and no unfinished work reads the memory.
pub(crate) unsafe fn unpin(context: &Arc<Context>, ptr: NonNull<u8>, keep: Box<dyn Any + Send>) {
    let (context, address) = (context.clone(), ptr.as_ptr() as usize);
    janitor::later(move || {
        let ended = context.enter().and_then(|_entered| {
            // SAFETY: the caller's promise.
            let code = unsafe { (context.driver().cuMemHostUnregister)(address as *mut c_void) };
            context.check(code, "cuMemHostUnregister")
        });
        match ended {
            Ok(()) => drop(keep),
            // The pins went with the context.
            Err(error) if error.kind() == ErrorKind::DeviceLost => drop(keep),
            Err(error) => {
                tracing::warn!(%error, "pinned memory cannot be released, and is leaked");
                // Unmapped, the addresses would be handed out again while the driver takes them for pinned.
                std::mem::forget(keep);
            }
        }
    });
}

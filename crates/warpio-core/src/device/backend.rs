use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

use super::{DeviceEvent, DeviceStream};
use crate::{Error, Result};

/// What [`DeviceBackend::watch`] calls once its event has happened or can no longer happen.
pub type WatchDone = Box<dyn FnOnce(Result<()>) + Send>;

/// Which device, and which context on it. Two handles with equal ids share their memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// `"host"`, `"cuda"`, or the name of another kind of device.
    pub kind: &'static str,
    /// The ordinal among the devices of this kind.
    pub ordinal: u32,
    /// Tells contexts of one device apart; 0 where there is only one.
    pub context: u64,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            "host" => f.write_str("host"),
            kind => write!(f, "{kind}:{}", self.ordinal),
        }
    }
}

/// What a kind of device has to provide.
///
/// # Contract
/// * Every method may be called from any thread, and none of them changes what is current on the calling thread.
/// * `alloc` returns memory aligned to at least 256 bytes; host memory is initialised and aligned to 4 KiB.
/// * `free` and `free_staging` never block: they may run on reactor and ring threads.
/// * `watch` calls `done` exactly once, outside every lock: with `Ok` when the event has happened, with `Err` when
///   the context failed and no work of it touches memory any more. It may call it before it returns.
///
/// # Safety
/// Transfers write through the pointers that `alloc` and `alloc_staging` return, and reuse memory once `watch` has
/// called back. The memory must be valid for `len` bytes until it is freed, and an event must not be reported as
/// happened while earlier work of its stream still touches memory.
pub unsafe trait DeviceBackend: Any + fmt::Debug + Send + Sync {
    /// Which device this is.
    fn id(&self) -> DeviceId;

    /// Whether the processor can access this device's memory directly.
    fn host_visible(&self) -> bool;

    /// Allocates `len > 0` bytes of device memory.
    fn alloc(&self, len: usize) -> Result<NonNull<u8>>;

    /// Frees memory of [`alloc`](Self::alloc) without blocking.
    ///
    /// # Safety
    /// `ptr` and `len` come from one call of `alloc` on this backend, and no work that touches the memory is
    /// unfinished.
    unsafe fn free(&self, ptr: NonNull<u8>, len: usize);

    /// Allocates `len > 0` bytes of host memory that this device copies from at full speed (pinned, for a GPU),
    /// initialised and aligned to 4 KiB. It may block for milliseconds.
    fn alloc_staging(&self, len: usize) -> Result<NonNull<u8>>;

    /// Frees memory of [`alloc_staging`](Self::alloc_staging) without blocking.
    ///
    /// # Safety
    /// As for [`free`](Self::free), with `alloc_staging` in the place of `alloc`.
    unsafe fn free_staging(&self, ptr: NonNull<u8>, len: usize);

    /// Pins `len > 0` bytes of the program's own memory, of which nothing is to be written: copies to this device can
    /// read it at full speed then, without staging. It may block for as long as it takes to find the pages.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where such memory cannot be pinned, as by default.
    ///
    /// # Safety
    /// The memory is mapped and readable until [`unpin`](Self::unpin) drops what it is given.
    unsafe fn pin(&self, ptr: NonNull<u8>, len: usize) -> Result<()> {
        let _ = (ptr, len);
        Err(Error::unsupported(format!("memory of the program's own cannot be pinned for {}", self.id())))
    }

    /// Undoes [`pin`](Self::pin) without blocking, and drops `keep` afterwards.
    ///
    /// # Safety
    /// `ptr` was given to a call of `pin` that succeeded, and no unfinished work reads the memory.
    unsafe fn unpin(&self, ptr: NonNull<u8>, keep: Box<dyn Any + Send>) {
        let _ = ptr;
        drop(keep);
    }

    /// A new work queue, independent of all others.
    fn new_stream(&self) -> Result<DeviceStream>;

    /// An event behind all work that was submitted to this context before the call.
    fn earlier_work(&self) -> Result<DeviceEvent>;

    /// Calls `done` when `event` has happened; see the contract.
    fn watch(&self, event: DeviceEvent, done: WatchDone);
}

const _: Option<&dyn DeviceBackend> = None;

use std::any::Any;
use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::ptr::NonNull;

use bytes::Bytes;

use super::allocation::Allocation;
use super::fence::Fence;
use super::mutable::DeviceBytesMut;
use crate::device::{Device, DeviceEvent, DeviceStream};
use crate::sync::Arc;
use crate::{Error, Result};

/// A shared, read-only range of device memory, in the manner of `bytes::Bytes`: cheap to clone and to slice.
///
/// ```
/// use warpio_core::Device;
///
/// let data = Device::host().alloc(100)?.freeze();
/// let part = data.slice(10..30);
/// assert_eq!(part.len(), 20);
/// # Ok::<(), warpio_core::Error>(())
/// ```
#[derive(Clone)]
pub struct DeviceBytes {
    piece: Arc<Piece>,
    ptr: NonNull<u8>,
    len: usize,
}

/// What the clones and slices of one frozen range share; its drop passes the fence on.
struct Piece {
    allocation: Arc<Allocation>,
    fence: crate::sync::Mutex<Fence>,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.allocation.defer(std::mem::take(&mut *crate::sync::lock(&self.fence)));
    }
}

// SAFETY: a handle to memory that is only read; the rest is Send + Sync.
unsafe impl Send for DeviceBytes {}
// SAFETY: as above.
unsafe impl Sync for DeviceBytes {}

impl DeviceBytes {
    pub(super) fn from_parts(allocation: Arc<Allocation>, ptr: NonNull<u8>, len: usize, fence: Fence) -> Self {
        Self { piece: Arc::new(Piece { allocation, fence: crate::sync::Mutex::new(fence) }), ptr, len }
    }

    /// Takes read-only memory that something else allocated; see [`DeviceBytesMut::from_raw_parts`].
    ///
    /// # Safety
    /// Until `owner` is dropped, `ptr` must be valid for reads of `len` bytes, by `device` and, if the device is
    /// host-visible, by the processor, initialised, and written by nothing.
    pub unsafe fn from_raw_parts(device: &Device, ptr: NonNull<u8>, len: usize, owner: impl Any + Send + Sync) -> Self {
        let allocation = Allocation::foreign_read_only(device, ptr, len, Box::new(owner));
        Self::from_parts(allocation, ptr, len, Fence::default())
    }

    /// The device that the memory is on.
    pub fn device(&self) -> &Device {
        self.piece.allocation.device()
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address on the device.
    pub fn device_ptr(&self) -> u64 {
        self.ptr.as_ptr() as u64
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.piece.allocation
    }

    pub(crate) fn ptr_at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.len);
        // SAFETY: the offset lies within the range.
        unsafe { self.ptr.add(offset) }
    }

    /// The bytes, where the device is host-visible.
    pub fn as_slice(&self) -> Option<&[u8]> {
        // SAFETY: host-visible memory is initialised and valid for `len` bytes, and nothing writes a shared range.
        self.device().is_host_visible().then(|| unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) })
    }

    /// A part of the range, sharing its memory.
    ///
    /// # Panics
    /// If the part does not lie within the range.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(&n) => n,
            Bound::Excluded(&n) => n.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&n) => n.saturating_add(1),
            Bound::Excluded(&n) => n,
            Bound::Unbounded => self.len,
        };
        assert!(start <= end && end <= self.len, "slice {start}..{end} of a buffer of {} bytes", self.len);
        Self { piece: self.piece.clone(), ptr: self.ptr_at(start), len: end - start }
    }

    /// The range as a writable one again, if this is its only handle.
    ///
    /// # Errors
    /// The handle itself, when others share the memory, or when it was read-only from the beginning: memory of a
    /// `Bytes` or of [`from_raw_parts`](Self::from_raw_parts) may be shared where this handle cannot see it.
    pub fn try_into_mut(self) -> Result<DeviceBytesMut, Self> {
        if !self.piece.allocation.is_writable() {
            return Err(self);
        }
        let Self { piece, ptr, len } = self;
        match Arc::try_unwrap(piece) {
            Ok(piece) => {
                let fence = std::mem::take(&mut *crate::sync::lock(&piece.fence));
                Ok(DeviceBytesMut::from_parts(piece.allocation.clone(), ptr, len, fence))
            }
            Err(piece) => Err(Self { piece, ptr, len }),
        }
    }

    /// Makes work enqueued on `stream` from now on wait for the device work that the range carries, without blocking.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn wait_on(&self, stream: &impl AsRef<DeviceStream>) -> Result<()> {
        self.fence().iter().try_for_each(|event| stream.as_ref().wait(event))
    }

    /// Records that `stream`'s work so far uses the memory: it is released behind that work.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn used_on(&self, stream: &impl AsRef<DeviceStream>) -> Result<()> {
        let event = stream.as_ref().record()?;
        crate::sync::lock(&self.piece.fence).name(event);
        Ok(())
    }

    pub(crate) fn add_fence(&self, event: DeviceEvent) {
        crate::sync::lock(&self.piece.fence).add(event);
    }

    /// The device work that the range waits for before the host or another stream may read it.
    pub(crate) fn fence(&self) -> Vec<DeviceEvent> {
        let mut fence = crate::sync::lock(&self.piece.fence).clone();
        fence.take_pending()
    }

    /// The bytes in host memory. Host-visible memory is shared, not copied; the memory of a GPU is copied through the
    /// staging pool, in bounded pieces, behind the work recorded on the buffer or, if there is none, behind the
    /// context's earlier work.
    ///
    /// # Errors
    /// What the device reports for the copies.
    pub async fn to_host(&self) -> Result<Bytes> {
        let device = self.device();
        for event in self.work_before_read()? {
            device.wait(&event).await?;
        }
        if device.is_host_visible() {
            return Ok(Bytes::from_owner(HostView(self.clone())));
        }
        let mut host = Vec::new();
        host.try_reserve_exact(self.len).map_err(|cause| {
            Error::new(crate::ErrorKind::OutOfMemory)
                .with_message(format!("cannot allocate {} bytes of host memory", self.len))
                .with_cause(cause)
        })?;
        let stream = device.new_stream()?;
        while host.len() < self.len {
            let at = host.len();
            let n = (self.len - at).min(device.staging().slot_len());
            let mut slot = device.staging().acquire(n).await?;
            let dst = NonNull::from(slot.as_mut_slice()).cast();
            // SAFETY: source and slot are valid for `n` bytes; the guard keeps both until the copy's event is done,
            // even when this future is dropped.
            unsafe { stream.backend().copy_to_host(dst, self.ptr_at(at), n)? };
            let slot = slot.wait_for(device, &stream, self.clone()).await?;
            host.extend_from_slice(&slot.as_slice()[..n]);
        }
        Ok(host.into())
    }

    /// What must have happened before these bytes are read: the work that they carry and, unless the stream of the last
    /// use was named, all earlier work of the context.
    pub(crate) fn work_before_read(&self) -> Result<Vec<DeviceEvent>> {
        let (mut fence, named) = {
            let fence = crate::sync::lock(&self.piece.fence);
            (fence.clone(), fence.is_named())
        };
        let mut events = fence.take_pending();
        if !named && !self.device().is_host_visible() {
            events.push(self.device().backend().earlier_work()?);
        }
        Ok(events)
    }
}

/// Host-visible bytes, for `Bytes::from_owner`.
pub(super) struct HostView(pub(super) DeviceBytes);

impl AsRef<[u8]> for HostView {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice().unwrap_or_default()
    }
}

impl fmt::Debug for DeviceBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBytes").field("device", &self.device().id()).field("len", &self.len).finish()
    }
}

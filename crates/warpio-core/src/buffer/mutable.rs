use std::any::Any;
use std::fmt;
use std::ptr::NonNull;

use super::allocation::Allocation;
use super::fence::Fence;
use super::shared::DeviceBytes;
use crate::Result;
use crate::device::{Device, DeviceEvent, DeviceStream};
use crate::sync::Arc;

/// A unique, owned range of device memory, in the manner of `bytes::BytesMut`.
///
/// A buffer carries its *fence*: the device work that it was last used by. Transfers into it and its release wait for
/// that work.
///
/// ```
/// use warpio_core::Device;
///
/// let mut head = Device::host().alloc(100)?;
/// let tail = head.split_off(60);
/// assert_eq!((head.len(), tail.len()), (60, 40));
/// let whole = head.unsplit(tail).expect("they were neighbours");
/// assert_eq!(whole.len(), 100);
/// # Ok::<(), warpio_core::Error>(())
/// ```
pub struct DeviceBytesMut {
    allocation: Arc<Allocation>,
    ptr: NonNull<u8>,
    len: usize,
    fence: Fence,
}

// SAFETY: a unique handle to memory that any thread may use; the rest is Send + Sync.
unsafe impl Send for DeviceBytesMut {}
// SAFETY: a shared reference only gives read access.
unsafe impl Sync for DeviceBytesMut {}

impl DeviceBytesMut {
    pub(crate) fn alloc(device: &Device, len: usize) -> Result<Self> {
        let allocation = Allocation::new(device, len)?;
        Ok(Self { ptr: allocation.base(), allocation, len, fence: Fence::default() })
    }

    /// Takes memory that something else allocated. `owner` is dropped when the last piece of it is gone and the device
    /// work recorded on it has finished; that may be on any thread.
    ///
    /// # Safety
    /// Until `owner` is dropped, `ptr` must be valid for reads and writes of `len` bytes, by `device` and, if the
    /// device is host-visible, by the processor, initialised, and used by nothing else.
    pub unsafe fn from_raw_parts(device: &Device, ptr: NonNull<u8>, len: usize, owner: impl Any + Send + Sync) -> Self {
        let allocation = Allocation::foreign(device, ptr, len, Box::new(owner));
        Self { ptr, allocation, len, fence: Fence::default() }
    }

    /// The device that the memory is on.
    pub fn device(&self) -> &Device {
        self.allocation.device()
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

    /// The address on the device, as a pointer; the processor may only use it where the device is host-visible.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    pub(crate) fn ptr_at(&self, offset: usize) -> NonNull<u8> {
        debug_assert!(offset <= self.len);
        // SAFETY: the offset lies within the range.
        unsafe { self.ptr.add(offset) }
    }

    /// The bytes, where the device is host-visible.
    pub fn as_slice(&self) -> Option<&[u8]> {
        // SAFETY: host-visible memory is initialised and valid for `len` bytes, and this reference keeps writers out.
        self.device().is_host_visible().then(|| unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len) })
    }

    /// The bytes, writable, where the device is host-visible.
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as for `as_slice`; the range is unique and borrowed mutably.
        self.device().is_host_visible().then(|| unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len) })
    }

    /// Splits the range in two: afterwards this one is `[0, at)` and the returned one `[at, len)`.
    ///
    /// # Panics
    /// If `at > len`.
    #[must_use = "the second half is dropped otherwise"]
    pub fn split_off(&mut self, at: usize) -> Self {
        assert!(at <= self.len, "split_off at {at} of a buffer of {} bytes", self.len);
        let tail = Self {
            allocation: self.allocation.clone(),
            ptr: self.ptr_at(at),
            len: self.len - at,
            fence: self.fence.clone(),
        };
        self.len = at;
        tail
    }

    /// Splits the range in two: afterwards this one is `[at, len)` and the returned one `[0, at)`.
    ///
    /// # Panics
    /// If `at > len`.
    #[must_use = "the first half is dropped otherwise"]
    pub fn split_to(&mut self, at: usize) -> Self {
        let tail = self.split_off(at);
        std::mem::replace(self, tail)
    }

    /// Joins this range with the one right behind it.
    ///
    /// # Errors
    /// Both ranges, unchanged, if they are not neighbours in one allocation.
    pub fn unsplit(mut self, mut tail: Self) -> Result<Self, (Self, Self)> {
        let neighbours =
            Arc::ptr_eq(&self.allocation, &tail.allocation) && self.device_ptr() + self.len as u64 == tail.device_ptr();
        if !neighbours {
            return Err((self, tail));
        }
        self.len += tail.len;
        self.fence.merge(std::mem::take(&mut tail.fence));
        Ok(self)
    }

    /// Makes the range shared and read-only.
    pub fn freeze(mut self) -> DeviceBytes {
        let fence = std::mem::take(&mut self.fence);
        DeviceBytes::from_parts(self.allocation.clone(), self.ptr, self.len, fence)
    }

    /// Makes the buffer wait for what `stream` holds at this moment: transfers into it and its release happen
    /// afterwards.
    ///
    /// # Errors
    /// What the driver reports; the buffer is then unchanged.
    pub fn after(&mut self, stream: &impl AsRef<DeviceStream>) -> Result<()> {
        self.fence.name(stream.as_ref().record()?);
        Ok(())
    }

    /// Makes work enqueued on `stream` from now on wait for the device work that the buffer carries, without blocking.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn wait_on(&self, stream: &impl AsRef<DeviceStream>) -> Result<()> {
        self.fence.events().iter().try_for_each(|event| stream.as_ref().wait(event))
    }

    /// Waits until the device work recorded on the buffer has finished.
    ///
    /// # Errors
    /// What the device reports for that work.
    pub async fn ready(&mut self) -> Result<()> {
        // The events stay in the fence until all of them have happened: this future may be dropped before.
        for event in self.fence.events() {
            self.device().wait(event).await?;
        }
        self.fence.take_pending();
        Ok(())
    }

    pub(crate) fn take_fence(&mut self) -> Vec<DeviceEvent> {
        self.fence.take_pending()
    }

    pub(crate) fn add_fence(&mut self, event: DeviceEvent) {
        self.fence.add(event);
    }

    pub(super) fn from_parts(allocation: Arc<Allocation>, ptr: NonNull<u8>, len: usize, fence: Fence) -> Self {
        Self { allocation, ptr, len, fence }
    }
}

impl Drop for DeviceBytesMut {
    fn drop(&mut self) {
        self.allocation.defer(std::mem::take(&mut self.fence));
    }
}

impl fmt::Debug for DeviceBytesMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeviceBytesMut").field("device", &self.device().id()).field("len", &self.len).finish()
    }
}

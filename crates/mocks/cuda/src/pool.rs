//! Stream-ordered memory pools: what they hold, what they keep, how much a device still has.

use std::ffi::{c_int, c_void};

use crate::{
    codes::{Code, Result},
    ffi::{In, Out},
    state::{State, api},
    stream::Ticket,
    table::Handle,
};

/// What a pool takes from the device at a time.
const BLOCK: u64 = 2 << 20;

/// One pool. Only the books are kept here: addresses come from the device's space.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) device: usize,
    default: bool,
    /// The most bytes that it may hold; 0 for no limit.
    max: u64,
    /// Bytes that it keeps when streams are synchronised.
    threshold: u64,
    used: u64,
    used_high: u64,
    reserved: u64,
    reserved_high: u64,
    /// The three `REUSE_*` attributes. They are kept and change nothing.
    reuse: [c_int; 3],
}

impl Pool {
    pub(crate) fn new(device: usize, default: bool, max: u64) -> Self {
        Self { device, default, max, threshold: 0, used: 0, used_high: 0, reserved: 0, reserved_high: 0, reuse: [1; 3] }
    }

    fn trim(&mut self, keep: u64) {
        self.reserved = self.used.max(self.reserved.min(keep));
    }
}

impl State {
    /// Bytes of a device that neither an allocation nor a pool holds.
    pub(crate) fn free_bytes(&self, device: usize) -> u64 {
        let pools = self.pools.iter().filter(|(_, pool)| pool.device == device);
        let reserved: u64 = pools.map(|(_, pool)| pool.reserved).sum();
        let device = &self.devices[device];
        device.capacity.saturating_sub(device.direct + reserved)
    }

    /// Books an allocation of `len` bytes in a pool. Returns what must be waited for first: the frees, still queued on
    /// streams, of memory that it needs.
    pub(crate) fn book_pooled(&mut self, handle: Handle, len: u64) -> Result<Vec<Ticket>> {
        let mut waits = Vec::new();
        while let Err(code) = self.grow_pool(handle, len) {
            let Some((base, ticket)) = self.queued_free(handle) else {
                return Err(code);
            };
            self.unbook(base);
            waits.push(ticket);
        }
        let pool = self.pools.get_mut(handle)?;
        pool.used += len;
        pool.used_high = pool.used_high.max(pool.used);
        Ok(waits)
    }

    /// Makes the pool hold `len` bytes more than are in use.
    fn grow_pool(&mut self, handle: Handle, len: u64) -> Result {
        let pool = self.pools.get(handle)?;
        let free = self.free_bytes(pool.device);
        let wanted = pool.used.checked_add(len).ok_or(Code::OUT_OF_MEMORY)?;
        if pool.max != 0 && wanted > pool.max {
            return Err(Code::OUT_OF_MEMORY);
        }
        let missing = wanted.saturating_sub(pool.reserved);
        if missing > free {
            return Err(Code::OUT_OF_MEMORY);
        }
        let pool = self.pools.get_mut(handle)?;
        pool.reserved += missing.next_multiple_of(BLOCK).min(free);
        pool.reserved_high = pool.reserved_high.max(pool.reserved);
        Ok(())
    }

    /// An allocation of the pool that is freed once a stream gets there, and still counts.
    fn queued_free(&self, pool: Handle) -> Option<(u64, Ticket)> {
        self.device_memory.iter().find_map(|(base, allocation)| {
            let counts = allocation.pool == Some(pool) && allocation.booked;
            let ticket = allocation.freed_at.filter(|_| counts)?;
            Some((base, ticket))
        })
    }

    /// Takes an allocation off the books.
    pub(crate) fn unbook(&mut self, base: u64) {
        let Some(allocation) = self.device_memory.get_mut(base) else {
            return;
        };
        if !std::mem::take(&mut allocation.booked) {
            return;
        }
        let (len, device) = (allocation.booked_len(), allocation.device);
        match allocation.pool.map(|pool| self.pools.get_mut(pool)) {
            Some(Ok(pool)) => pool.used -= len,
            Some(Err(_)) => {}
            None => self.devices[device].direct -= len,
        }
    }

    /// A synchronisation lets the device's pools return what they need not keep.
    pub(crate) fn settle_pools(&mut self, device: usize) {
        for pool in self.pools.values_mut().filter(|pool| pool.device == device) {
            pool.trim(pool.threshold);
        }
    }

    /// Books what is left of a destroyed pool on its device.
    fn orphan_allocations(&mut self, pool: Handle) {
        for (_, allocation) in self.device_memory.iter_mut() {
            if allocation.pool == Some(pool) {
                allocation.pool = None;
                if allocation.booked {
                    self.devices[allocation.device].direct += allocation.booked_len();
                }
            }
        }
    }

    fn pool(&mut self, handle: Handle) -> Result<&mut Pool> {
        self.pools.get_mut(handle).map_err(|_| Code::INVALID_VALUE)
    }
}

/// The pool that a device has from the start.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetDefaultMemPool(out: Out<Handle>, device: c_int) -> c_int {
    api("cuDeviceGetDefaultMemPool", |gpu| {
        let device = gpu.device_index(device)?;
        out.set(gpu.devices[device].default_pool)
    })
}

/// The pool that `cuMemAllocAsync` uses on a device.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceGetMemPool(out: Out<Handle>, device: c_int) -> c_int {
    api("cuDeviceGetMemPool", |gpu| {
        let device = gpu.device_index(device)?;
        out.set(gpu.devices[device].pool)
    })
}

/// Sets the pool that `cuMemAllocAsync` uses on a device.
#[unsafe(no_mangle)]
extern "C" fn cuDeviceSetMemPool(device: c_int, pool: Handle) -> c_int {
    api("cuDeviceSetMemPool", |gpu| {
        let device = gpu.device_index(device)?;
        if gpu.pool(pool)?.device != device {
            return Err(Code::INVALID_VALUE);
        }
        gpu.devices[device].pool = pool;
        Ok(())
    })
}

/// The head of `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy)]
struct PoolProperties {
    allocation_type: c_int,
    handle_types: c_int,
    location_type: c_int,
    location: c_int,
    _security: *const c_void,
    max: usize,
}

/// Makes a pool.
#[unsafe(no_mangle)]
extern "C" fn cuMemPoolCreate(out: Out<Handle>, properties: In<PoolProperties>) -> c_int {
    const PINNED: c_int = 1;
    const ON_DEVICE: c_int = 1;
    api("cuMemPoolCreate", |gpu| {
        let properties = properties.get()?;
        if properties.allocation_type != PINNED || properties.location_type != ON_DEVICE {
            return Err(Code::INVALID_VALUE);
        }
        if properties.handle_types != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let device = gpu.device_index(properties.location)?;
        let pool = Pool::new(device, false, properties.max as u64);
        out.set(gpu.pools.insert(pool))
    })
}

/// Destroys a pool. What was allocated from it stays until it is freed.
#[unsafe(no_mangle)]
extern "C" fn cuMemPoolDestroy(pool: Handle) -> c_int {
    api("cuMemPoolDestroy", |gpu| {
        if gpu.pool(pool)?.default {
            return Err(Code::INVALID_VALUE);
        }
        gpu.pools.remove(pool)?;
        gpu.orphan_allocations(pool);
        for device in &mut gpu.devices {
            if device.pool == pool {
                device.pool = device.default_pool;
            }
        }
        Ok(())
    })
}

/// Returns memory that the pool does not use, down to `keep` bytes.
#[unsafe(no_mangle)]
extern "C" fn cuMemPoolTrimTo(pool: Handle, keep: usize) -> c_int {
    api("cuMemPoolTrimTo", |gpu| {
        gpu.pool(pool)?.trim(keep as u64);
        Ok(())
    })
}

/// A property of a pool.
#[unsafe(no_mangle)]
extern "C" fn cuMemPoolGetAttribute(pool: Handle, attribute: u32, value: Out<c_void>) -> c_int {
    api("cuMemPoolGetAttribute", |gpu| {
        let pool = gpu.pool(pool)?;
        let bytes = match attribute {
            1..=3 => {
                let flag = pool.reuse[attribute as usize - 1];
                return value.cast::<c_int>().set(flag);
            }
            4 => pool.threshold,
            5 => pool.reserved,
            6 => pool.reserved_high,
            7 => pool.used,
            8 => pool.used_high,
            _ => return Err(Code::INVALID_VALUE),
        };
        value.cast::<u64>().set(bytes)
    })
}

/// Sets a property of a pool. The two high-water marks can only be set to zero, which starts them anew.
#[unsafe(no_mangle)]
extern "C" fn cuMemPoolSetAttribute(pool: Handle, attribute: u32, value: In<c_void>) -> c_int {
    api("cuMemPoolSetAttribute", |gpu| {
        let pool = gpu.pool(pool)?;
        if let 1..=3 = attribute {
            pool.reuse[attribute as usize - 1] = value.cast::<c_int>().get()?;
            return Ok(());
        }
        let bytes = value.cast::<u64>().get()?;
        match (attribute, bytes) {
            (4, bytes) => pool.threshold = bytes,
            (6, 0) => pool.reserved_high = pool.reserved,
            (8, 0) => pool.used_high = pool.used,
            _ => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    })
}

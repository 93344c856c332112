//! Device memory: allocations, and what an address means to the GPU.

use crate::{
    codes::{Code, Result},
    plan::POISON,
    state::{Gpu, State},
    stream::{self, Ticket},
    table::{Handle, Span},
};

/// What allocations are rounded up to in the books.
const GRANULARITY: u64 = 512;

/// One device allocation, live or about to be freed.
#[derive(Debug)]
pub(crate) struct Allocation {
    pub(crate) id: u64,
    pub(crate) len: u64,
    pub(crate) device: usize,
    pub(crate) context: Handle,
    pub(crate) pool: Option<Handle>,
    /// Where the allocation is ordered, if it is, and whether the stream has got there.
    pub(crate) stream: Option<Handle>,
    pub(crate) ready: bool,
    /// The program has freed it: no call may name it any more.
    pub(crate) freed: bool,
    /// Where its free is queued.
    pub(crate) freed_at: Option<Ticket>,
    /// Whether the books still count it.
    pub(crate) booked: bool,
    /// Operations queued or running that use it.
    pub(crate) users: u32,
    /// Its free ran while others still used it: the last of them returns it.
    zombie: bool,
    pub(crate) sync_memops: bool,
}

impl Allocation {
    pub(crate) fn booked_len(&self) -> u64 {
        self.len.next_multiple_of(GRANULARITY)
    }
}

impl Span for Allocation {
    fn len(&self) -> u64 {
        self.len
    }
}

/// Memory that the GPU knows, as an operation refers to it: the id tells it from later memory at the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryRef {
    Device { base: u64, id: u64 },
    Host { base: u64, id: u64 },
}

/// A checked address: where, and in which memory; pageable host memory is in none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    pub(crate) at: u64,
    pub(crate) memory: Option<MemoryRef>,
}

impl Address {
    pub(crate) fn is_pageable(&self) -> bool {
        self.memory.is_none()
    }

    pub(crate) fn is_device(&self) -> bool {
        matches!(self.memory, Some(MemoryRef::Device { .. }))
    }
}

impl State {
    /// Finds out what `[at, at + len)` is. A range must lie within one live allocation or one pinned range, or be
    /// clear of them all.
    pub(crate) fn locate(&self, at: u64, len: u64) -> Result<Address> {
        let memory = if self.devices.iter().any(|device| device.space.contains(at)) {
            let found = self.device_memory.covering(at, len);
            let (base, allocation) = found.filter(|(_, allocation)| !allocation.freed).ok_or(Code::INVALID_VALUE)?;
            let id = allocation.id;
            Some(MemoryRef::Device { base, id })
        } else if let Some((base, range)) = self.host_memory.covering(at, len)
            && !range.freed
        {
            let id = range.id;
            Some(MemoryRef::Host { base, id })
        } else if at == 0 || self.host_memory.touches(at, len) {
            return Err(Code::INVALID_VALUE);
        } else {
            None
        };
        Ok(Address { at, memory })
    }

    /// Like [`locate`](Self::locate), for memory that work in `context` reaches: pinned, or on its device, or on a
    /// peer's.
    pub(crate) fn locate_for(&self, context: Handle, at: u64, len: u64) -> Result<Address> {
        let address = self.locate(at, len)?;
        match address.memory {
            None => Err(Code::INVALID_VALUE),
            Some(MemoryRef::Host { .. }) => Ok(address),
            Some(MemoryRef::Device { base, .. }) => {
                let owner = self.owner(base)?;
                let here = self.contexts.get(context)?;
                let near = here.device == self.device_of(owner)? || here.peers.contains(&owner);
                near.then_some(address).ok_or(Code::INVALID_VALUE)
            }
        }
    }

    /// The context that a device allocation belongs to.
    pub(crate) fn owner(&self, base: u64) -> Result<Handle> {
        let allocation = self.device_memory.get(base);
        Ok(allocation.ok_or(Code::INVALID_VALUE)?.context)
    }

    /// Where the CPU finds the bytes of an address, when an operation of `stream` comes to run. Memory that is gone,
    /// or whose stream-ordered allocation has not run, is an illegal address.
    pub(crate) fn resolve(&mut self, address: Address, stream: Handle) -> Result<*mut u8> {
        match address.memory {
            None => Ok(address.at as *mut u8),
            Some(MemoryRef::Host { base, id }) => match self.host_memory.get(base) {
                Some(range) if range.id == id => Ok(address.at as *mut u8),
                _ => Err(self.illegal("host memory was unpinned before an operation on it ran")),
            },
            Some(MemoryRef::Device { base, id }) => {
                let strict = self.plan.strict;
                match self.device_memory.get(base) {
                    Some(allocation) if allocation.id == id && !allocation.zombie => {
                        if strict && !allocation.ready && allocation.stream != Some(stream) {
                            return Err(
                                self.illegal("an operation ran before the stream-ordered allocation of its memory")
                            );
                        }
                        let space = &self.devices[allocation.device].space;
                        Ok(space.alias(address.at).cast())
                    }
                    _ => Err(self.illegal("device memory was freed before an operation on it ran")),
                }
            }
        }
    }

    fn illegal(&mut self, what: &str) -> Code {
        self.violation(what);
        Code::ILLEGAL_ADDRESS
    }

    /// The alias of live memory, for kernels and for those who ask from outside.
    pub(crate) fn alias(&self, at: u64, len: u64) -> Option<*mut u8> {
        match self.locate(at, len).ok()?.memory? {
            MemoryRef::Host { .. } => Some(at as *mut u8),
            MemoryRef::Device { base, .. } => {
                let device = self.device_memory.get(base)?.device;
                Some(self.devices[device].space.alias(at).cast())
            }
        }
    }

    /// Makes an allocation on a device. `pool` is for stream-ordered ones; what its stream must wait for first is
    /// returned beside the address.
    pub(crate) fn allocate(
        &mut self,
        context: Handle,
        pool: Option<Handle>,
        stream: Option<Handle>,
        len: u64,
    ) -> Result<(u64, Vec<Ticket>)> {
        let device = self.device_of(context)?;
        let booked = len.checked_next_multiple_of(GRANULARITY).ok_or(Code::OUT_OF_MEMORY)?;
        if self.plan.oom_after.is_some_and(|left| len > left) {
            return Err(Code::OUT_OF_MEMORY);
        }
        let taken = self.devices[device].space.take(len);
        let base = taken.ok_or(Code::OUT_OF_MEMORY)?;
        let waits = match self.book(device, pool, booked) {
            Ok(waits) => waits,
            Err(code) => {
                self.devices[device].space.give_back(base);
                return Err(code);
            }
        };
        if let Some(left) = &mut self.plan.oom_after {
            *left -= len;
        }
        let id = self.new_id();
        self.device_memory.insert(
            base,
            Allocation {
                id,
                len,
                device,
                context,
                pool,
                stream,
                ready: stream.is_none(),
                freed: false,
                freed_at: None,
                booked: true,
                users: 0,
                zombie: false,
                sync_memops: false,
            },
        );
        let poisoned = len.min(self.plan.poison) as usize;
        let bytes = self.devices[device].space.alias(base).cast::<u8>();
        // SAFETY: the alias of memory just taken, at least `len` bytes long, which no operation can know yet.
        unsafe { bytes.write_bytes(POISON, poisoned) };
        Ok((base, waits))
    }

    fn book(&mut self, device: usize, pool: Option<Handle>, len: u64) -> Result<Vec<Ticket>> {
        if let Some(pool) = pool {
            return self.book_pooled(pool, len);
        }
        if len > self.free_bytes(device) {
            return Err(Code::OUT_OF_MEMORY);
        }
        self.devices[device].direct += len;
        Ok(Vec::new())
    }

    /// The live allocation that starts at an address.
    pub(crate) fn allocation(&mut self, base: u64) -> Result<&mut Allocation> {
        match self.device_memory.get_mut(base) {
            Some(allocation) if !allocation.freed => Ok(allocation),
            _ => Err(Code::INVALID_VALUE),
        }
    }

    /// Returns an allocation. An operation that still uses it was not ordered before the free: on a GPU it reads or
    /// writes what is someone else's by then.
    pub(crate) fn free_now(&mut self, base: u64) -> Result {
        if self.end_allocation(base) {
            Ok(())
        } else {
            Err(self.illegal("device memory was freed under an operation that uses it"))
        }
    }

    /// Returns an allocation, or leaves that to the last operation that uses it. Whether it was returned.
    pub(crate) fn end_allocation(&mut self, base: u64) -> bool {
        self.unbook(base);
        let Some(allocation) = self.device_memory.get_mut(base) else {
            return true;
        };
        allocation.freed = true;
        allocation.zombie = allocation.users > 0;
        if allocation.zombie {
            return false;
        }
        self.drop_allocation(base);
        true
    }

    fn drop_allocation(&mut self, base: u64) {
        if let Some(allocation) = self.device_memory.remove(base) {
            self.devices[allocation.device].space.give_back(base);
        }
    }

    /// Notes that an operation was queued that uses some memory.
    pub(crate) fn hold(&mut self, memory: MemoryRef) {
        match memory {
            MemoryRef::Device { base, id } => {
                if let Some(allocation) = self.device_memory.get_mut(base)
                    && allocation.id == id
                {
                    allocation.users += 1;
                }
            }
            MemoryRef::Host { base, id } => {
                if let Some(range) = self.host_memory.get_mut(base)
                    && range.id == id
                {
                    range.users += 1;
                }
            }
        }
    }

    /// Undoes [`hold`](Self::hold).
    pub(crate) fn let_go(&mut self, memory: MemoryRef) {
        match memory {
            MemoryRef::Device { base, id } => {
                if let Some(allocation) = self.device_memory.get_mut(base)
                    && allocation.id == id
                {
                    allocation.users -= 1;
                    if allocation.zombie && allocation.users == 0 {
                        self.drop_allocation(base);
                    }
                }
            }
            MemoryRef::Host { base, id } => self.let_go_host(base, id),
        }
    }

    /// Frees what belongs to a context whose work has ended.
    pub(crate) fn free_memory_of(&mut self, context: Handle) {
        let owned: Vec<u64> = self
            .device_memory
            .iter()
            .filter(|(_, allocation)| allocation.context == context)
            .map(|(base, _)| base)
            .collect();
        for base in owned {
            self.unbook(base);
            self.drop_allocation(base);
        }
        self.free_host_memory_of(context);
    }
}

/// Frees an allocation once the work of its context has ended, as `cuMemFree` does.
pub(crate) fn free_after_work(gpu: &mut Gpu, base: u64) -> Result {
    let allocation = gpu.allocation(base)?;
    allocation.freed = true;
    let (context, device, pooled) = (allocation.context, allocation.device, allocation.pool.is_some());
    stream::synchronize_context(gpu, context)?;
    gpu.free_now(base)?;
    if pooled {
        gpu.settle_pools(device);
    }
    Ok(())
}

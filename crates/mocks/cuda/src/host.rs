//! Host memory that the GPU reaches: pinned, registered, managed.

use std::{
    ffi::{c_int, c_void},
    fs, ptr,
};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::{
    capture,
    codes::{Code, Result},
    ffi::Out,
    state::{State, api},
    table::{Handle, Span},
};

/// `PORTABLE`, `DEVICEMAP` and `WRITECOMBINED` (when allocating) or `IOMEMORY` (when registering).
const ALLOCATE_FLAGS: u32 = 0x7;
const REGISTER_FLAGS: u32 = 0xf;
const READ_ONLY: u32 = 0x8;
const IO_MEMORY: u32 = 0x4;
const DEVICE_MAP: u32 = 0x2;

/// A range of host memory that the GPU reaches at the CPU's addresses.
#[derive(Debug)]
pub(crate) struct HostRange {
    pub(crate) id: u64,
    pub(crate) len: u64,
    pub(crate) context: Handle,
    pub(crate) device: usize,
    /// The program's own memory, registered; else ours.
    pub(crate) registered: bool,
    pub(crate) managed: bool,
    pub(crate) flags: u32,
    /// The program has freed or unregistered it.
    pub(crate) freed: bool,
    /// Operations queued or running that use it.
    pub(crate) users: u32,
}

impl HostRange {
    pub(crate) fn is_read_only(&self) -> bool {
        self.registered && self.flags & READ_ONLY != 0
    }
}

impl Span for HostRange {
    fn len(&self) -> u64 {
        self.len
    }
}

impl State {
    fn allocate_host(&mut self, len: usize, flags: u32, managed: bool) -> Result<u64> {
        let context = self.current()?;
        if len == 0 {
            return Err(Code::INVALID_VALUE);
        }
        self.admit_pinned(len as u64)?;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing else can know it.
        let mapped =
            unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let base = mapped.map_err(|_| Code::OUT_OF_MEMORY)? as u64;
        self.add_host_range(base, len as u64, context, flags, false, managed)?;
        Ok(base)
    }

    fn add_host_range(
        &mut self,
        base: u64,
        len: u64,
        context: Handle,
        flags: u32,
        registered: bool,
        managed: bool,
    ) -> Result {
        let device = self.device_of(context)?;
        let id = self.new_id();
        let range = HostRange { id, len, context, device, registered, managed, flags, freed: false, users: 0 };
        self.host_memory.insert(base, range);
        Ok(())
    }

    /// Whether so much more host memory may be pinned.
    fn admit_pinned(&self, len: u64) -> Result {
        let pinned: u64 = self.host_memory.iter().map(|(_, range)| range.len).sum();
        match self.plan.pinned_limit {
            Some(limit) if pinned.saturating_add(len) > limit => Err(Code::OUT_OF_MEMORY),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_managed(&self, base: u64) -> bool {
        self.host_memory.get(base).is_some_and(|range| range.managed)
    }

    /// Frees memory that `cuMemHostAlloc` or `cuMemAllocManaged` gave.
    pub(crate) fn free_host(&mut self, base: u64) -> Result {
        let range = self.host_memory.get_mut(base);
        match range {
            Some(range) if !range.registered && !range.freed => {}
            _ => return Err(Code::INVALID_VALUE),
        }
        self.end_host_range(base);
        Ok(())
    }

    /// Ends a range, or leaves that to the last operation that uses it. A DMA under way would have gone on into memory
    /// that may already belong to someone else.
    fn end_host_range(&mut self, base: u64) {
        let Some(range) = self.host_memory.get_mut(base) else {
            return;
        };
        range.freed = true;
        if range.users > 0 {
            self.violation("host memory was freed or unregistered under an operation that uses it");
        } else {
            self.drop_host_range(base);
        }
    }

    fn drop_host_range(&mut self, base: u64) {
        let Some(range) = self.host_memory.remove(base) else {
            return;
        };
        if range.registered {
            return;
        }
        // SAFETY: we mapped exactly this range, the program gave it back, and no operation uses it any more.
        if let Err(error) = unsafe { munmap(base as *mut c_void, range.len as usize) } {
            eprintln!("mock-cuda: pinned memory stays mapped: {error}");
        }
    }

    pub(crate) fn let_go_host(&mut self, base: u64, id: u64) {
        if let Some(range) = self.host_memory.get_mut(base)
            && range.id == id
        {
            range.users -= 1;
            if range.freed && range.users == 0 {
                self.drop_host_range(base);
            }
        }
    }

    pub(crate) fn free_host_memory_of(&mut self, context: Handle) {
        let owned: Vec<u64> =
            self.host_memory.iter().filter(|(_, range)| range.context == context).map(|(base, _)| base).collect();
        for base in owned {
            self.end_host_range(base);
        }
    }
}

/// Allocates pinned host memory.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(out: Out<u64>, len: usize, flags: u32) -> c_int {
    api("cuMemHostAlloc", |gpu| {
        gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        if flags & !ALLOCATE_FLAGS != 0 {
            return Err(Code::INVALID_VALUE);
        }
        out.set(gpu.allocate_host(len, flags, false)?)
    })
}

/// Allocates pinned host memory.
#[unsafe(no_mangle)]
extern "C" fn cuMemAllocHost_v2(out: Out<u64>, len: usize) -> c_int {
    api("cuMemAllocHost_v2", |gpu| {
        gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        out.set(gpu.allocate_host(len, 0, false)?)
    })
}

/// Frees pinned host memory. It does not wait: memory freed under a copy is reported as a violation.
#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(base: u64) -> c_int {
    api("cuMemFreeHost", |gpu| {
        gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        if gpu.is_managed(base) {
            return Err(Code::INVALID_VALUE);
        }
        gpu.free_host(base)
    })
}

/// Allocates memory that CPU and GPU reach at one address.
#[unsafe(no_mangle)]
extern "C" fn cuMemAllocManaged(out: Out<u64>, len: usize, flags: u32) -> c_int {
    const GLOBAL_OR_HOST: std::ops::RangeInclusive<u32> = 1..=2;
    api("cuMemAllocManaged", |gpu| {
        gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        if !GLOBAL_OR_HOST.contains(&flags) {
            return Err(Code::INVALID_VALUE);
        }
        out.set(gpu.allocate_host(len, 0, true)?)
    })
}

/// Pins memory of the program's own. Read-only memory needs the flag for it.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostRegister_v2(base: u64, len: usize, flags: u32) -> c_int {
    api("cuMemHostRegister_v2", |gpu| {
        let context = gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        let len = len as u64;
        if flags & !REGISTER_FLAGS != 0 || base == 0 || len == 0 || base.checked_add(len).is_none() {
            return Err(Code::INVALID_VALUE);
        }
        if flags & IO_MEMORY != 0 {
            return Err(Code::NOT_PERMITTED);
        }
        if gpu.host_memory.touches(base, len) {
            return Err(Code::HOST_MEMORY_ALREADY_REGISTERED);
        }
        let maps = fs::read_to_string("/proc/self/maps").map_err(|_| Code::OPERATING_SYSTEM)?;
        if !mapped(&maps, base, base + len, flags & READ_ONLY == 0) {
            return Err(Code::INVALID_VALUE);
        }
        gpu.admit_pinned(len)?;
        gpu.add_host_range(base, len, context, flags, true, false)
    })
}

/// Whether `/proc/self/maps` shows all of `[start, end)` as readable, and as writable if need be.
fn mapped(maps: &str, mut start: u64, end: u64, writable: bool) -> bool {
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (fields.next(), fields.next()) else {
            continue;
        };
        let Some((low, high)) = range.split_once('-') else {
            continue;
        };
        let (Ok(low), Ok(high)) = (u64::from_str_radix(low, 16), u64::from_str_radix(high, 16)) else {
            continue;
        };
        if low <= start && start < high {
            if !rights.starts_with('r') || writable && !rights.starts_with("rw") {
                return false;
            }
            start = high;
            if start >= end {
                return true;
            }
        }
    }
    false
}

/// Ends a registration. Like `cuMemFreeHost` it does not wait.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostUnregister(base: u64) -> c_int {
    api("cuMemHostUnregister", |gpu| {
        gpu.current()?;
        capture::refuse_unsafe(gpu)?;
        match gpu.host_memory.get(base) {
            Some(range) if range.registered && !range.freed => {}
            _ => return Err(Code::HOST_MEMORY_NOT_REGISTERED),
        }
        gpu.end_host_range(base);
        Ok(())
    })
}

/// The device pointer of pinned memory: its address.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetDevicePointer_v2(out: Out<u64>, at: u64, flags: u32) -> c_int {
    api("cuMemHostGetDevicePointer_v2", |gpu| {
        gpu.current()?;
        match gpu.host_memory.holding(at) {
            Some((_, range)) if flags == 0 && !range.freed => out.set(at),
            _ => Err(Code::INVALID_VALUE),
        }
    })
}

/// The flags that pinned memory was allocated with. All of it is mapped.
#[unsafe(no_mangle)]
extern "C" fn cuMemHostGetFlags(out: Out<u32>, at: u64) -> c_int {
    api("cuMemHostGetFlags", |gpu| {
        gpu.current()?;
        match gpu.host_memory.holding(at) {
            Some((_, range)) if !range.registered && !range.freed => out.set(range.flags | DEVICE_MAP),
            _ => Err(Code::INVALID_VALUE),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_tell_what_is_mapped() {
        let maps = "1000-3000 rw-p 0 0:0 0\n3000-4000 r--s 0 0:0 0 /x y\n6000-7000 ---p 0 0:0 0\n";
        assert!(mapped(maps, 0x1010, 0x3000, true));
        assert!(mapped(maps, 0x2000, 0x4000, false));
        assert!(!mapped(maps, 0x2000, 0x4000, true));
        assert!(!mapped(maps, 0x3800, 0x4001, false));
        assert!(!mapped(maps, 0x800, 0x1001, false));
        assert!(!mapped(maps, 0x6000, 0x6001, false));
    }
}

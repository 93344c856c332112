//! The kernels: what each name computes, on the CPU.
//!
//! To add one, write its body and add a row to [`KERNELS`]. A body gets its arguments as the launch passed them, and
//! reaches memory only through [`Memory`], which checks every range. What it returns as an error breaks the context, as
//! a fault of a real kernel does.

use std::ffi::{CStr, c_void};

use crate::{
    codes::{Code, Result},
    ffi::In,
    state::lock,
    table::Handle,
};

/// The type of a kernel's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    Pointer,
    U64,
    U32,
    U8,
}

impl Parameter {
    pub(crate) const fn width(self) -> usize {
        match self {
            Self::Pointer | Self::U64 => 8,
            Self::U32 => 4,
            Self::U8 => 1,
        }
    }

    /// Reads an argument that lies `offset` bytes into a buffer.
    pub(crate) fn read(self, buffer: &In<c_void>, offset: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        for (index, byte) in bytes.iter_mut().take(self.width()).enumerate() {
            *byte = buffer.cast::<u8>().at(offset + index)?;
        }
        Ok(u64::from_le_bytes(bytes))
    }
}

/// The arguments of a launch, widened to 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct Arguments(pub(crate) Vec<u64>);

/// A kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) name: &'static CStr,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) body: fn(&Memory, &Arguments) -> Result,
}

/// Memory as a kernel sees it: that of its device and of peers, and pinned host memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) context: Handle,
}

impl Memory {
    /// Where the CPU finds `len` bytes. A range outside of an allocation is an illegal address.
    fn at(&self, address: u64, len: u64) -> Result<*mut u8> {
        let gpu = lock();
        gpu.locate_for(self.context, address, len)
            .ok()
            .and_then(|_| gpu.alias(address, len))
            .ok_or(Code::ILLEGAL_ADDRESS)
    }

    fn load(&self, address: u64) -> Result<u64> {
        let at = self.at(address, 8)?;
        // SAFETY: eight bytes were checked; they stay mapped while the kernel's operation is on its way.
        Ok(unsafe { at.cast::<u64>().read_unaligned() })
    }

    fn store(&self, address: u64, value: u64) -> Result {
        let at = self.at(address, 8)?;
        // SAFETY: as in `load`.
        unsafe { at.cast::<u64>().write_unaligned(value) };
        Ok(())
    }

    fn copy(&self, target: u64, source: u64, len: u64) -> Result {
        if len == 0 {
            return Ok(());
        }
        let (target, source) = (self.at(target, len)?, self.at(source, len)?);
        // SAFETY: both ranges were checked, as in `load`.
        unsafe { target.copy_from(source, len as usize) };
        Ok(())
    }

    fn fill(&self, target: u64, value: u8, len: u64) -> Result {
        if len == 0 {
            return Ok(());
        }
        let target = self.at(target, len)?;
        // SAFETY: the range was checked, as in `load`.
        unsafe { target.write_bytes(value, len as usize) };
        Ok(())
    }

    /// Replaces each of `count` 32-bit numbers.
    fn map_u32(&self, target: u64, count: u64, map: impl Fn(u32) -> u32) -> Result {
        if count == 0 {
            return Ok(());
        }
        let len = count.checked_mul(4).ok_or(Code::ILLEGAL_ADDRESS)?;
        let numbers = self.at(target, len)?.cast::<u32>();
        for index in 0..count as usize {
            // SAFETY: all `count` numbers were checked, as in `load`.
            unsafe {
                let number = numbers.add(index);
                number.write_unaligned(map(number.read_unaligned()));
            }
        }
        Ok(())
    }
}

/// `warpio_scatter(u8* target, const u64 (*table)[3], const u8* source, u64 count)`: for each row `(from, to, len)` of the
/// table copies `len` bytes from `source + from` to `target + to`.
fn scatter(memory: &Memory, Arguments(arguments): &Arguments) -> Result {
    let [target, table, source, count] = arguments[..] else {
        return Err(Code::LAUNCH_FAILED);
    };
    for row in 0..count {
        let at = table.wrapping_add(row.wrapping_mul(24));
        let from = memory.load(at)?;
        let to = memory.load(at.wrapping_add(8))?;
        let len = memory.load(at.wrapping_add(16))?;
        memory.copy(target.wrapping_add(to), source.wrapping_add(from), len)?;
    }
    Ok(())
}

/// `warpio_fill_u8(u8* target, u8 value, u64 len)`: sets bytes.
fn fill_u8(memory: &Memory, Arguments(arguments): &Arguments) -> Result {
    let [target, value, len] = arguments[..] else {
        return Err(Code::LAUNCH_FAILED);
    };
    memory.fill(target, value as u8, len)
}

/// `warpio_add_u32(u32* target, u64 count, u32 addend)`: adds to each number, wrapping around.
fn add_u32(memory: &Memory, Arguments(arguments): &Arguments) -> Result {
    let [target, count, addend] = arguments[..] else {
        return Err(Code::LAUNCH_FAILED);
    };
    memory.map_u32(target, count, |number| number.wrapping_add(addend as u32))
}

/// `warpio_sum_u8(const u8* source, u64 len, u64* sum)`: adds bytes up.
fn sum_u8(memory: &Memory, Arguments(arguments): &Arguments) -> Result {
    let [source, len, sum] = arguments[..] else {
        return Err(Code::LAUNCH_FAILED);
    };
    let mut total = 0_u64;
    if len > 0 {
        let bytes = memory.at(source, len)?;
        for index in 0..len as usize {
            // SAFETY: all `len` bytes were checked, as in `Memory::load`.
            total += u64::from(unsafe { bytes.add(index).read() });
        }
    }
    memory.store(sum, total)
}

/// All kernels.
static KERNELS: &[Kernel] = {
    use Parameter::{Pointer, U8, U32, U64};
    &[
        Kernel { name: c"warpio_scatter", parameters: &[Pointer, Pointer, Pointer, U64], body: scatter },
        Kernel { name: c"warpio_fill_u8", parameters: &[Pointer, U8, U64], body: fill_u8 },
        Kernel { name: c"warpio_add_u32", parameters: &[Pointer, U64, U32], body: add_u32 },
        Kernel { name: c"warpio_sum_u8", parameters: &[Pointer, U64, Pointer], body: sum_u8 },
    ]
};

/// The kernel with a name.
pub(crate) fn named(name: &str) -> Option<&'static Kernel> {
    KERNELS.iter().find(|kernel| kernel.name.to_bytes() == name.as_bytes())
}

//! What the driver says about an address.

use std::ffi::{c_int, c_void};

use crate::{
    codes::{Code, Result},
    ffi::{In, Out},
    memory::MemoryRef,
    state::{State, api},
};

const HOST: c_int = 1;
const DEVICE: c_int = 2;
/// `CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ` and `READWRITE`.
const READ: c_int = 1;
const READ_WRITE: c_int = 3;
const SYNC_MEMOPS: c_int = 6;

/// The value of an attribute, in the width that the driver writes.
enum Value {
    Byte(u8),
    Word(c_int),
    Long(u64),
}

impl Value {
    fn store(self, out: &Out<c_void>) -> Result {
        match self {
            Self::Byte(value) => out.cast::<u8>().set(value),
            Self::Word(value) => out.cast::<c_int>().set(value),
            Self::Long(value) => out.cast::<u64>().set(value),
        }
    }

    /// The same width, with nothing in it.
    fn zero(attribute: c_int) -> Option<Self> {
        Some(match attribute {
            1 | 3 | 4 | 7 | 11 | 12 | 14 | 17..=20 => Self::Long(0),
            2 | 16 => Self::Word(0),
            9 => Self::Word(-2),
            5 => return None,
            6 | 8 | 10 | 13 | 15 | 21 => Self::Byte(0),
            _ => return None,
        })
    }
}

impl State {
    fn pointer_attribute(&self, attribute: c_int, at: u64) -> Result<Value> {
        match self.locate(at, 1)?.memory.ok_or(Code::INVALID_VALUE)? {
            MemoryRef::Device { base, .. } => self.device_attribute(attribute, at, base),
            MemoryRef::Host { base, .. } => self.host_attribute(attribute, at, base),
        }
    }

    fn device_attribute(&self, attribute: c_int, at: u64, base: u64) -> Result<Value> {
        let found = self.device_memory.get(base).ok_or(Code::INVALID_VALUE)?;
        Ok(match attribute {
            // Pooled memory belongs to no context.
            1 => Value::Long(if found.pool.is_some() { 0 } else { found.context }),
            2 => Value::Word(DEVICE),
            3 => Value::Long(at),
            SYNC_MEMOPS => Value::Byte(u8::from(found.sync_memops)),
            7 | 20 => Value::Long(found.id),
            8 | 10 | 15 | 21 => Value::Byte(0),
            9 => Value::Word(found.device as c_int),
            11 | 19 => Value::Long(base),
            12 | 18 => Value::Long(found.len),
            13 => Value::Byte(1),
            14 => Value::Long(0),
            16 => Value::Word(READ_WRITE),
            17 => Value::Long(found.pool.unwrap_or(0)),
            _ => return Err(Code::INVALID_VALUE),
        })
    }

    fn host_attribute(&self, attribute: c_int, at: u64, base: u64) -> Result<Value> {
        let found = self.host_memory.get(base).ok_or(Code::INVALID_VALUE)?;
        Ok(match attribute {
            1 => Value::Long(found.context),
            2 => Value::Word(if found.managed { DEVICE } else { HOST }),
            3 | 4 => Value::Long(at),
            SYNC_MEMOPS | 10 | 15 | 21 => Value::Byte(0),
            7 | 20 => Value::Long(found.id),
            8 => Value::Byte(u8::from(found.managed)),
            9 => Value::Word(found.device as c_int),
            11 | 19 => Value::Long(base),
            12 | 18 => Value::Long(found.len),
            13 => Value::Byte(1),
            14 | 17 => Value::Long(0),
            16 => Value::Word(if found.is_read_only() { READ } else { READ_WRITE }),
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}

/// A property of an address.
#[unsafe(no_mangle)]
extern "C" fn cuPointerGetAttribute(out: Out<c_void>, attribute: c_int, at: u64) -> c_int {
    api("cuPointerGetAttribute", |gpu| {
        gpu.current()?;
        gpu.pointer_attribute(attribute, at)?.store(&out)
    })
}

/// Several properties of an address. Those that it does not have are zero, and so are all of an unknown address.
#[unsafe(no_mangle)]
extern "C" fn cuPointerGetAttributes(count: u32, attributes: In<c_int>, outs: In<*mut c_void>, at: u64) -> c_int {
    api("cuPointerGetAttributes", |gpu| {
        gpu.current()?;
        for index in 0..count as usize {
            let attribute = attributes.at(index)?;
            let none = Value::zero(attribute).ok_or(Code::INVALID_VALUE)?;
            let value = gpu.pointer_attribute(attribute, at).unwrap_or(none);
            value.store(&Out::from(outs.at(index)?))?;
        }
        Ok(())
    })
}

/// Sets a property of an address; there is one that can be set, and it only is remembered.
#[unsafe(no_mangle)]
extern "C" fn cuPointerSetAttribute(value: In<c_int>, attribute: c_int, at: u64) -> c_int {
    api("cuPointerSetAttribute", |gpu| {
        gpu.current()?;
        let value = value.get()?;
        match gpu.locate(at, 1)?.memory {
            Some(MemoryRef::Device { base, .. }) if attribute == SYNC_MEMOPS => {
                gpu.allocation(base)?.sync_memops = value != 0;
                Ok(())
            }
            _ => Err(Code::INVALID_VALUE),
        }
    })
}

/// The allocation that an address lies in.
#[unsafe(no_mangle)]
extern "C" fn cuMemGetAddressRange_v2(base: Out<u64>, len: Out<usize>, at: u64) -> c_int {
    api("cuMemGetAddressRange_v2", |gpu| {
        gpu.current()?;
        let (start, size) = match gpu.locate(at, 1) {
            Ok(address) => match address.memory {
                Some(MemoryRef::Device { base, .. }) => (base, gpu.device_memory.get(base).map(|found| found.len)),
                Some(MemoryRef::Host { base, .. }) => (base, gpu.host_memory.get(base).map(|found| found.len)),
                None => return Err(Code::NOT_FOUND),
            },
            Err(_) => return Err(Code::NOT_FOUND),
        };
        base.set_if_wanted(start);
        len.set_if_wanted(size.unwrap_or(0) as usize);
        Ok(())
    })
}

//! Modules and the functions in them. A kernel's code is never read: its name picks a body that runs on the CPU.

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    fs,
};

use crate::{
    codes::{Code, Result},
    ffi::{In, Out, Text},
    kernels::{self, Kernel},
    state::{Gpu, State, api},
    table::Handle,
};

/// How images of machine code begin: an ELF file, a fat binary.
const BINARIES: [[u8; 4]; 2] = [*b"\x7fELF", [0x50, 0xed, 0x55, 0xba]];

/// A loaded module.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) context: Handle,
    /// The entries that the PTX text names; machine code is taken to have them all.
    entries: Option<Vec<String>>,
}

/// A function found in a module.
#[derive(Debug)]
pub(crate) struct Function {
    module: Handle,
    pub(crate) context: Handle,
    pub(crate) kernel: &'static Kernel,
}

impl Module {
    /// Reads as much of an image as names its entries.
    fn read(context: Handle, image: &[u8]) -> Result<Self> {
        if BINARIES.iter().any(|magic| image.starts_with(magic)) {
            return Ok(Self { context, entries: None });
        }
        let text = str::from_utf8(image).map_err(|_| Code::INVALID_IMAGE)?;
        if !text.contains(".version") || !text.contains(".target") {
            return Err(Code::INVALID_IMAGE);
        }
        Ok(Self { context, entries: Some(entries(text)) })
    }

    fn has(&self, name: &str) -> bool {
        match &self.entries {
            None => true,
            Some(entries) => entries.iter().any(|entry| entry == name),
        }
    }
}

/// The names behind `.entry` in a PTX text.
fn entries(ptx: &str) -> Vec<String> {
    ptx.split(".entry")
        .skip(1)
        .map(|rest| {
            let rest = rest.trim_start();
            let end = rest.find(|character: char| character == '(' || character.is_whitespace());
            rest[..end.unwrap_or(rest.len())].to_owned()
        })
        .collect()
}

fn load(gpu: &mut Gpu, out: &Out<Handle>, image: &[u8]) -> Result {
    let context = gpu.current()?;
    let module = Module::read(context, image)?;
    out.set(gpu.modules.insert(module))
}

/// An image in memory: machine code, of which the head is enough, or a text that ends with NUL.
fn image(at: &In<u8>) -> Result<&'static [u8]> {
    let mut head = [0; 4];
    for (index, byte) in head.iter_mut().enumerate() {
        *byte = at.at(index)?;
        if *byte == 0 {
            return Err(Code::INVALID_IMAGE);
        }
    }
    if let Some(magic) = BINARIES.iter().find(|magic| head == **magic) {
        return Ok(magic);
    }
    // SAFETY: an image that is no machine code is a NUL-terminated text, by the driver's contract, and the caller keeps
    // it until the call returns.
    Ok(unsafe { CStr::from_ptr(at.as_ptr().cast::<c_char>()) }.to_bytes())
}

fn load_data(gpu: &mut Gpu, out: &Out<Handle>, at: &In<c_void>) -> Result {
    load(gpu, out, image(&at.cast())?)
}

/// Loads a module from a file.
#[unsafe(no_mangle)]
extern "C" fn cuModuleLoad(out: Out<Handle>, path: Text) -> c_int {
    api("cuModuleLoad", |gpu| {
        let image = fs::read(path.get()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        load(gpu, &out, &image)
    })
}

/// Loads a module from memory.
#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadData(out: Out<Handle>, at: In<c_void>) -> c_int {
    api("cuModuleLoadData", |gpu| load_data(gpu, &out, &at))
}

/// Loads a module from memory. The options are ignored.
#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadDataEx(
    out: Out<Handle>,
    at: In<c_void>,
    _count: u32,
    _options: In<c_int>,
    _values: In<*mut c_void>,
) -> c_int {
    api("cuModuleLoadDataEx", |gpu| load_data(gpu, &out, &at))
}

/// Loads a module from a fat binary in memory.
#[unsafe(no_mangle)]
extern "C" fn cuModuleLoadFatBinary(out: Out<Handle>, at: In<c_void>) -> c_int {
    api("cuModuleLoadFatBinary", |gpu| load_data(gpu, &out, &at))
}

/// Unloads a module. Kernels that were launched still run.
#[unsafe(no_mangle)]
extern "C" fn cuModuleUnload(module: Handle) -> c_int {
    api("cuModuleUnload", |gpu| {
        gpu.current()?;
        gpu.modules.remove(module)?;
        gpu.functions.retain(|_, function| function.module != module);
        Ok(())
    })
}

/// The function with a name.
#[unsafe(no_mangle)]
extern "C" fn cuModuleGetFunction(out: Out<Handle>, handle: Handle, name: Text) -> c_int {
    api("cuModuleGetFunction", |gpu| {
        gpu.current()?;
        let name = name.get()?;
        let module = gpu.modules.get(handle)?;
        let context = module.context;
        let kernel = kernels::named(&name).filter(|_| module.has(&name));
        let function = Function { module: handle, context, kernel: kernel.ok_or(Code::NOT_FOUND)? };
        out.set(gpu.functions.insert(function))
    })
}

/// The variable with a name: modules have none here.
#[unsafe(no_mangle)]
extern "C" fn cuModuleGetGlobal_v2(_out: Out<u64>, _len: Out<usize>, module: Handle, name: Text) -> c_int {
    api("cuModuleGetGlobal_v2", |gpu| {
        gpu.current()?;
        gpu.modules.get(module)?;
        name.get()?;
        Err(Code::NOT_FOUND)
    })
}

impl State {
    pub(crate) fn function(&self, handle: Handle) -> Result<&Function> {
        self.functions.get(handle)
    }
}

/// A property of a function.
#[unsafe(no_mangle)]
extern "C" fn cuFuncGetAttribute(out: Out<c_int>, attribute: c_int, function: Handle) -> c_int {
    api("cuFuncGetAttribute", |gpu| {
        gpu.current()?;
        gpu.function(function)?;
        match attribute {
            0 => out.set(1024),
            4 => out.set(32),
            5 | 6 => out.set(90),
            8 => out.set(49_152),
            1..16 => out.set(0),
            _ => Err(Code::INVALID_VALUE),
        }
    })
}

/// Sets a property of a function, which changes nothing.
#[unsafe(no_mangle)]
extern "C" fn cuFuncSetAttribute(function: Handle, attribute: c_int, _value: c_int) -> c_int {
    api("cuFuncSetAttribute", |gpu| {
        gpu.current()?;
        gpu.function(function)?;
        if (8..16).contains(&attribute) { Ok(()) } else { Err(Code::INVALID_VALUE) }
    })
}

/// Sets the cache configuration of a function, which changes nothing.
#[unsafe(no_mangle)]
extern "C" fn cuFuncSetCacheConfig(function: Handle, _config: c_int) -> c_int {
    api("cuFuncSetCacheConfig", |gpu| {
        gpu.current()?;
        gpu.function(function).map(drop)
    })
}

/// The module of a function.
#[unsafe(no_mangle)]
extern "C" fn cuFuncGetModule(out: Out<Handle>, function: Handle) -> c_int {
    api("cuFuncGetModule", |gpu| out.set(gpu.function(function)?.module))
}

/// The name of a function.
#[unsafe(no_mangle)]
extern "C" fn cuFuncGetName(out: Out<*const c_char>, function: Handle) -> c_int {
    api("cuFuncGetName", |gpu| out.set(gpu.function(function)?.kernel.name.as_ptr()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_its_entries() {
        let ptx = b".version 8.0\n.target sm_90\n.visible .entry one(.param .u64 a) { ret; }\n.entry two\n(\n)";
        let module = Module::read(1, ptx).unwrap();
        assert!(module.has("one") && module.has("two"));
        assert!(!module.has("three"));
    }

    #[test]
    fn machine_code_has_what_is_asked_for() {
        assert!(Module::read(1, b"\x7fELF..").unwrap().has("any"));
    }

    #[test]
    fn other_bytes_are_no_module() {
        assert_eq!(Module::read(1, b"hello").unwrap_err(), Code::INVALID_IMAGE);
        assert_eq!(Module::read(1, b"\xff\xff\xff\xff").unwrap_err(), Code::INVALID_IMAGE);
    }
}

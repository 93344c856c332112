//! Settings of a context. They are kept, and change nothing.

use std::ffi::c_int;

use crate::{codes::Code, context::FLAGS_MASK, ffi::Out, state::api};

/// The flags of the current context.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetFlags(out: Out<u32>) -> c_int {
    api("cuCtxGetFlags", |gpu| {
        let context = gpu.current()?;
        out.set(gpu.contexts.get(context)?.flags)
    })
}

/// Sets the flags of the current context.
#[unsafe(no_mangle)]
extern "C" fn cuCtxSetFlags(flags: u32) -> c_int {
    api("cuCtxSetFlags", |gpu| {
        if flags & !FLAGS_MASK != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let context = gpu.current()?;
        gpu.contexts.get_mut(context)?.flags = flags;
        Ok(())
    })
}

/// A limit of the current context. The limits are kept and change nothing.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetLimit(out: Out<usize>, limit: u32) -> c_int {
    api("cuCtxGetLimit", |gpu| {
        let context = gpu.current()?;
        let limits = &gpu.contexts.get(context)?.limits;
        let value = limits.get(limit as usize).ok_or(Code::INVALID_VALUE)?;
        out.set(*value)
    })
}

/// Sets a limit of the current context.
#[unsafe(no_mangle)]
extern "C" fn cuCtxSetLimit(limit: u32, value: usize) -> c_int {
    api("cuCtxSetLimit", |gpu| {
        let context = gpu.current()?;
        let limits = &mut gpu.contexts.get_mut(context)?.limits;
        *limits.get_mut(limit as usize).ok_or(Code::INVALID_VALUE)? = value;
        Ok(())
    })
}

/// The preferred cache configuration.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCacheConfig(out: Out<c_int>) -> c_int {
    api("cuCtxGetCacheConfig", |gpu| {
        let context = gpu.current()?;
        out.set(gpu.contexts.get(context)?.cache)
    })
}

/// Sets the preferred cache configuration.
#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCacheConfig(config: c_int) -> c_int {
    api("cuCtxSetCacheConfig", |gpu| {
        let context = gpu.current()?;
        gpu.contexts.get_mut(context)?.cache = config;
        Ok(())
    })
}

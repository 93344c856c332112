//! The primary context of each device, shared by all who retain it.

use std::ffi::c_int;

use crate::{
    codes::Code,
    context::{FLAGS_MASK, clear},
    ffi::Out,
    state::api,
    stream,
    table::Handle,
};

/// Retains the primary context of a device.
#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRetain(out: Out<Handle>, device: c_int) -> c_int {
    api("cuDevicePrimaryCtxRetain", |gpu| {
        let device = gpu.device_index(device)?;
        let handle = gpu.devices[device].primary;
        let context = gpu.contexts.get_mut(handle)?;
        context.references += 1;
        if !context.alive {
            context.alive = true;
            gpu.break_new_context(device, handle);
        }
        out.set(handle)
    })
}

/// Releases the primary context of a device, and destroys it with the last reference.
#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int {
    api("cuDevicePrimaryCtxRelease_v2", |gpu| {
        let device = gpu.device_index(device)?;
        let handle = gpu.devices[device].primary;
        if gpu.live_context(handle)?.references == 1 {
            // Others call the driver meanwhile, and may retain it.
            stream::drain(gpu, handle);
        }
        let context = gpu.live_context(handle)?;
        if context.references > 1 {
            context.references -= 1;
            return Ok(());
        }
        clear(gpu, handle);
        let context = gpu.contexts.get_mut(handle)?;
        context.references = 0;
        context.alive = false;
        Ok(())
    })
}

/// Destroys all that belongs to a device's primary context. The references stay, and so does the handle.
#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxReset_v2(device: c_int) -> c_int {
    api("cuDevicePrimaryCtxReset_v2", |gpu| {
        let device = gpu.device_index(device)?;
        let handle = gpu.devices[device].primary;
        clear(gpu, handle);
        Ok(())
    })
}

/// Whether a device's primary context is active, and its flags.
#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxGetState(device: c_int, flags: Out<u32>, active: Out<c_int>) -> c_int {
    api("cuDevicePrimaryCtxGetState", |gpu| {
        let device = gpu.device_index(device)?;
        let context = gpu.contexts.get(gpu.devices[device].primary)?;
        flags.set(context.flags)?;
        active.set(c_int::from(context.alive))
    })
}

/// Sets the flags of a device's primary context.
#[unsafe(no_mangle)]
extern "C" fn cuDevicePrimaryCtxSetFlags_v2(device: c_int, flags: u32) -> c_int {
    api("cuDevicePrimaryCtxSetFlags_v2", |gpu| {
        if flags & !FLAGS_MASK != 0 {
            return Err(Code::INVALID_VALUE);
        }
        let device = gpu.device_index(device)?;
        let handle = gpu.devices[device].primary;
        gpu.contexts.get_mut(handle)?.flags = flags;
        Ok(())
    })
}

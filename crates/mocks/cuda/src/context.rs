//! Contexts: primary and made ones, the stack of each thread, sticky errors.

use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    ffi::{c_int, c_void},
    thread::ThreadId,
};

use crate::{
    capture,
    codes::{Code, Result},
    ffi::Out,
    state::{Gpu, PROGRESS, State, api},
    stream,
    table::Handle,
};

/// The flags that a context may have.
pub(crate) const FLAGS_MASK: u32 = 0x1f;
/// `CU_LIMIT_MAX`.
const LIMITS: usize = 10;

/// One context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: usize,
    pub(crate) primary: bool,
    /// Whether it can be used: a primary context can while it is retained.
    pub(crate) alive: bool,
    pub(crate) references: u32,
    pub(crate) flags: u32,
    /// The error that broke it, and that every further call returns.
    pub(crate) broken: Option<Code>,
    /// The error that breaks it as soon as no stream of it touches memory.
    breaking: Option<Code>,
    /// How many of its streams touch memory now, outside the lock.
    running: usize,
    pub(crate) legacy_stream: Option<Handle>,
    pub(crate) thread_streams: HashMap<ThreadId, Handle>,
    /// Contexts whose memory work in this one may use.
    pub(crate) peers: BTreeSet<Handle>,
    pub(crate) limits: [usize; LIMITS],
    pub(crate) cache: c_int,
}

impl Context {
    pub(crate) fn new(device: usize, primary: bool, flags: u32) -> Self {
        let mut limits = [0; LIMITS];
        limits[..3].copy_from_slice(&[1024, 1 << 20, 8 << 20]);
        Self {
            device,
            primary,
            alive: !primary,
            references: 0,
            flags,
            broken: None,
            breaking: None,
            running: 0,
            legacy_stream: None,
            thread_streams: HashMap::new(),
            peers: BTreeSet::new(),
            limits,
            cache: 0,
        }
    }

    pub(crate) fn is_breaking(&self) -> bool {
        self.breaking.is_some()
    }

    pub(crate) fn heal(&mut self) {
        (self.broken, self.breaking) = (None, None);
    }
}

thread_local! {
    static STACK: RefCell<Vec<Handle>> = const { RefCell::new(Vec::new()) };
}

/// The context on top of this thread's stack, whatever its state.
pub(crate) fn top() -> Option<Handle> {
    STACK.with_borrow(|stack| stack.last().copied())
}

fn push(context: Handle) {
    STACK.with_borrow_mut(|stack| stack.push(context));
}

impl State {
    /// The current context, if it works.
    pub(crate) fn current(&self) -> Result<Handle> {
        let handle = top().ok_or(Code::INVALID_CONTEXT)?;
        self.check_context(handle)?;
        Ok(handle)
    }

    /// Fails if a context is gone or broken.
    pub(crate) fn check_context(&self, handle: Handle) -> Result {
        match self.contexts.get(handle) {
            Ok(context) if context.alive => context.broken.map_or(Ok(()), Err),
            _ => Err(Code::CONTEXT_IS_DESTROYED),
        }
    }

    /// The device of a context.
    pub(crate) fn device_of(&self, context: Handle) -> Result<usize> {
        Ok(self.contexts.get(context)?.device)
    }

    /// A context handle that a caller passed: one that exists and can be used.
    pub(crate) fn live_context(&mut self, handle: Handle) -> Result<&mut Context> {
        match self.contexts.get_mut(handle) {
            Ok(context) if context.alive => Ok(context),
            _ => Err(Code::INVALID_CONTEXT),
        }
    }

    /// Breaks a context: no more work is begun, and all calls return `code` as soon as what touches memory has ended.
    /// Whoever sees the error may free what the work used, so nothing of it runs any more.
    pub(crate) fn break_context(&mut self, handle: Handle, code: Code) {
        if let Ok(context) = self.contexts.get_mut(handle)
            && context.broken.is_none()
        {
            context.breaking.get_or_insert(code);
            if context.running == 0 {
                context.broken = context.breaking.take();
                PROGRESS.notify_all();
                self.wake_streams();
            }
        }
    }

    /// Notes that one more stream of a context touches memory, or one fewer.
    pub(crate) fn change_running(&mut self, handle: Handle, change: isize) {
        if let Ok(context) = self.contexts.get_mut(handle) {
            context.running = context.running.saturating_add_signed(change);
            if let Some(code) = context.breaking {
                self.break_context(handle, code);
            }
        }
    }

    /// Whether a context is about to break.
    pub(crate) fn is_breaking(&self, handle: Handle) -> bool {
        self.contexts.get(handle).is_ok_and(Context::is_breaking)
    }

    /// Breaks every live context of a device. Whether there was one.
    pub(crate) fn break_device(&mut self, device: usize, code: Code) -> bool {
        let broken: Vec<Handle> = self
            .contexts
            .iter()
            .filter(|(_, context)| context.alive && context.device == device)
            .map(|(handle, _)| handle)
            .collect();
        for context in &broken {
            self.break_context(*context, code);
        }
        !broken.is_empty()
    }
}

/// Waits for the work of a context and frees all that belongs to it.
pub(crate) fn clear(gpu: &mut Gpu, handle: Handle) {
    stream::drain(gpu, handle);
    let gone: Vec<Handle> =
        gpu.streams.iter().filter(|(_, stream)| stream.context == handle).map(|(stream, _)| stream).collect();
    for stream in gone {
        capture::abandon(gpu, stream);
        gpu.retire_stream(stream);
    }
    gpu.events.retain(|_, event| event.context != handle);
    gpu.modules.retain(|_, module| module.context != handle);
    gpu.functions.retain(|_, function| function.context != handle);
    gpu.free_memory_of(handle);
    if let Ok(context) = gpu.contexts.get_mut(handle) {
        context.legacy_stream = None;
        context.thread_streams.clear();
        context.heal();
    }
}

fn create(gpu: &mut Gpu, out: &Out<Handle>, flags: u32, device: c_int) -> Result {
    if flags & !FLAGS_MASK != 0 {
        return Err(Code::INVALID_VALUE);
    }
    let device = gpu.device_index(device)?;
    let handle = gpu.contexts.insert(Context::new(device, false, flags));
    gpu.break_new_context(device, handle);
    push(handle);
    out.set(handle)
}

impl State {
    /// Breaks a new context at once if a sticky error was planned for its device.
    pub(crate) fn break_new_context(&mut self, device: usize, handle: Handle) {
        let due = |rule: &crate::plan::Sticky| rule.device == device && rule.after == 0;
        if let Some(index) = self.plan.sticky.iter().position(due) {
            let code = Code(self.plan.sticky.remove(index).code);
            self.break_context(handle, code);
        }
    }
}

/// Makes a context and makes it current.
#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v2(out: Out<Handle>, flags: u32, device: c_int) -> c_int {
    api("cuCtxCreate_v2", |gpu| create(gpu, &out, flags, device))
}

/// Makes a context and makes it current; the execution affinity is ignored.
#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v3(
    out: Out<Handle>,
    _affinity: *const c_void,
    _count: c_int,
    flags: u32,
    device: c_int,
) -> c_int {
    api("cuCtxCreate_v3", |gpu| create(gpu, &out, flags, device))
}

/// Makes a context and makes it current; the parameters are ignored.
#[unsafe(no_mangle)]
extern "C" fn cuCtxCreate_v4(out: Out<Handle>, _parameters: *const c_void, flags: u32, device: c_int) -> c_int {
    api("cuCtxCreate_v4", |gpu| create(gpu, &out, flags, device))
}

/// Destroys a context that `cuCtxCreate` made, with all that belongs to it.
#[unsafe(no_mangle)]
extern "C" fn cuCtxDestroy_v2(handle: Handle) -> c_int {
    api("cuCtxDestroy_v2", |gpu| {
        if gpu.live_context(handle)?.primary {
            return Err(Code::INVALID_CONTEXT);
        }
        clear(gpu, handle);
        STACK.with_borrow_mut(|stack| {
            if stack.last() == Some(&handle) {
                stack.pop();
            }
        });
        gpu.contexts.remove(handle).map(drop)
    })
}

/// The current context of the calling thread, or null.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetCurrent(out: Out<Handle>) -> c_int {
    api("cuCtxGetCurrent", |_| out.set(top().unwrap_or(0)))
}

/// Replaces the current context; null only removes it.
#[unsafe(no_mangle)]
extern "C" fn cuCtxSetCurrent(handle: Handle) -> c_int {
    api("cuCtxSetCurrent", |gpu| {
        if handle != 0 {
            gpu.live_context(handle)?;
        }
        STACK.with_borrow_mut(|stack| {
            stack.pop();
            if handle != 0 {
                stack.push(handle);
            }
        });
        Ok(())
    })
}

/// Puts a context on the calling thread's stack.
#[unsafe(no_mangle)]
extern "C" fn cuCtxPushCurrent_v2(handle: Handle) -> c_int {
    api("cuCtxPushCurrent_v2", |gpu| {
        gpu.live_context(handle)?;
        push(handle);
        Ok(())
    })
}

/// Takes the top context off the calling thread's stack.
#[unsafe(no_mangle)]
extern "C" fn cuCtxPopCurrent_v2(out: Out<Handle>) -> c_int {
    api("cuCtxPopCurrent_v2", |_| {
        let popped = STACK.with_borrow_mut(Vec::pop);
        let handle = popped.ok_or(Code::INVALID_CONTEXT)?;
        out.set_if_wanted(handle);
        Ok(())
    })
}

/// Waits for all work of the current context.
#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize() -> c_int {
    api("cuCtxSynchronize", |gpu| {
        let context = gpu.current()?;
        capture::refuse_context_wait(gpu, context)?;
        stream::synchronize_context(gpu, context)
    })
}

/// Waits for all work of a context.
#[unsafe(no_mangle)]
extern "C" fn cuCtxSynchronize_v2(context: Handle) -> c_int {
    api("cuCtxSynchronize_v2", |gpu| {
        gpu.check_context(context)?;
        capture::refuse_context_wait(gpu, context)?;
        stream::synchronize_context(gpu, context)
    })
}

/// The device of the current context.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice(out: Out<c_int>) -> c_int {
    api("cuCtxGetDevice", |gpu| {
        let context = gpu.current()?;
        out.set(gpu.device_of(context)? as c_int)
    })
}

/// The device of a context.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetDevice_v2(out: Out<c_int>, context: Handle) -> c_int {
    api("cuCtxGetDevice_v2", |gpu| out.set(gpu.live_context(context)?.device as c_int))
}

/// The API version of a context.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetApiVersion(context: Handle, out: Out<u32>) -> c_int {
    api("cuCtxGetApiVersion", |gpu| {
        let context = if context == 0 { gpu.current()? } else { context };
        gpu.live_context(context)?;
        out.set(3020)
    })
}

/// A number that only this context carries in this process.
#[unsafe(no_mangle)]
extern "C" fn cuCtxGetId(context: Handle, out: Out<u64>) -> c_int {
    api("cuCtxGetId", |gpu| {
        let context = if context == 0 { gpu.current()? } else { context };
        gpu.live_context(context)?;
        out.set(context & 0xffff_ffff)
    })
}

/// Lets work in the current context use the memory of another device's context.
#[unsafe(no_mangle)]
extern "C" fn cuCtxEnablePeerAccess(peer: Handle, flags: u32) -> c_int {
    api("cuCtxEnablePeerAccess", |gpu| {
        let context = gpu.current()?;
        let peer_device = gpu.live_context(peer)?.device;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        if gpu.device_of(context)? == peer_device {
            return Err(Code::INVALID_DEVICE);
        }
        if gpu.contexts.get_mut(context)?.peers.insert(peer) { Ok(()) } else { Err(Code::PEER_ACCESS_ALREADY_ENABLED) }
    })
}

/// Takes back what `cuCtxEnablePeerAccess` gave.
#[unsafe(no_mangle)]
extern "C" fn cuCtxDisablePeerAccess(peer: Handle) -> c_int {
    api("cuCtxDisablePeerAccess", |gpu| {
        let context = gpu.current()?;
        if gpu.contexts.get_mut(context)?.peers.remove(&peer) { Ok(()) } else { Err(Code::PEER_ACCESS_NOT_ENABLED) }
    })
}

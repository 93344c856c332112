//! Launching kernels.

use std::ffi::{c_int, c_void};

use crate::{
    codes::{Code, Result},
    ffi::In,
    kernels::{Arguments, Kernel, Memory, Parameter},
    memory::Address,
    queue::Op,
    state::{Gpu, State, api},
    table::Handle,
};

const MAX_BLOCK_THREADS: u64 = 1024;
const MAX_SHARED: u32 = 232_448;

/// A launched kernel.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    kernel: &'static Kernel,
    arguments: Arguments,
    context: Handle,
    /// The memory that its pointers name.
    pub(crate) uses: Vec<Address>,
}

/// A kernel about to run.
#[derive(Debug)]
pub(crate) struct RawLaunch {
    kernel: &'static Kernel,
    arguments: Arguments,
    memory: Memory,
}

impl Launch {
    pub(crate) fn resolve(&self, state: &mut State, stream: Handle) -> Result<RawLaunch> {
        for address in &self.uses {
            state.resolve(*address, stream)?;
        }
        Ok(RawLaunch {
            kernel: self.kernel,
            arguments: self.arguments.clone(),
            memory: Memory { context: self.context },
        })
    }
}

impl RawLaunch {
    pub(crate) fn run(&self) -> Result {
        (self.kernel.body)(&self.memory, &self.arguments)
    }
}

/// The shape of a launch.
#[derive(Clone, Copy)]
struct Shape {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
}

impl Shape {
    fn check(&self) -> Result {
        let threads = self.block.iter().map(|size| u64::from(*size)).product::<u64>();
        if self.grid.contains(&0) || threads == 0 || threads > MAX_BLOCK_THREADS || self.shared > MAX_SHARED {
            return Err(Code::INVALID_VALUE);
        }
        Ok(())
    }
}

/// Takes the arguments at the call, as the driver does.
fn take_arguments(kernel: &Kernel, values: &In<In<c_void>>, extra: &In<*const c_void>) -> Result<Arguments> {
    if extra.is_null() {
        let mut taken = Vec::with_capacity(kernel.parameters.len());
        for (index, parameter) in kernel.parameters.iter().enumerate() {
            taken.push(parameter.read(&In::from(values.pointer(index)?), 0)?);
        }
        return Ok(Arguments(taken));
    }
    packed_arguments(kernel, extra)
}

/// Arguments packed into one buffer: `extra` is `1, buffer, 2, &len, 0`.
fn packed_arguments(kernel: &Kernel, extra: &In<*const c_void>) -> Result<Arguments> {
    const BUFFER: usize = 1;
    if extra.at(0)?.addr() != BUFFER {
        return Err(Code::INVALID_VALUE);
    }
    let buffer = In::from(extra.at(1)?);
    let mut offset = 0_usize;
    let mut taken = Vec::with_capacity(kernel.parameters.len());
    for parameter in kernel.parameters {
        offset = offset.next_multiple_of(parameter.width());
        taken.push(parameter.read(&buffer, offset)?);
        offset += parameter.width();
    }
    Ok(Arguments(taken))
}

fn launch(
    gpu: &mut Gpu,
    function: Handle,
    shape: Shape,
    stream: Handle,
    values: &In<In<c_void>>,
    extra: &In<*const c_void>,
) -> Result {
    let current = gpu.current()?;
    let stream = gpu.usable_stream(stream)?;
    let function = gpu.function(function)?;
    let kernel = function.kernel;
    let function_context = function.context;
    // Unlike a copy, a kernel must be launched where it lives.
    if gpu.streams.get(stream)?.context != current || function_context != current {
        return Err(Code::INVALID_HANDLE);
    }
    shape.check()?;
    let arguments = take_arguments(kernel, values, extra)?;
    let mut uses = Vec::new();
    for (parameter, value) in kernel.parameters.iter().zip(&arguments.0) {
        // A bad pointer is for the kernel to trip over, as on a GPU.
        if *parameter == Parameter::Pointer
            && let Ok(address) = gpu.locate_for(current, *value, 1)
        {
            uses.push(address);
        }
    }
    let launch = Launch { kernel, arguments, context: current, uses };
    gpu.submit(stream, Op::Kernel(launch))?;
    Ok(())
}

/// Launches a kernel. Its body runs once, on one CPU thread: the grid is checked and otherwise ignored.
#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: Handle,
    values: In<In<c_void>>,
    extra: In<*const c_void>,
) -> c_int {
    api("cuLaunchKernel", |gpu| {
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
        launch(gpu, function, shape, stream, &values, &extra)
    })
}

/// Launches a kernel whose blocks may wait for each other.
#[unsafe(no_mangle)]
extern "C" fn cuLaunchCooperativeKernel(
    function: Handle,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: Handle,
    values: In<In<c_void>>,
) -> c_int {
    api("cuLaunchCooperativeKernel", |gpu| {
        let shape = Shape { grid: [grid_x, grid_y, grid_z], block: [block_x, block_y, block_z], shared };
        let none = In::from(std::ptr::null());
        launch(gpu, function, shape, stream, &values, &none)
    })
}

/// The head of `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Config {
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: Handle,
}

/// Launches a kernel. The attributes are ignored.
#[unsafe(no_mangle)]
extern "C" fn cuLaunchKernelEx(
    config: In<Config>,
    function: Handle,
    values: In<In<c_void>>,
    extra: In<*const c_void>,
) -> c_int {
    api("cuLaunchKernelEx", |gpu| {
        let config = config.get()?;
        let shape = Shape { grid: config.grid, block: config.block, shared: config.shared };
        launch(gpu, function, shape, config.stream, &values, &extra)
    })
}

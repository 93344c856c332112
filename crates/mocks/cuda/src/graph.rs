//! Graphs, as far as capture makes them: a list of operations to run again.

use std::{ffi::c_int, sync::Arc};

use crate::{
    codes::Code,
    ffi::Out,
    queue::Op,
    state::{Gpu, api},
    table::Handle,
};

/// What a capture recorded, in an order that keeps all its dependencies.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    ops: Arc<[Op]>,
}

impl Graph {
    pub(crate) fn new(ops: Vec<Op>) -> Self {
        Self { ops: ops.into() }
    }
}

/// Makes a graph ready to be launched.
#[unsafe(no_mangle)]
extern "C" fn cuGraphInstantiateWithFlags(out: Out<Handle>, graph: Handle, _flags: u64) -> c_int {
    api("cuGraphInstantiateWithFlags", |gpu| {
        gpu.current()?;
        let graph = gpu.graphs.get(graph).map_err(|_| Code::INVALID_VALUE)?.clone();
        out.set(gpu.executables.insert(graph))
    })
}

fn ready(gpu: &mut Gpu, executable: Handle) -> crate::codes::Result<Arc<[Op]>> {
    let graph = gpu.executables.get(executable);
    Ok(Arc::clone(&graph.map_err(|_| Code::INVALID_VALUE)?.ops))
}

/// Runs a graph on a stream, one operation after the other.
#[unsafe(no_mangle)]
extern "C" fn cuGraphLaunch(executable: Handle, stream: Handle) -> c_int {
    api("cuGraphLaunch", |gpu| {
        let stream = gpu.usable_stream(stream)?;
        for op in ready(gpu, executable)?.iter() {
            gpu.submit(stream, op.clone())?;
        }
        Ok(())
    })
}

/// Sends a graph to the device ahead of its launch: nothing to do here.
#[unsafe(no_mangle)]
extern "C" fn cuGraphUpload(executable: Handle, stream: Handle) -> c_int {
    api("cuGraphUpload", |gpu| {
        gpu.usable_stream(stream)?;
        ready(gpu, executable).map(drop)
    })
}

/// Destroys a graph.
#[unsafe(no_mangle)]
extern "C" fn cuGraphDestroy(graph: Handle) -> c_int {
    api("cuGraphDestroy", |gpu| {
        let gone = gpu.graphs.remove(graph);
        gone.map(drop).map_err(|_| Code::INVALID_VALUE)
    })
}

/// Destroys what was made from a graph.
#[unsafe(no_mangle)]
extern "C" fn cuGraphExecDestroy(executable: Handle) -> c_int {
    api("cuGraphExecDestroy", |gpu| {
        let gone = gpu.executables.remove(executable);
        gone.map(drop).map_err(|_| Code::INVALID_VALUE)
    })
}

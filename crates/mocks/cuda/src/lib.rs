//! A software GPU: a `libcuda.so` for tests.
//!
//! It answers the CUDA driver API as the `cudarc` crate and warpio use it, with no GPU in the machine: one thread per
//! stream, real ordering of events and waits, device addresses that fault when the CPU touches them, and faults on
//! demand. `README.md` says what is modelled and what is not, and lists the control commands.
//!
//! Exported functions come in two kinds: `cu*`, the driver API, and `mock_cuda_*`, the controls that tests find by
//! `dlsym` (see the `control` module). Everything sits in one process-wide state behind one lock, held for bookkeeping
//! only: bytes are copied, kernels run and host functions are called outside it.
#![allow(non_snake_case, reason = "the driver API's names are its interface")]

mod alloc;
mod attributes;
mod batch;
mod capture;
mod codes;
mod command;
mod context;
mod control;
mod copy;
mod counters;
mod device;
mod event;
mod ffi;
mod fill;
mod graph;
mod host;
mod kernels;
mod launch;
mod memory;
mod misc;
mod module;
mod plan;
mod pointer;
mod pool;
mod primary;
mod queue;
mod settings;
mod space;
mod state;
mod stream;
mod table;
mod unsupported;
mod value;
mod worker;

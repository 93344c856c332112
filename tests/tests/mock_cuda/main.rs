//! What the software GPU promises, called as cudarc calls it.
//!
//! Tests that need no control over the GPU run on a real one as well (`WARPIO_TEST_CUDA=real`), and so show where the
//! mock differs from it.

mod capture;
mod contexts;
mod copies;
mod cudarc_api;
mod delays;
mod devices;
mod events;
mod faults;
mod gate;
mod host_memory;
mod kernels;
mod memory;
mod pools;
mod streams;
mod support;
mod values;

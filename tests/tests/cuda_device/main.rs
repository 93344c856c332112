//! CUDA devices, on the software GPU; with `WARPIO_TEST_CUDA=real` on the machine's own, as far as that can be told
//! to fail or has two devices.

mod capture;
mod contexts;
mod earlier;
mod events;
mod fences;
mod fork;
mod interop;
mod lost;
mod memory;
mod probe;
mod reactor;
mod staging;
mod streams;
mod support;
mod transfers;

//! CUDA devices for warpio.
//!
//! [`cuda_device`] makes a [`Device`](warpio_core::Device) of a GPU, with pinned staging memory, copy streams and a
//! reactor that turns the GPU's events into wakers. The driver is opened at run time and nothing links to it:
//! [`probe`](probe()) says whether it is there, and why not.
//!
//! [`CudaStream`] orders transfers with the caller's kernels, which are launched with [cudarc](cudarc::driver).

mod context;
mod cuda_stream;
mod device;
mod driver;
mod earlier;
mod event;
mod fill;
mod interop;
mod janitor;
mod memory;
mod pages;
mod pin;
mod probe;
mod reactor;
mod scatter;
mod staging;
mod stream;
mod sysfs;

pub use cuda_stream::{CudaStream, raw_stream};
pub use device::{CudaDeviceExt, CudaOptions, cuda_device, from_context};
pub use driver::CudaError;
pub use fill::{copy, memset};
pub use interop::{AsCuda, AsCudaMut, CudaSliceView, CudaSliceViewMut, FromCudarc, dlpack};
pub use janitor::wait_for_releases;
pub use memory::DeviceAllocator;
pub use probe::{Capabilities, DeviceInfo, DriverVersion, Unavailable, devices, probe};
pub use sysfs::PcieLink;

/// The CUDA bindings that this crate's types come from.
pub use cudarc;

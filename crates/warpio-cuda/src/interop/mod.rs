//! Memory from other libraries, and for them.

pub mod dlpack;
mod slices;

pub use slices::{AsCuda, AsCudaMut, CudaSliceView, CudaSliceViewMut, FromCudarc};

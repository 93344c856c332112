//! DLPack: memory for and from PyTorch, CuPy, NumPy, JAX and others, without a copy.
//!
//! A buffer leaves as a one-dimensional tensor of bytes, by [`export`] or [`export_mut`], and comes in from any
//! contiguous tensor, by [`import`].

mod abi;
mod export;
mod import;

pub use abi::{
    DataType, DeviceType, ManagedTensor, ManagedTensorVersioned, PackVersion, READ_ONLY, Tensor, TensorDevice,
};
pub use export::{Exported, export, export_mut};
pub use import::{import, import_versioned};

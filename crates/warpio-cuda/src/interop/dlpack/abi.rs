//! The structures of `dlpack.h`: version 0.8, and 1.0 with its version and flags.

use std::ffi::c_void;

/// Where a tensor lies; the numbers of `DLDeviceType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct DeviceType(pub i32);

impl DeviceType {
    /// Host memory.
    pub const CPU: Self = Self(1);
    /// The memory of a CUDA device.
    pub const CUDA: Self = Self(2);
    /// Host memory pinned for CUDA.
    pub const CUDA_HOST: Self = Self(3);
}

/// `DLDevice`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct TensorDevice {
    /// The kind of device.
    pub device_type: DeviceType,
    /// Its number; 0 for host memory.
    pub device_id: i32,
}

/// `DLDataType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DataType {
    /// 0 for signed integers, 1 for unsigned ones, 2 for floating point, and so on.
    pub code: u8,
    /// Bits of one lane.
    pub bits: u8,
    /// Lanes of one element.
    pub lanes: u16,
}

impl DataType {
    /// Bytes.
    pub const U8: Self = Self { code: 1, bits: 8, lanes: 1 };
}

/// `DLTensor`.
#[derive(Debug)]
#[repr(C)]
pub struct Tensor {
    /// Where the memory begins, on its device.
    pub data: *mut c_void,
    /// The device.
    pub device: TensorDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of an element.
    pub dtype: DataType,
    /// The length of each dimension, in elements.
    pub shape: *mut i64,
    /// The stride of each dimension, in elements; null for a compact tensor.
    pub strides: *mut i64,
    /// Where the first element begins, in bytes behind `data`.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: a tensor with its owner.
#[derive(Debug)]
#[repr(C)]
pub struct ManagedTensor {
    /// The tensor.
    pub dl_tensor: Tensor,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// Ends the use of the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLPackVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct PackVersion {
    /// Differs where the layout does.
    pub major: u32,
    /// Counts additions.
    pub minor: u32,
}

/// The flag of a tensor that must not be written.
pub const READ_ONLY: u64 = 1;

/// `DLManagedTensorVersioned`: a tensor with its owner, as of DLPack 1.0.
#[derive(Debug)]
#[repr(C)]
pub struct ManagedTensorVersioned {
    /// The version of these structures.
    pub version: PackVersion,
    /// The owner's.
    pub manager_ctx: *mut c_void,
    /// Ends the use of the tensor.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
    /// [`READ_ONLY`] and others.
    pub flags: u64,
    /// The tensor.
    pub dl_tensor: Tensor,
}

const _: () = {
    assert!(size_of::<Tensor>() == 48);
    assert!(size_of::<ManagedTensor>() == 64);
    assert!(size_of::<ManagedTensorVersioned>() == 80);
};

//! The properties of a device: those of a Hopper GPU, as far as the software GPU lives up to them.

use std::ffi::c_int;

use crate::device::{Device, PCI_DOMAIN};

/// The compute capability, major and minor.
pub(crate) const CAPABILITY: (c_int, c_int) = (9, 0);

/// The number after the last attribute of CUDA 13.0.
const END: c_int = 148;

/// The value of a `CUdevice_attribute`, or nothing where there is no such attribute.
pub(crate) fn value(device: &Device, attribute: c_int) -> Option<c_int> {
    Some(match attribute {
        1 => 1024,                          // MAX_THREADS_PER_BLOCK
        2 | 3 => 1024,                      // MAX_BLOCK_DIM_X, _Y
        4 => 64,                            // MAX_BLOCK_DIM_Z
        5 => c_int::MAX,                    // MAX_GRID_DIM_X
        6 | 7 => 65_535,                    // MAX_GRID_DIM_Y, _Z
        8 => 49_152,                        // MAX_SHARED_MEMORY_PER_BLOCK
        9 => 65_536,                        // TOTAL_CONSTANT_MEMORY
        10 => 32,                           // WARP_SIZE
        11 => c_int::MAX,                   // MAX_PITCH
        12 | 82 => 65_536,                  // MAX_REGISTERS_PER_BLOCK, _PER_MULTIPROCESSOR
        13 => 1_980_000,                    // CLOCK_RATE in kHz
        14 => 512,                          // TEXTURE_ALIGNMENT
        15 => 1,                            // GPU_OVERLAP
        16 => 132,                          // MULTIPROCESSOR_COUNT
        19 => 1,                            // CAN_MAP_HOST_MEMORY
        31 => 1,                            // CONCURRENT_KERNELS
        33 => device.physical as c_int + 1, // PCI_BUS_ID
        34 => 0,                            // PCI_DEVICE_ID
        36 => 3_201_000,                    // MEMORY_CLOCK_RATE in kHz
        37 => 6144,                         // GLOBAL_MEMORY_BUS_WIDTH
        38 => 60 << 20,                     // L2_CACHE_SIZE
        39 => 2048,                         // MAX_THREADS_PER_MULTIPROCESSOR
        40 => 3,                            // ASYNC_ENGINE_COUNT
        41 => 1,                            // UNIFIED_ADDRESSING
        50 => PCI_DOMAIN,                   // PCI_DOMAIN_ID
        75 => CAPABILITY.0,                 // COMPUTE_CAPABILITY_MAJOR
        76 => CAPABILITY.1,                 // COMPUTE_CAPABILITY_MINOR
        78 => 1,                            // STREAM_PRIORITIES_SUPPORTED
        79 | 80 => 1,                       // GLOBAL_, LOCAL_L1_CACHE_SUPPORTED
        81 => 233_472,                      // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
        83 => 1,                            // MANAGED_MEMORY
        89 | 90 => 1,                       // CONCURRENT_MANAGED_ACCESS, COMPUTE_PREEMPTION_SUPPORTED
        91 => 1,                            // CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
        92..=94 => 1,                       // stream memory operations, first version
        95 => 1,                            // COOPERATIVE_LAUNCH
        97 => 232_448,                      // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
        99 => 1,                            // HOST_REGISTER_SUPPORTED
        106 => 32,                          // MAX_BLOCKS_PER_MULTIPROCESSOR
        111 => 1024,                        // RESERVED_SHARED_MEMORY_PER_BLOCK
        113 => 1,                           // READ_ONLY_HOST_REGISTER_SUPPORTED
        115 => 1,                           // MEMORY_POOLS_SUPPORTED
        122 | 123 => 1,                     // CAN_USE_64_BIT_STREAM_MEM_OPS, CAN_USE_STREAM_WAIT_VALUE_NOR
        131 => -1,                          // NUMA_ID: device memory is no NUMA node
        134 => 0,                           // HOST_NUMA_ID
        _ if (1..END).contains(&attribute) => 0,
        _ => return None,
    })
}

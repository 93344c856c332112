//! Which way bytes truly take, seen by a small read and the library's own counts of it.

use std::ffi::c_void;

use warpio_core::Error;
use warpio_cuda::CudaDeviceExt;

use super::align::ALIGN;
use crate::driver::{Driver, GdsPath};
use crate::handle::FileHandle;

/// What was seen of a storage.
#[derive(Clone, Debug)]
pub(super) enum Proof {
    /// Past host memory, this way.
    Takes(GdsPath),
    /// Through host memory.
    Compat,
    /// Its files are refused.
    Refused(Error),
    /// Nothing: the library does not count, the file is empty, or the read failed.
    Nothing,
}

impl PartialEq for Proof {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Takes(one), Self::Takes(other)) => one == other,
            (Self::Compat, Self::Compat) | (Self::Nothing, Self::Nothing) => true,
            _ => false,
        }
    }
}

/// Reads the beginning of a file, and looks which way it took. This blocks, and needs a current context.
pub(super) fn try_read(driver: &Driver, handle: &FileHandle) -> Proof {
    let Ok(mut memory) = driver.device().alloc(ALIGN) else { return Proof::Nothing };
    let (base, library) = (memory.as_mut_ptr().cast::<c_void>(), driver.library());
    // SAFETY: the memory has the length that is asked for, and is freed after the call.
    let read = || unsafe { (library.cuFileRead)(handle.raw(), base, ALIGN, 0, 0) };
    // The memory is of the driver's device, whatever the thread works on otherwise.
    let Ok((read, observed)) = driver.device().in_context(|| driver.observe(read)) else { return Proof::Nothing };
    match observed {
        Some(seen) if read > 0 && seen.posix > 0 => Proof::Compat,
        Some(seen) if read > 0 && seen.nvidia_fs > 0 => Proof::Takes(GdsPath::NvidiaFs),
        Some(seen) if read > 0 && seen.peer_to_peer > 0 => Proof::Takes(GdsPath::PeerToPeer),
        _ => Proof::Nothing,
    }
}

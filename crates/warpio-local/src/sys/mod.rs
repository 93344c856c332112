//! The system calls, and all of this crate's `unsafe`.
//!
//! Where rustix has a call that needs no `unsafe` it is used in place; what is here either moves bytes to and from raw
//! memory or asks the kernel something that rustix does not.

pub mod block;
pub mod cache;
pub mod close;
pub mod map;
pub mod mincore;
pub mod reopen;
pub mod rw;
pub mod statx;
pub mod usage;

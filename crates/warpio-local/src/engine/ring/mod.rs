//! What both ring engines share: everything but the ring.
//!
//! A [`Worker`] belongs to one ring thread. It takes segments from the [`Queue`] that all threads share, finds them a
//! staging slot where they need one, says which reads and writes the ring has to do next, and takes their results. It
//! holds what the kernel may touch until the kernel has answered.

mod climb;
mod entrance;
mod fixed;
mod job;
mod options;
mod outgoing;
mod pieces;
mod plan;
mod queue;
mod share;
mod slab;
mod slots;
mod start;
mod target;
mod window;
mod worker;

pub use options::{RingOptions, Unavailable};
pub use target::{Mode, RingTarget};

pub(super) use entrance::Entrance;
pub(super) use fixed::FixedBuffers;
pub(super) use job::Op;
pub(super) use queue::{Outlook, Queue};
pub(super) use start::start;
pub(super) use worker::Worker;

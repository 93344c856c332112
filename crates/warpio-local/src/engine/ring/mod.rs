//! What both ring engines share: everything but the ring.

mod target;

pub use target::{Mode, RingTarget};

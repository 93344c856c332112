//! Where the bytes of a transfer are cut: pure functions, without clock, descriptor or device.

mod pack;
mod split;

pub use pack::{Packed, Piece, pack};
pub use split::{Split, SplitSegment};

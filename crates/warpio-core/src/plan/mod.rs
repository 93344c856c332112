//! Where the bytes of a transfer are cut: pure functions, without clock, descriptor or device.

mod coalesce;
mod pack;
mod split;

pub use coalesce::{Piece, Run, coalesce};
pub use pack::{Packed, pack};
pub use split::{Split, SplitSegment};

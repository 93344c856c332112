//! Where the bytes of a transfer are cut: pure functions, without clock, descriptor or device.

mod coalesce;
mod split;

pub use coalesce::{Piece, Run, coalesce};
pub use split::{Split, SplitSegment};

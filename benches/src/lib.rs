//! What the benchmarks of warpio share: clocks, medians, rows, test files, and the limits of the machine that every
//! figure is put beside.

pub mod bare;
pub mod clock;
mod content;
pub mod file;
pub mod fio;
mod load;
pub mod row;
pub mod turns;
pub mod writes;

pub use load::load;

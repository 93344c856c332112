//! What is looked at before libcufile is called, because the library itself would hang or crash.

mod bounded;
mod fork;
mod surroundings;

pub(crate) use bounded::{Overdue, within};
pub(crate) use fork::{is_child, watch};
pub use surroundings::Surroundings;

//! What a reply must be to count: pure functions over its status and headers.

mod check;
mod content_range;
mod facts;
mod version;

pub(crate) use check::{Refusal, check};
pub(crate) use content_range::ContentRange;
pub(crate) use facts::Facts;
pub(crate) use version::Version;

//! How many requests at once, and how much each asks for: decided by what came of those before.

mod concurrency;
mod part;

pub(crate) use concurrency::Concurrency;
pub(crate) use part::PartLength;

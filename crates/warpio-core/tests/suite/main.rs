//! The contract suite: passed by every source of this crate, and by none that breaks the contract.

#[path = "../support/mod.rs"]
mod support;

mod broken_sinks;
mod broken_sources;
mod sources;

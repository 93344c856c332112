//! Transfers by the engine, over the software GPU and the software cuFile.

#[path = "../support/mod.rs"]
mod support;

mod calls;

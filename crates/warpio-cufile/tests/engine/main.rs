//! Transfers by the engine, over the software GPU and the software cuFile.

#[path = "../support/mod.rs"]
mod support;

mod batches;
mod buffers;
mod calls;
mod contract;
mod fallback;
mod lifetimes;
mod streams;
mod stuck;
mod writes;

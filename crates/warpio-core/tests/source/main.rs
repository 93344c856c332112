//! Sources and sinks: staged ones, read whole, in chunks and as streams.

#[path = "../support/mod.rs"]
mod support;

mod chunks;
mod double;
mod ranges;
mod recycling;
mod staged;
mod staged_cancel;
mod staged_writer;
mod streams;
mod whole;

//! What the engine costs, over a device of which the time is known. One test at a time, and each with several tries:
//! other programs of the machine take their share of it.

#[path = "../support/mod.rs"]
mod support;

mod bridge;
mod idle;
mod overlap;

//! The seam between transfers and the engines that carry them out.

#[path = "../support/mod.rs"]
mod support;

mod completion;
mod countdown;
mod cut;
mod fair;
mod fence;
mod memory;
mod outgoing;
mod refused;
mod seats;
mod stats;

//! Transfers under way: observed, cancelled, given a deadline, put in a stream's order, and joined.

#[path = "../support/mod.rs"]
mod support;

mod cancel;
mod channel;
mod combine;
mod deadline;
mod failed;
mod order;
mod report;
mod within;

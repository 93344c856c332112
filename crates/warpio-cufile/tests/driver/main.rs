//! The library, its driver and its traps, over the software cuFile.

#[path = "../support/mod.rs"]
mod support;

mod audit;
mod availability;
mod exit;
mod fork;
mod info;
mod old;
mod open;
mod settings;
mod statistics;

//! Owned ranges of memory: taken apart, put together, shared, and released when the last user is done.

#[path = "../support/mod.rs"]
mod support;

mod fences;
mod foreign;
mod host;
mod pieces;
mod upload;

//! The runtime as programs use it, and as they misuse it.

mod support;

mod adapters;
mod append;
mod bad_input;
mod changing;
mod contract;
mod descriptors;
mod dropped;
mod full;
mod limits;
mod modes;
mod ownership;
mod runtimes;
mod settings;
mod shutdown;
mod sink;

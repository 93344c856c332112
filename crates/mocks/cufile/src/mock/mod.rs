//! What every version has.

pub(crate) mod async_io;
pub(crate) mod batch;
pub(crate) mod batch_state;
pub(crate) mod buffer;
pub(crate) mod codes;
pub(crate) mod command;
pub(crate) mod control;
pub(crate) mod counters;
pub(crate) mod cuda;
pub(crate) mod device;
pub(crate) mod driver;
pub(crate) mod file;
pub(crate) mod memory;
pub(crate) mod plan;
pub(crate) mod state;
pub(crate) mod sync_io;
pub(crate) mod transfer;

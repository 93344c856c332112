//! Bounded staging memory: pinned slots that bytes pass through on their way between storage and a device.

mod class;
mod config;
mod queue;
mod slot;
mod staging;

pub use config::PoolConfig;
#[cfg(all(test, feature = "loom"))]
pub(crate) use queue::Queue;
pub use slot::{Region, Slot, StagingSlab};
pub use staging::{PoolStats, StagingPool};

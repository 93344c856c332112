//! What sources, engines and wrappers are tested with: the contract suites, and doubles that hold work back.

mod contract;
mod engine;
mod gpu;
mod memory;
mod ranges_contract;
mod write_contract;

pub use contract::{pattern, read_contract};
pub use engine::{Held, HeldEngine};
pub use gpu::{FakeGpu, GpuControl};
pub use memory::MemorySource;
pub use ranges_contract::ranges_contract;
pub use write_contract::{failed_write_contract, write_contract};

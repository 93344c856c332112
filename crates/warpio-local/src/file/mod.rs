//! Local files as sources and sinks.

mod append;
mod context;
mod error;
mod local;
mod sink;

pub use context::FileContext;
pub(crate) use context::named;
pub use local::LocalFile;
pub use sink::FileSink;

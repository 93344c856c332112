//! Remote objects as sinks.

mod assemble;
mod backend;
mod engine;
mod hdfs;
mod object;
mod part;
mod shared;
mod sink;

pub(crate) use backend::Backend;
pub(crate) use hdfs::HdfsBackend;
pub(crate) use object::ObjectBackend;
pub use sink::RemoteSink;

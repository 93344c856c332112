//! Remote objects as sources.

mod carry;
mod engine;
mod filler;
mod hedge;
mod object;
mod queue;
mod source;
mod stream;

pub(crate) use engine::RemoteEngine;
pub(crate) use object::Object;
pub use source::Remote;

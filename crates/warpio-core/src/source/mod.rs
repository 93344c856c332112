//! Sources and sinks of bytes: the traits that users and engines meet in.

mod bytes_stream;
mod chunk;
mod chunks;
mod describe;
mod forward;
mod puller;
mod read;
mod read_ext;
mod reader;
mod ring;
mod staged;
mod staged_writer;
mod write;

pub use bytes_stream::BytesStream;
pub use chunk::Chunk;
pub use chunks::{Chunks, ChunksBuilder};
pub use describe::{Capabilities, Description};
pub use read::AsyncDeviceRead;
pub(crate) use read::check_room;
pub use read_ext::AsyncDeviceReadExt;
pub use reader::Reader;
pub use staged::{Fetch, Staged};
pub use staged_writer::{Flush, StagedWriter};
pub use write::{AsyncDeviceWrite, AsyncDeviceWriteExt};

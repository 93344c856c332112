//! libcufile as it is: its functions, types and numbers. For what the rest of the crate does not wrap.

mod api;
mod library;
mod search;
mod types;

pub use api::Api;
pub use library::{Library, LibraryVersion};
pub use search::OVERRIDE;
pub use types::{
    BatchHandle, Descriptor, DriverProperties, EventStatus, FdOrPointer, Handle, IoEvent, IoParams, OpError,
    STATISTICS_LEN, Status, Stream, StreamFlags,
};

//! Remote stores for warpio: S3, GCS, Azure, HTTP and WebHDFS into device memory, and back.
//!
//! [`RemoteContext`] opens URLs. Requests are made by [`object_store`] where a store has a protocol of its own, and are
//! all sent by one HTTP client that receives bodies straight into staging memory. They run on threads of their own, each
//! with a tokio runtime, which are started with the first source: never on the program's runtime, which only awaits.
//!
//! A source stays with the state of the object that it saw first: when that changes, reads fail as
//! [`Changed`](warpio_core::ErrorKind::Changed).

mod adapt;
mod cleanup;
mod context;
mod entry;
mod failure;
mod http;
mod kind;
mod location;
mod net;
mod origin;
mod read;
mod reply;
mod retry;
mod server;
mod settings;
mod store;
mod write;

pub use cleanup::wait_for_cleanup;
pub use context::RemoteContext;
pub use entry::{Entry, Listing};
pub use kind::Kind;
pub use location::Location;
pub use read::Remote;
pub use settings::RemoteSettings;
pub use store::{
    Azure, AzureBuilder, Bucket, Gcs, GcsBuilder, Http, HttpBuilder, S3, S3Builder, WebHdfs, WebHdfsBuilder,
};
pub use write::RemoteSink;

/// The stores, for those who want to talk to one themselves.
pub use object_store;

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;

use crate::failure::Failure;

/// How a store takes a new object. Each call is one try; whether it is repeated is for others to decide, so that each may
/// come again after it had been carried out and only its reply was lost.
#[async_trait]
pub(crate) trait Backend: Debug + Send + Sync + 'static {
    /// The URL, without secrets.
    fn name(&self) -> &str;

    /// The kind of store.
    fn kind(&self) -> &'static str;

    /// Whether parts may be sent at once and in any order.
    fn is_parallel(&self) -> bool;

    /// Begins an object that does not show yet.
    async fn begin(&self) -> Result<(), Failure>;

    /// Sends part `index`, which lies at `offset`.
    async fn put_part(&self, index: usize, offset: u64, bytes: Bytes) -> Result<(), Failure>;

    /// Lets the object of all `parts` show, in the place of what is there.
    async fn complete(&self, parts: usize, len: u64) -> Result<(), Failure>;

    /// Makes an object of these bytes at once.
    async fn put_whole(&self, bytes: Bytes) -> Result<(), Failure>;

    /// Throws away what was begun.
    async fn abort(&self) -> Result<(), Failure>;
}

use std::fmt::Debug;

use futures::future::BoxFuture;

use super::describe::Description;
use crate::buffer::DeviceBytes;
use crate::device::Device;
use crate::transfer::Transfer;
use crate::{Error, Result};

/// A place that takes bytes of device memory.
///
/// # Contract
/// * **A write is under way when the method returns**, behind the device work that the buffer carries or, if it carries
///   none, behind the context's earlier work. It resolves when the store has taken every byte, or fails.
/// * **Shared buffers.** The memory is only read; it comes back with the outcome.
/// * **Nothing is published before [`finish`](Self::finish)** on stores that can hold back; on files it reports what
///   was left to report. A sink that is dropped without it leaves no half-written object.
/// * **What is published is all that was written.** `finish` waits for the writes that are under way. If one through
///   this sink failed, was refused or was cancelled, or if making bytes durable failed, it fails with the first of these
///   errors and publishes nothing, whether anybody looked at the outcome or not. It is the end of a sink that
///   publishes: later writes are refused.
/// * What a store cannot do is [`Unsupported`](crate::ErrorKind::Unsupported).
pub trait AsyncDeviceWrite: Debug + Send + Sync {
    /// The device whose memory this sink takes.
    fn device(&self) -> &Device;

    /// What this sink is.
    fn describe(&self) -> Description;

    /// Writes all of `buf` at `offset`.
    fn write_at(&self, offset: u64, buf: DeviceBytes) -> Transfer<DeviceBytes>;

    /// Writes all of `buf` behind the end. Its place is reserved when the method is called, so that appends that
    /// overlap in time do not overlap in the file.
    fn append(&self, buf: DeviceBytes) -> Transfer<DeviceBytes> {
        let error = Error::unsupported(format!("{} cannot append", self.describe().kind));
        Transfer::failed(error, Some(buf))
    }

    /// Cuts or extends to `len` bytes.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where the store has no such call.
    fn set_len(&self, len: u64) -> BoxFuture<'_, Result<()>> {
        let error = Error::unsupported(format!("{} cannot change its length to {len}", self.describe().kind));
        Box::pin(std::future::ready(Err(error)))
    }

    /// Makes what was written durable.
    ///
    /// # Errors
    /// What the store reports; bytes written before may then be lost.
    fn sync(&self) -> BoxFuture<'_, Result<()>>;

    /// Ends the writing and reports everything that is left to report; on remote stores it publishes the object.
    ///
    /// # Errors
    /// The first error of an earlier write, else what the store reports.
    fn finish(&self) -> BoxFuture<'_, Result<()>>;
}

const _: Option<&dyn AsyncDeviceWrite> = None;

/// What every [`AsyncDeviceWrite`] can do besides.
pub trait AsyncDeviceWriteExt: AsyncDeviceWrite {
    /// Writes all of `buf` at `offset`, whatever kind of buffer it is.
    fn write_all_at(&self, offset: u64, buf: impl Into<DeviceBytes>) -> Transfer<DeviceBytes>
    where
        Self: Sized,
    {
        self.write_at(offset, buf.into())
    }
}

impl<S: AsyncDeviceWrite + ?Sized> AsyncDeviceWriteExt for S {}

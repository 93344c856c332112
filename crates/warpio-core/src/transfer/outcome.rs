use std::error::Error as StdError;
use std::fmt;

use crate::buffer::{DeviceBytes, DeviceBytesMut};
use crate::{Error, Result};

/// What a transfer can resolve to, and the buffer in it.
pub trait Outcome: Send + 'static {
    /// The buffer that comes back, in success and in failure.
    type Buffer: Send + 'static;

    /// The buffer alone.
    fn into_buffer(self) -> Self::Buffer;
}

/// How many bytes a transfer moved, and its buffer.
#[derive(Debug)]
pub struct Moved<B> {
    /// The bytes that arrived; fewer than the buffer has only at the end of the source.
    pub n: usize,
    /// The buffer that was given to the operation.
    pub buffer: B,
}

impl<B: Send + 'static> Outcome for Moved<B> {
    type Buffer = B;

    fn into_buffer(self) -> B {
        self.buffer
    }
}

impl Outcome for DeviceBytesMut {
    type Buffer = Self;

    fn into_buffer(self) -> Self {
        self
    }
}

impl Outcome for DeviceBytes {
    type Buffer = Self;

    fn into_buffer(self) -> Self {
        self
    }
}

/// The outcome of reading many ranges into one buffer.
#[derive(Debug)]
pub struct Ranges {
    /// For every range, in the order asked for, the bytes that arrived or why none did. Fewer than the range has
    /// means the end of the source.
    pub results: Vec<Result<usize>>,
    /// The buffer: the ranges lie in it one after another, each at its full length.
    pub buffer: DeviceBytesMut,
}

impl Outcome for Ranges {
    type Buffer = DeviceBytesMut;

    fn into_buffer(self) -> DeviceBytesMut {
        self.buffer
    }
}

/// The outcome of reading many ranges, each into a buffer of its own.
#[derive(Debug)]
pub struct Scattered {
    /// For every range, in the order asked for, the bytes that arrived or why none did. Fewer than its buffer has
    /// means the end of the source.
    pub results: Vec<Result<usize>>,
    /// The buffers, in the order asked for.
    pub buffers: Vec<DeviceBytesMut>,
}

impl Outcome for Scattered {
    type Buffer = Vec<DeviceBytesMut>;

    fn into_buffer(self) -> Vec<DeviceBytesMut> {
        self.buffers
    }
}

/// A failed transfer: why, and the buffer unless memory may still be written.
pub struct Failed<B> {
    /// Why it failed.
    pub error: Error,
    /// The buffer that was given to the operation. `None` only where something may still write it.
    pub buffer: Option<B>,
}

impl<B> From<Failed<B>> for Error {
    fn from(failed: Failed<B>) -> Self {
        failed.error
    }
}

impl<B> From<Failed<B>> for std::io::Error {
    fn from(failed: Failed<B>) -> Self {
        failed.error.into()
    }
}

impl<B> fmt::Display for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> fmt::Debug for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("error", &self.error).field("buffer_returned", &self.buffer.is_some()).finish()
    }
}

impl<B> StdError for Failed<B> {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        StdError::source(&self.error)
    }
}

use bytes::{Buf, Bytes};
use futures::StreamExt;
use futures::stream::BoxStream;
use warpio_core::{Error, ErrorKind};

use crate::failure::Failure;
use crate::http::Body;

/// The body of a reply.
pub(crate) enum Payload {
    /// From our own client: received straight into the memory that it is for.
    Wire(Body),
    /// From a store that has its own way to get bytes: copied chunk by chunk.
    Stream { stream: BoxStream<'static, object_store::Result<Bytes>>, chunk: Bytes },
}

impl Payload {
    pub(crate) fn stream(stream: BoxStream<'static, object_store::Result<Bytes>>) -> Self {
        Self::Stream { stream, chunk: Bytes::new() }
    }

    /// Receives into `into`, which must not be empty; 0 is the end. Dropped while it waits, nothing is lost.
    pub(crate) async fn read(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        match self {
            Self::Wire(body) => Ok(body.read(into).await?),
            Self::Stream { stream, chunk } => {
                if !next(stream, chunk).await? {
                    return Ok(0);
                }
                let n = chunk.len().min(into.len());
                chunk.copy_to_slice(&mut into[..n]);
                Ok(n)
            }
        }
    }

    /// Whether nothing is left. A body that ends where its connection does can't tell.
    pub(crate) async fn is_at_end(&mut self) -> Result<bool, Failure> {
        match self {
            Self::Wire(body) if !body.is_delimited() => Ok(true),
            Self::Wire(body) => Ok(body.is_at_end().await?),
            Self::Stream { stream, chunk } => Ok(!next(stream, chunk).await?),
        }
    }

    /// Whether the end of the body proves that it is whole.
    pub(crate) fn proves_its_end(&self) -> bool {
        match self {
            Self::Wire(body) => body.is_delimited(),
            Self::Stream { .. } => true,
        }
    }

    /// How much is left, where the reply said so.
    pub(crate) fn left(&self) -> Option<u64> {
        match self {
            Self::Wire(body) => body.left(),
            Self::Stream { .. } => None,
        }
    }
}

/// Whether there is a chunk that is not empty.
async fn next(
    stream: &mut BoxStream<'static, object_store::Result<Bytes>>,
    chunk: &mut Bytes,
) -> Result<bool, Failure> {
    while chunk.is_empty() {
        match stream.next().await {
            Some(Ok(more)) => *chunk = more,
            None => return Ok(false),
            // What a store's stream says when it breaks is not for us to take apart.
            Some(Err(_)) => {
                let error = Error::new(ErrorKind::Unavailable).with_message("the store broke off in the middle");
                return Err(Failure::again(error));
            }
        }
    }
    Ok(true)
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wire(body) => body.fmt(f),
            Self::Stream { .. } => f.write_str("Stream"),
        }
    }
}

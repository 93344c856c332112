use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;

use super::connection::Connection;
use super::fault::Fault;
use super::framing::Framing;
use super::pool::{Key, Pool};

/// How long the text of an error is waited for.
const ERROR_PATIENCE: Duration = Duration::from_secs(1);

/// The body of a reply. Read to its end, its connection goes back to the pool; dropped before, that is closed.
pub(crate) struct Body {
    connection: Option<Connection>,
    framing: Framing,
    reusable: bool,
    pool: Arc<Pool>,
    key: Key,
}

impl Body {
    pub(super) fn new(connection: Connection, framing: Framing, reusable: bool, pool: Arc<Pool>, key: Key) -> Self {
        let mut body = Self { connection: Some(connection), framing, reusable, pool, key };
        if body.framing == Framing::Length(0) {
            body.done();
        }
        body
    }

    /// Receives into `into`, which must not be empty. 0 is the end of the body. Dropped while it waits, nothing is
    /// lost.
    pub(crate) async fn read(&mut self, into: &mut [u8]) -> Result<usize, Fault> {
        debug_assert!(!into.is_empty(), "an empty read says nothing");
        poll_fn(|cx| self.poll_read(cx, into)).await
    }

    /// Whether nothing is left, which may have to be waited for.
    pub(crate) async fn is_at_end(&mut self) -> Result<bool, Fault> {
        Ok(poll_fn(|cx| self.poll_read(cx, &mut [])).await? == 0)
    }

    /// The length that the reply gave to its body, so far as it is left. `None` for bodies that end where they end.
    pub(crate) fn left(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(left) => Some(left),
            _ => None,
        }
    }

    /// Whether its end proves that it is whole.
    pub(crate) fn is_delimited(&self) -> bool {
        self.framing != Framing::UntilClose
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, Fault>> {
        let Some(connection) = &mut self.connection else { return Poll::Ready(Ok(0)) };
        let result = ready!(connection.poll_body(cx, &mut self.framing, into));
        match &result {
            Ok(0) => self.done(),
            // The next request need not wait for whoever asks for the end of this body.
            Ok(_) if self.framing == Framing::Length(0) => self.done(),
            Ok(_) => {}
            Err(_) => self.connection = None,
        }
        Poll::Ready(result)
    }

    fn done(&mut self) {
        if let Some(connection) = self.connection.take()
            && self.reusable
        {
            self.pool.put(self.key.clone(), connection);
        }
    }

    /// The beginning of the body. Whatever goes wrong ends it early.
    pub(crate) async fn beginning(mut self, limit: usize) -> Vec<u8> {
        let mut text = Vec::new();
        self.append_to(&mut text, limit).await;
        text
    }

    /// The beginning of the text of an error. The status has been told already, and that text is not worth a long wait:
    /// some servers send it without a length, and keep the connection.
    pub(crate) async fn error_text(mut self, limit: usize) -> Vec<u8> {
        let mut text = Vec::new();
        let _ = tokio::time::timeout(ERROR_PATIENCE, self.append_to(&mut text, limit)).await;
        text
    }

    async fn append_to(&mut self, text: &mut Vec<u8>, limit: usize) {
        let mut piece = vec![0; limit.min(16 << 10)];
        while text.len() < limit {
            let room = piece.len().min(limit - text.len());
            match self.read(&mut piece[..room]).await {
                Ok(n) if n > 0 => text.extend_from_slice(&piece[..n]),
                _ => break,
            }
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = object_store::client::HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        let mut piece = vec![0; 64 << 10];
        match ready!(this.poll_read(cx, &mut piece)) {
            Ok(0) => Poll::Ready(None),
            Ok(n) => {
                piece.truncate(n);
                Poll::Ready(Some(Ok(http_body::Frame::data(piece.into()))))
            }
            Err(fault) => Poll::Ready(Some(Err(crate::origin::http_error(fault)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.connection.is_none()
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("framing", &self.framing).finish_non_exhaustive()
    }
}

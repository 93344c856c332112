use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::Method;

use super::fault::{Fault, FaultKind};
use super::framing::Framing;
use super::head::{self, Head};
use super::io::Wire;

/// How many bytes are received at once while a head or the line of a chunk is awaited. What comes with them of the body
/// is copied once more, so that it is not much.
const READ: usize = 4 << 10;

/// One connection to a server, between two requests or within one.
pub(super) struct Connection {
    wire: Wire,
    /// Received and not used; `start` bytes of it are.
    received: Vec<u8>,
    start: usize,
    /// So many replies came over it.
    replies: u64,
}

/// The reply to one request, up to its body.
pub(super) struct Answer {
    pub(super) head: Head,
    pub(super) framing: Framing,
    /// The connection may be used again when the body has been read to its end.
    pub(super) reusable: bool,
}

impl Connection {
    pub(super) fn new(wire: Wire) -> Self {
        Self { wire, received: Vec::new(), start: 0, replies: 0 }
    }

    /// Whether another request can be sent: nothing has come that nobody asked for, and the server has not hung up.
    pub(super) fn is_quiet(&mut self) -> bool {
        self.start == self.received.len() && self.wire.is_quiet()
    }

    /// Whether a request that got no reply may have met a server that hung up at that very moment.
    pub(super) fn was_used(&self) -> bool {
        self.replies > 0
    }

    /// Sends a request and waits for the head of its reply. A server that answers before it has read the body (most
    /// often, that it will not) is heard.
    pub(super) async fn exchange(&mut self, method: &Method, head: Vec<u8>, body: &[Bytes]) -> Result<Answer, Fault> {
        let mut out: VecDeque<Bytes> =
            std::iter::once(Bytes::from(head)).chain(body.iter().cloned()).filter(|piece| !piece.is_empty()).collect();
        let sent = poll_fn(|cx| self.poll_send(cx, &mut out)).await;
        let whole = sent.as_ref().is_ok_and(|whole| *whole);
        if let Err(fault) = &sent
            && fault.kind() == FaultKind::Stalled
        {
            return Err(fault.clone());
        }
        let head = match (poll_fn(|cx| self.poll_head(cx)).await, sent) {
            (Ok(head), _) => head,
            // The reason why it could not be sent says more than that nothing came back.
            (Err(_), Err(fault)) | (Err(fault), Ok(_)) => return Err(fault),
        };
        self.replies += 1;
        let framing = Framing::of(method, &head)?;
        let reusable = whole && head.keep_alive && framing != Framing::UntilClose;
        Ok(Answer { head, framing, reusable })
    }

    /// Sends everything, or stops where a whole head has come before that: false then.
    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut VecDeque<Bytes>) -> Poll<Result<bool, Fault>> {
        while let Some(piece) = out.front_mut() {
            match self.wire.poll_write(cx, piece) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(Fault::new(FaultKind::Broken, "nothing can be sent"))),
                Poll::Ready(Ok(n)) if n == piece.len() => drop(out.pop_front()),
                Poll::Ready(Ok(n)) => drop(piece.split_to(n)),
                Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                Poll::Pending => match self.poll_receive(cx) {
                    Poll::Ready(Ok(0)) => {
                        return Poll::Ready(Err(Fault::new(FaultKind::Broken, "the server hung up on the request")));
                    }
                    Poll::Ready(Ok(_)) if matches!(self.peek_head(), Ok(None)) => {}
                    Poll::Ready(Ok(_)) => return Poll::Ready(Ok(false)),
                    Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
        self.wire.poll_flush(cx).map_ok(|()| true)
    }

    fn peek_head(&self) -> Result<Option<(Head, usize)>, Fault> {
        match head::parse(&self.received[self.start..])? {
            Some((head, _)) if head.status.is_informational() => Ok(None),
            found => Ok(found),
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, Fault>> {
        loop {
            if self.start < self.received.len()
                && let Some((head, len)) = head::parse(&self.received[self.start..])?
            {
                self.start += len;
                // Such as 100 Continue: the reply itself is still to come.
                if head.status.is_informational() {
                    continue;
                }
                return Poll::Ready(Ok(head));
            }
            if ready!(self.poll_receive(cx))? == 0 {
                let message = match self.received.len() - self.start {
                    0 => "the server hung up without a reply",
                    _ => "the connection ended within the headers of the reply",
                };
                return Poll::Ready(Err(Fault::new(FaultKind::Ended, message)));
            }
        }
    }

    /// Receives more behind what is there.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<usize, Fault>> {
        self.received.drain(..self.start);
        self.start = 0;
        let len = self.received.len();
        self.received.resize(len + READ, 0);
        let polled = self.wire.poll_read(cx, &mut self.received[len..]);
        let n = match &polled {
            Poll::Ready(Ok(n)) => *n,
            _ => 0,
        };
        self.received.truncate(len + n);
        polled
    }

    /// Receives body: what is there first, then straight from the socket. 0 is the end of the body. With an empty
    /// `into`, it only finds out whether the body has ended, as 0, or goes on, as 1.
    pub(super) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        framing: &mut Framing,
        into: &mut [u8],
    ) -> Poll<Result<usize, Fault>> {
        use super::framing::Step;
        loop {
            let (used, step) = framing.step(&self.received[self.start..])?;
            self.start += used;
            let left = match step {
                Step::Done => return Poll::Ready(Ok(0)),
                Step::Data(left) => left,
                Step::More => {
                    if ready!(self.poll_receive(cx))? == 0 {
                        return Poll::Ready(Err(self.ended()));
                    }
                    continue;
                }
            };
            if into.is_empty() && *framing != Framing::UntilClose {
                return Poll::Ready(Ok(1));
            }
            let there = &self.received[self.start..];
            if into.is_empty() {
                if !there.is_empty() {
                    return Poll::Ready(Ok(1));
                }
                return self.poll_receive(cx);
            }
            let room = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let n = match there.len().min(room) {
                0 => ready!(self.wire.poll_read(cx, &mut into[..room]))?,
                n => {
                    into[..n].copy_from_slice(&there[..n]);
                    self.start += n;
                    n
                }
            };
            framing.take(n as u64);
            return match (n, &framing) {
                (0, Framing::UntilClose) => Poll::Ready(Ok(0)),
                (0, _) => Poll::Ready(Err(self.ended())),
                (n, _) => Poll::Ready(Ok(n)),
            };
        }
    }

    fn ended(&self) -> Fault {
        Fault::new(FaultKind::Ended, "the connection ended in the middle of the reply")
    }
}

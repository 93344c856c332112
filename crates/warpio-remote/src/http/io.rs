use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_rustls::client::TlsStream;

use super::fault::{Fault, FaultKind};

/// A connection's bytes, plain or encrypted, and how long to wait for the next of them.
pub(super) struct Wire {
    io: Io,
    patience: Duration,
    /// Made at the first wait.
    alarm: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

pub(super) enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    pub(super) fn new(io: Io, patience: Duration) -> Self {
        Self { io, patience, alarm: None, waiting: false }
    }

    /// Receives into `into`; 0 is the end of the connection.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, Fault>> {
        let mut buffer = ReadBuf::new(into);
        let polled = match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_read(cx, &mut buffer),
            Io::Tls(tls) => Pin::new(tls).poll_read(cx, &mut buffer),
        };
        let n = buffer.filled().len();
        self.or_alarm(cx, polled.map_ok(|()| n))
    }

    /// Sends some of `from`.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, Fault>> {
        let polled = match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write(cx, from),
            Io::Tls(tls) => Pin::new(tls).poll_write(cx, from),
        };
        self.or_alarm(cx, polled)
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let polled = match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Io::Tls(tls) => Pin::new(tls).poll_flush(cx),
        };
        self.or_alarm(cx, polled)
    }

    /// Whether nothing has come since the last reply, so that the connection can be used again.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        let quiet = self.poll_read(&mut cx, &mut [0]).is_pending();
        self.waiting = false;
        quiet
    }

    fn or_alarm<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<Result<T, Fault>> {
        if let Poll::Ready(result) = polled {
            self.waiting = false;
            return Poll::Ready(result.map_err(Fault::from_io));
        }
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep(self.patience)));
        if !self.waiting {
            // A time that no clock can express never comes.
            let far = Instant::now() + Duration::from_secs(86_400 * 365);
            alarm.as_mut().reset(Instant::now().checked_add(self.patience).unwrap_or(far));
            self.waiting = true;
        }
        if alarm.as_mut().poll(cx).is_ready() {
            self.waiting = false;
            let message = format!("the server sent nothing for {:?}", self.patience);
            return Poll::Ready(Err(Fault::new(FaultKind::Stalled, message)));
        }
        Poll::Pending
    }
}

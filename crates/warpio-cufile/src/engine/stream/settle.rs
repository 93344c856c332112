//! The thread that looks at results.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use warpio_core::engine::Direction;
use warpio_core::{Error, ErrorKind, Result};

use super::super::file::Registered;
use super::super::piece::Piece;
use super::super::shared::Shared;
use super::super::sync::MAX_INTERRUPTIONS;
use super::super::verdict::{self, Verdict};
use super::params::InFlight;
use crate::error::{CuFileError, Failure, decode};

/// How often to look for a result that is not there although the stream has passed.
const PATIENCE: Duration = Duration::from_millis(1);

/// A request that the stream has passed, or that its context has failed.
pub(super) struct Passed {
    pub(super) op: InFlight,
    pub(super) result: Result<()>,
}

/// A request that the stream has passed and the library has not written the result of.
struct Late {
    op: InFlight,
    since: Instant,
}

pub(super) fn run(shared: &Arc<Shared>, results: &Receiver<Passed>) {
    let mut late = VecDeque::<Late>::new();
    loop {
        let passed = match late.is_empty() {
            true => results.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => results.recv_timeout(PATIENCE),
        };
        match passed {
            Ok(Passed { op, result: Ok(()) }) => late.push_back(Late { op, since: Instant::now() }),
            // The context is lost. The library's own threads may know nothing of that.
            Ok(Passed { op, result: Err(error) }) => op.lose(error),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) if late.is_empty() => return,
            // Nobody sends any more, so receiving does not wait.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(PATIENCE),
        }
        for _ in 0..late.len() {
            let next = late.pop_front();
            late.extend(next.and_then(|next| look(shared, next)));
        }
    }
}

/// Ends a request that has its result; returns one that has to wait for it.
fn look(shared: &Arc<Shared>, mut late: Late) -> Option<Late> {
    let (result, refused) = match late.op.op() {
        Some(op) => (op.result(), op.refused.clone()),
        None => return None,
    };
    if result.is_none() && refused.is_none() {
        if late.since.elapsed() < shared.options.stall {
            return Some(late);
        }
        let message = "the stream has passed a request that cuFile has left no result of";
        late.op.lose(Error::new(ErrorKind::Io).with_message(message));
        return None;
    }
    let op = *late.op.passed()?;
    drop(op.pin);
    op.lane.give_back();
    let piece = op.piece;
    if let Some(error) = refused {
        shared.retry(piece, error);
        return None;
    }
    let call = match piece.direction() {
        Direction::Read => "cuFileReadAsync",
        Direction::Write => "cuFileWriteAsync",
    };
    let answer = decode(call, result.unwrap_or_default(), 0);
    conclude(shared, piece, answer, call, &op.file);
    None
}

fn conclude(
    shared: &Arc<Shared>,
    mut piece: Piece,
    answer: std::result::Result<usize, CuFileError>,
    call: &'static str,
    file: &Registered,
) {
    match verdict::result(piece.direction(), piece.left(), answer) {
        Verdict::Done => {
            piece.done += piece.left();
            piece.finish(file.path);
        }
        Verdict::End if file.handle.has_more(piece.offset()) => shared.retry(piece, verdict::false_end(call)),
        Verdict::End => piece.finish(file.path),
        Verdict::Short(n) => {
            piece.done += n;
            shared.streams.push(vec![piece]);
        }
        Verdict::Interrupted if piece.interruptions < MAX_INTERRUPTIONS => {
            piece.interruptions += 1;
            shared.streams.push(vec![piece]);
        }
        Verdict::Interrupted | Verdict::Pending => {
            shared.retry(piece, CuFileError::new(call, Failure::Os(libc::EINTR)));
        }
        Verdict::Failed(error) => shared.retry(piece, error),
    }
}

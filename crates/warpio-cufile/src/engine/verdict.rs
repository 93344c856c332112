//! What an answer of the library means for the request that it is about.

use warpio_core::engine::Direction;

use crate::error::{CuFileError, Failure, decode};
use crate::sys::{EventStatus, IoEvent};

/// What to do after an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is not over.
    Pending,
    /// All of it was moved.
    Done,
    /// The file ended.
    End,
    /// So many bytes were moved; the rest is to be asked for again.
    Short(usize),
    /// A signal came in between: to be asked again.
    Interrupted,
    /// It cannot be done this way.
    Failed(CuFileError),
}

/// The answer to a request of `wanted` bytes.
pub(crate) fn result(direction: Direction, wanted: usize, answer: Result<usize, CuFileError>) -> Verdict {
    match answer {
        Ok(n) if n == wanted => Verdict::Done,
        Ok(0) if direction == Direction::Read => Verdict::End,
        Ok(0) => Verdict::Failed(CuFileError::new("cuFileWrite", Failure::Nonsense("nothing was written"))),
        Ok(n) if n < wanted => Verdict::Short(n),
        Ok(_) => {
            let call = call_of(direction);
            Verdict::Failed(CuFileError::new(call, Failure::Nonsense("more bytes than were asked for")))
        }
        Err(error) if error.failure() == Failure::Os(libc::EINTR) => Verdict::Interrupted,
        Err(error) => Verdict::Failed(error),
    }
}

/// The library said that a file had ended before its end: as it does in calls without a current context.
pub(crate) fn false_end(call: &'static str) -> CuFileError {
    CuFileError::new(call, Failure::Nonsense("no bytes, although the file goes on"))
}

/// The event of an entry of `wanted` bytes. Both its status and its result count.
pub(crate) fn event(direction: Direction, wanted: usize, event: &IoEvent) -> Verdict {
    const CALL: &str = "cuFileBatchIOGetStatus";
    let answer = event.ret as isize;
    match event.status {
        EventStatus::WAITING | EventStatus::PENDING => Verdict::Pending,
        EventStatus::COMPLETE => result(direction, wanted, decode(CALL, answer, 0)),
        _ if answer < 0 => match decode(CALL, answer, 0) {
            Err(error) => Verdict::Failed(error),
            Ok(_) => Verdict::Failed(CuFileError::new(CALL, Failure::Event(event.status))),
        },
        status => Verdict::Failed(CuFileError::new(CALL, Failure::Event(status))),
    }
}

pub(crate) fn call_of(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "cuFileRead",
        Direction::Write => "cuFileWrite",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::OpError;

    fn of(status: EventStatus, ret: isize) -> Verdict {
        event(Direction::Read, 4096, &IoEvent { status, ret: ret as usize, ..IoEvent::NONE })
    }

    fn failure(verdict: Verdict) -> Failure {
        match verdict {
            Verdict::Failed(error) => error.failure(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn complete_counts_only_with_its_result() {
        assert_eq!(of(EventStatus::COMPLETE, 4096), Verdict::Done);
        assert_eq!(of(EventStatus::COMPLETE, 512), Verdict::Short(512));
        assert_eq!(of(EventStatus::COMPLETE, 0), Verdict::End);
        assert_eq!(failure(of(EventStatus::COMPLETE, -5)), Failure::Os(libc::EIO));
        assert_eq!(failure(of(EventStatus::COMPLETE, -5019)), Failure::Code(OpError(5019)));
        assert!(matches!(failure(of(EventStatus::COMPLETE, 4097)), Failure::Nonsense(_)));
    }

    #[test]
    fn other_ends_are_failures_even_with_a_length() {
        for status in [EventStatus::FAILED, EventStatus::TIMEOUT, EventStatus::INVALID, EventStatus::CANCELED] {
            assert_eq!(failure(of(status, 4096)), Failure::Event(status));
            assert_eq!(failure(of(status, -5)), Failure::Os(libc::EIO), "the result says more");
        }
        assert_eq!(failure(of(EventStatus(0x80), 0)), Failure::Event(EventStatus(0x80)), "statuses to come");
    }

    #[test]
    fn what_is_under_way_is_no_end() {
        assert_eq!(of(EventStatus::WAITING, 0), Verdict::Pending);
        assert_eq!(of(EventStatus::PENDING, 4096), Verdict::Pending);
    }

    #[test]
    fn a_write_of_nothing_is_no_end_of_file() {
        let verdict = result(Direction::Write, 4096, Ok(0));
        assert!(matches!(failure(verdict), Failure::Nonsense(_)));
        assert_eq!(result(Direction::Write, 4096, Ok(100)), Verdict::Short(100));
    }

    #[test]
    fn a_signal_is_no_failure() {
        let interrupted = Err(CuFileError::new("cuFileRead", Failure::Os(libc::EINTR)));
        assert_eq!(result(Direction::Read, 1, interrupted), Verdict::Interrupted);
        assert_eq!(of(EventStatus::COMPLETE, -4), Verdict::Interrupted);
    }
}

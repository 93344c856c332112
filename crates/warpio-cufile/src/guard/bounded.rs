use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Why there is no result.
pub(crate) enum Overdue {
    /// The thread still works.
    Late,
    /// The thread ended without one: it panicked.
    Ended,
}

/// What `work` returns, on a thread of its own, unless it takes longer than `limit`. A call into a library that hangs
/// cannot be ended, only left behind.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Result<T, Overdue>> {
    let (told, outcome) = channel();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        // Nobody listens any more if it took too long.
        let _ = told.send(work());
    })?;
    Ok(outcome.recv_timeout(limit).map_err(|error| match error {
        RecvTimeoutError::Timeout => Overdue::Late,
        RecvTimeoutError::Disconnected => Overdue::Ended,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_in_time_is_returned() {
        assert!(matches!(within(Duration::from_secs(20), "quick", || 7).unwrap(), Ok(7)));
    }

    #[test]
    fn work_that_hangs_is_left_behind() {
        let (release, held) = channel::<()>();
        let outcome = within(Duration::from_millis(10), "slow", move || held.recv());
        assert!(matches!(outcome.unwrap(), Err(Overdue::Late)));
        drop(release);
    }

    #[test]
    fn work_that_panics_is_no_result() {
        let outcome = within(Duration::from_secs(20), "broken", || {
            if std::thread::current().name() == Some("broken") {
                std::panic::resume_unwind(Box::new(()));
            }
        });
        assert!(matches!(outcome.unwrap(), Err(Overdue::Ended)));
    }
}

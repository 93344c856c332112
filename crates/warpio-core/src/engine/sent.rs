use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::device::{DeviceEvent, WatchDone};
use crate::sync::{Mutex, lock};

/// A copy to a device that is on its way. The device's reactor ends it, unless whoever sent it is there first, who then
/// has its staging slot back at once and while its caches still hold the memory. Dropped, all is left to the reactor.
pub struct Sent {
    event: DeviceEvent,
    /// For whoever sees the end first.
    done: Arc<Mutex<Option<WatchDone>>>,
}

impl Sent {
    /// A copy with `event` behind it and what is to be called when that has happened; and what the reactor is to call.
    pub(super) fn new(event: DeviceEvent, done: WatchDone) -> (Self, WatchDone) {
        let done = Arc::new(Mutex::new(Some(done)));
        let shared = done.clone();
        let by_reactor = move |result| {
            let done = lock(&shared).take();
            if let Some(done) = done {
                done(result);
            }
        };
        (Self { event, done }, Box::new(by_reactor))
    }

    /// Waits for the end of the copy for as long as `patience`, and ends it: for engines' own threads. Copies that take
    /// longer, and those that fail, are left to the reactor.
    ///
    /// # Panics
    /// When a waker of the transfer does.
    pub fn wait(self, patience: Duration) {
        if matches!(self.event.wait_for(patience), Ok(true)) {
            let done = lock(&self.done).take();
            if let Some(done) = done {
                done(Ok(()));
            }
        }
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sent").field("event", &self.event).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::device::EventBackend;
    use crate::{Error, ErrorKind, Result};

    /// An event that stands where it is told to.
    #[derive(Debug)]
    struct Told(Mutex<Result<bool>>);

    // SAFETY: no work is before it.
    unsafe impl EventBackend for Told {
        fn is_done(&self) -> Result<bool> {
            lock(&self.0).clone()
        }
    }

    type Results = Arc<Mutex<Vec<Result<()>>>>;

    /// A copy whose event stands so, what its reactor calls, and what came of it.
    fn sent(state: Result<bool>) -> (Arc<Told>, Sent, WatchDone, Results) {
        let (told, results) = (Arc::new(Told(Mutex::new(state))), Results::default());
        let list = results.clone();
        let (sent, done) = Sent::new(DeviceEvent::new(told.clone()), Box::new(move |result| lock(&list).push(result)));
        (told, sent, done, results)
    }

    const PATIENCE: Duration = Duration::from_millis(1);

    #[test]
    fn whoever_waits_for_it_ends_it_once() {
        let (_, sent, by_reactor, results) = sent(Ok(true));
        sent.wait(PATIENCE);
        assert!(matches!(lock(&results)[..], [Ok(())]));
        by_reactor(Ok(()));
        assert_eq!(lock(&results).len(), 1);
    }

    #[test]
    fn a_reactor_that_is_first_ends_it_once() {
        let (_, sent, by_reactor, results) = sent(Ok(true));
        by_reactor(Ok(()));
        sent.wait(PATIENCE);
        assert!(matches!(lock(&results)[..], [Ok(())]));
    }

    #[test]
    fn what_takes_longer_is_left_to_the_reactor() {
        let (_, sent, by_reactor, results) = sent(Ok(false));
        sent.wait(PATIENCE);
        assert!(lock(&results).is_empty());
        by_reactor(Ok(()));
        assert!(matches!(lock(&results)[..], [Ok(())]));
    }

    #[test]
    fn what_happens_meanwhile_is_seen() {
        let (told, sent, _by_reactor, results) = sent(Ok(false));
        let later = std::thread::spawn(move || *lock(&told.0) = Ok(true));
        sent.wait(Duration::from_secs(60));
        later.join().unwrap();
        assert!(matches!(lock(&results)[..], [Ok(())]));
    }

    #[test]
    fn failures_are_left_to_the_reactor() {
        let lost = Error::new(ErrorKind::DeviceLost);
        let (_, sent, by_reactor, results) = sent(Err(lost.clone()));
        sent.wait(PATIENCE);
        assert!(lock(&results).is_empty(), "something may still touch the memory");
        by_reactor(Err(lost));
        assert!(matches!(lock(&results)[..], [Err(_)]));
    }

    #[test]
    fn dropped_it_is_left_to_the_reactor() {
        let (_, sent, by_reactor, results) = sent(Ok(true));
        drop(sent);
        assert!(lock(&results).is_empty());
        by_reactor(Ok(()));
        assert!(matches!(lock(&results)[..], [Ok(())]));
    }
}

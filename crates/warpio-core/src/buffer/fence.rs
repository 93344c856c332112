use crate::device::{Device, DeviceEvent};
use crate::sync::{Arc, Mutex, lock};
use crate::{Error, Result};

/// The device work that must finish before memory is written, read by the host, or freed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence {
    events: Vec<DeviceEvent>,
    /// At this many events, those that have happened and those that are there twice are thrown out: halves of one
    /// buffer carry the same events, and thousands of pieces may be joined again.
    prune_at: u32,
    /// The user has named the stream of the last use.
    named: bool,
}

const FEW: u32 = 8;

impl Fence {
    pub(crate) fn add(&mut self, event: DeviceEvent) {
        self.events.push(event);
        self.prune_when_long();
    }

    /// Adds an event of the stream that the user names as that of the last use.
    pub(crate) fn name(&mut self, event: DeviceEvent) {
        self.named = true;
        self.add(event);
    }

    /// Whether the user has named the stream of the last use. If not, other work than that of the events may use the
    /// memory.
    pub(crate) fn is_named(&self) -> bool {
        self.named
    }

    pub(crate) fn merge(&mut self, mut other: Fence) {
        // Both halves have to be named.
        self.named &= other.named;
        self.events.append(&mut other.events);
        self.prune_when_long();
    }

    /// Takes the events out that have not happened yet.
    pub(crate) fn take_pending(&mut self) -> Vec<DeviceEvent> {
        self.prune();
        std::mem::take(&mut self.events)
    }

    pub(crate) fn events(&self) -> &[DeviceEvent] {
        &self.events
    }

    fn prune_when_long(&mut self) {
        if self.events.len() >= self.prune_at as usize {
            self.prune();
            self.prune_at = FEW.max(u32::try_from(2 * self.events.len()).unwrap_or(u32::MAX));
        }
    }

    fn prune(&mut self) {
        self.events.sort_unstable_by_key(DeviceEvent::address);
        self.events.dedup_by_key(|event| event.address());
        self.events.retain(|event| !matches!(event.is_done(), Ok(true)));
    }
}

/// Calls `done` once, when every event has happened, with the first error if there was one. With no events it is
/// called at once, on this thread.
pub(crate) fn watch_all(device: &Device, events: Vec<DeviceEvent>, done: impl FnOnce(Result<()>) + Send + 'static) {
    if events.is_empty() {
        return done(Ok(()));
    }
    struct Shared<F> {
        left: usize,
        error: Option<Error>,
        done: Option<F>,
    }
    let shared = Arc::new(Mutex::new(Shared { left: events.len(), error: None, done: Some(done) }));
    for event in events {
        let shared = shared.clone();
        device.backend().watch(
            event,
            Box::new(move |result| {
                let finished = {
                    let mut state = lock(&shared);
                    state.left -= 1;
                    if let Err(error) = result {
                        state.error.get_or_insert(error);
                    }
                    if state.left > 0 {
                        return;
                    }
                    (state.done.take(), state.error.take())
                };
                if let (Some(done), error) = finished {
                    done(error.map_or(Ok(()), Err));
                }
            }),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::device::EventBackend;

    #[derive(Debug, Default)]
    struct Counted(Arc<AtomicUsize>);

    // SAFETY: it never claims to be done.
    unsafe impl EventBackend for Counted {
        fn is_done(&self) -> Result<bool> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(false)
        }

        fn synchronize(&self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn thousands_of_pieces_join_without_asking_for_every_event_each_time() {
        let queries = Arc::new(AtomicUsize::new(0));
        let mut whole = Fence::default();
        for _ in 0..4000 {
            let mut piece = Fence::default();
            piece.add(DeviceEvent::new(Arc::new(Counted(queries.clone()))));
            whole.merge(piece);
        }
        assert_eq!(whole.take_pending().len(), 4000);
        let queries = queries.load(Ordering::Relaxed);
        assert!(queries < 10 * 4000, "{queries} queries");
    }

    #[test]
    fn an_event_that_is_there_twice_is_waited_for_once() {
        let event = DeviceEvent::new(Arc::new(Counted::default()));
        let mut fence = Fence::default();
        for _ in 0..100 {
            fence.add(event.clone());
            fence.merge(fence.clone());
            assert!(fence.events().len() <= 4 * FEW as usize);
        }
        assert_eq!(fence.take_pending().len(), 1);
    }
}

use crate::device::{Device, DeviceEvent};
use crate::sync::{Arc, Mutex, lock};
use crate::{Error, Result};

/// The device work that must finish before memory is written, read by the host, or freed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fence(Vec<DeviceEvent>);

impl Fence {
    pub(crate) fn add(&mut self, event: DeviceEvent) {
        self.0.retain(|e| !matches!(e.is_done(), Ok(true)));
        // Halves of one buffer carry the same events; joining them must not double the list.
        if !self.0.iter().any(|e| e.is_same(&event)) && !matches!(event.is_done(), Ok(true)) {
            self.0.push(event);
        }
    }

    pub(crate) fn merge(&mut self, other: Fence) {
        for event in other.0 {
            self.add(event);
        }
    }

    /// Takes the events out that have not happened yet.
    pub(crate) fn take_pending(&mut self) -> Vec<DeviceEvent> {
        let mut events = std::mem::take(&mut self.0);
        events.retain(|e| !matches!(e.is_done(), Ok(true)));
        events
    }

    pub(crate) fn events(&self) -> &[DeviceEvent] {
        &self.0
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

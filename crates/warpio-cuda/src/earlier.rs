//! An event behind all work of a context, on whatever stream it was enqueued.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use warpio_core::{DeviceEvent, Error, ErrorKind, EventBackend, Result};

use crate::context::{Context, lock};
use crate::driver::{CAPTURE_UNSUPPORTED, NOT_SUPPORTED};
use crate::event::Event;

/// How long a capture may keep the context's work from being marked. Captures take milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// An event behind all work that was submitted to `context` before the call.
pub(crate) fn earlier_work(context: &Arc<Context>) -> Result<DeviceEvent> {
    Ok(match State::begin(context, Instant::now())? {
        State::Recorded(event) => event.into_device_event(),
        state => DeviceEvent::new(Arc::new(EarlierWork { context: context.clone(), state: Mutex::new(state) })),
    })
}

/// Earlier work that cannot be marked by an event, at least not yet.
struct EarlierWork {
    context: Arc<Context>,
    state: Mutex<State>,
}

enum State {
    /// Some stream records a graph, and the driver refuses to mark the context's work until it has ended.
    Capturing {
        since: Instant,
    },
    Recorded(Event),
    /// A thread waits for the context, because the driver is too old to mark its work.
    Synchronizing(Arc<Mutex<Option<Result<()>>>>),
}

impl State {
    fn begin(context: &Arc<Context>, since: Instant) -> Result<Self> {
        let _entered = context.enter()?;
        let Some(record) = context.driver().cuCtxRecordEvent else { return synchronize(context) };
        // SAFETY: event and context are alive, and the event belongs to the context.
        match Event::record(context, None, |event| unsafe { record(context.raw(), event) })? {
            Ok(event) => Ok(Self::Recorded(event)),
            Err(CAPTURE_UNSUPPORTED) if since.elapsed() < PATIENCE => Ok(Self::Capturing { since }),
            Err(CAPTURE_UNSUPPORTED) => Err(Error::invalid_input(
                "a stream has been capturing a graph for long, so that earlier work cannot be waited for: name the \
                 stream that the buffer was last used on",
            )),
            Err(NOT_SUPPORTED) => synchronize(context),
            Err(code) => Err(context.fail(code, "cuCtxRecordEvent")),
        }
    }
}

fn synchronize(context: &Arc<Context>) -> Result<State> {
    let result = Arc::new(Mutex::new(None));
    let answer = result.clone();
    on_idle(context, move |outcome| *lock(&answer) = Some(outcome))?;
    Ok(State::Synchronizing(result))
}

/// Calls `then` on a thread of its own once all work of the context has ended, or its context is lost.
pub(crate) fn on_idle(context: &Arc<Context>, then: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
    let context = context.clone();
    let wait = move || then(context.adopt_thread().and_then(|()| wait_for_context(&context)));
    let thread = std::thread::Builder::new().name("warpio-cuda-idle".into()).spawn(wait);
    thread.map(drop).map_err(|error| Error::new(ErrorKind::ResourceLimit).with_cause(error))
}

fn wait_for_context(context: &Context) -> Result<()> {
    loop {
        // SAFETY: the context is current on this thread.
        let code = unsafe { (context.driver().cuCtxSynchronize)() };
        match context.check(code, "cuCtxSynchronize") {
            // A capture is in the way, or something else that passes: nothing is known yet about the work.
            Err(error) if error.kind() != ErrorKind::DeviceLost => std::thread::sleep(Duration::from_millis(10)),
            result => return result,
        }
    }
}

// SAFETY: done only when an event behind the work is, or the context was synchronised after it was submitted.
unsafe impl EventBackend for EarlierWork {
    fn is_done(&self) -> Result<bool> {
        let mut state = lock(&self.state);
        if let State::Capturing { since } = *state {
            *state = State::begin(&self.context, since)?;
        }
        match &*state {
            State::Capturing { .. } => Ok(false),
            State::Recorded(event) => event.is_done(),
            State::Synchronizing(result) => match &*lock(result) {
                None => Ok(false),
                Some(result) => result.clone().map(|()| true),
            },
        }
    }
}

impl fmt::Debug for EarlierWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EarlierWork").field("device", &self.context.id()).finish_non_exhaustive()
    }
}

use std::sync::{Arc, Weak};
use std::task::Waker;

use tokio::sync::Notify;

use super::report::PathBytes;
use super::timer::Expire;
use crate::device::{DeviceId, DeviceStream};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};
use crate::{Error, ErrorKind};

/// What the observing side says to the working side of a transfer. It knows nothing of the outcome's type, so that
/// timers and engines can hold it.
pub(crate) struct Control {
    cancelled: AtomicBool,
    /// Tells those who work that the rest of it is not wanted any more.
    unwanted: Notify,
    state: Mutex<State>,
    report: Arc<PathBytes>,
}

#[derive(Default)]
struct State {
    waker: Option<Waker>,
    expired: bool,
    stream: Option<DeviceStream>,
    /// Why the transfer must fail although the work itself may succeed.
    refusal: Option<Error>,
    driver: Option<Weak<dyn Driver>>,
    device: Option<DeviceId>,
}

/// The working side, as far as it wants to be told.
pub(crate) trait Driver: Send + Sync {
    /// Stream order was asked for; everything may be enqueued already.
    fn ordered(&self);
}

impl Control {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            cancelled: AtomicBool::new(false),
            unwanted: Notify::new(),
            state: Mutex::new(State::default()),
            report: Arc::default(),
        })
    }

    pub(crate) fn report(&self) -> &Arc<PathBytes> {
        &self.report
    }

    pub(crate) fn attach(&self, driver: Weak<dyn Driver>, device: DeviceId) {
        let mut state = lock(&self.state);
        state.driver = Some(driver);
        state.device = Some(device);
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.give_up();
    }

    /// Wakes those who wait in [`unwanted`](Self::unwanted) after they have been given a reason.
    pub(crate) fn give_up(&self) {
        self.unwanted.notify_waiters();
    }

    /// Waits until `is_moot` is true; whatever makes it true calls [`give_up`](Self::give_up) afterwards.
    pub(crate) async fn unwanted(&self, is_moot: impl Fn() -> bool) {
        let mut notified = std::pin::pin!(self.unwanted.notified());
        // First the place in the queue, then the look.
        notified.as_mut().enable();
        if !is_moot() {
            notified.await;
        }
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(super) fn is_expired(&self) -> bool {
        lock(&self.state).expired
    }

    pub(super) fn set_waker(&self, waker: &Waker) {
        let old = {
            let mut state = lock(&self.state);
            match &state.waker {
                Some(old) if old.will_wake(waker) => None,
                _ => state.waker.replace(waker.clone()),
            }
        };
        drop(old);
    }

    pub(super) fn wake(&self) {
        let waker = lock(&self.state).waker.take();
        wake(waker);
    }

    pub(super) fn order(&self, stream: &DeviceStream) {
        let (device, driver) = {
            let state = lock(&self.state);
            (state.device, state.driver.as_ref().and_then(Weak::upgrade))
        };
        if let Err(error) = check(stream, device) {
            lock(&self.state).refusal.get_or_insert(error);
            return self.cancel();
        }
        let old = lock(&self.state).stream.replace(stream.clone());
        drop(old);
        if let Some(driver) = driver {
            driver.ordered();
        }
    }

    pub(crate) fn stream(&self) -> Option<DeviceStream> {
        lock(&self.state).stream.clone()
    }

    pub(super) fn take_refusal(&self) -> Option<Error> {
        lock(&self.state).refusal.take()
    }
}

impl Expire for Control {
    fn expire(&self) {
        let waker = {
            let mut state = lock(&self.state);
            state.expired = true;
            state.waker.take()
        };
        // Only now: whoever sees the transfer end as cancelled must see why.
        self.cancel();
        wake(waker);
    }
}

/// A waker may run any code: never under a lock.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn check(stream: &DeviceStream, device: Option<DeviceId>) -> Result<(), Error> {
    if let Some(device) = device.filter(|&device| device != stream.device_id()) {
        let other = stream.device_id();
        return Err(Error::invalid_input(format!(
            "the stream belongs to {other}, but the buffer of the transfer to {device}"
        )));
    }
    if stream.backend().is_capturing()? {
        return Err(Error::new(ErrorKind::InvalidInput).with_message(
            "the stream is being captured into a graph; a transfer cannot be captured: start it outside the capture",
        ));
    }
    Ok(())
}

use std::collections::VecDeque;
use std::time::Duration;

use warpio_core::engine::Sent;

use super::worker::guarded;

/// The large copies that one thread sent, the oldest first.
///
/// Before it reads into another slot, it waits until no more than one of its copies is on the way. So it fills the same
/// two slots by turns, which its processor's caches still hold, and the reactor need not be there first for that.
#[derive(Debug, Default)]
pub(super) struct Copies(VecDeque<Sent>);

impl Copies {
    /// So many are on the way while the thread reads on.
    const AHEAD: usize = 1;
    /// A copy that takes longer waits for something else than the link.
    const PATIENCE: Duration = Duration::from_millis(5);

    /// Adds a copy, if one was sent.
    pub(super) fn add(&mut self, copy: Option<Sent>) {
        self.0.extend(copy);
    }

    /// Waits for the oldest, but for as many as may be on the way.
    pub(super) fn make_room(&mut self) {
        while self.0.len() > Self::AHEAD {
            if let Some(copy) = self.0.pop_front() {
                // What is to be read next is not the copy's transfer, and does not fail with its waker.
                guarded(|| copy.wait(Self::PATIENCE));
            }
        }
    }
}

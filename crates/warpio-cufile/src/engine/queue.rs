use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::piece::Piece;

/// How many turns are looked at for one that a piece continues.
const NEAR: usize = 8;

/// Pieces that wait for a thread, by turns between the transfers. Pieces that continue each other share a turn, so that
/// they can go as one request.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Debug, Default)]
struct State {
    turns: VecDeque<VecDeque<Piece>>,
    waiting: usize,
    closed: bool,
}

/// How much to take at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Take {
    pub(super) pieces: usize,
    pub(super) bytes: usize,
    /// Only pieces that continue each other.
    pub(super) contiguous: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds pieces of one transfer, in order.
    pub(super) fn push(&self, pieces: Vec<Piece>) {
        if pieces.is_empty() {
            return;
        }
        let count = pieces.len();
        let sleepers = {
            let mut state = self.lock();
            state.push(pieces);
            state.waiting.min(count)
        };
        match sleepers {
            0 => {}
            1 => self.ready.notify_one(),
            _ => self.ready.notify_all(),
        }
    }

    /// Blocks until there is something, and takes it; `None` once the queue was closed and nothing is left.
    pub(super) fn take(&self, take: Take) -> Option<Vec<Piece>> {
        loop {
            let (taken, moot) = {
                let mut state = self.lock();
                while state.turns.is_empty() && !state.closed {
                    state.waiting += 1;
                    state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
                    state.waiting -= 1;
                }
                if state.turns.is_empty() {
                    return None;
                }
                state.take(take)
            };
            // Ending them calls wakers, which may be anybody's code.
            moot.into_iter().for_each(Piece::skip);
            if !taken.is_empty() {
                return Some(taken);
            }
        }
    }

    /// Takes everything that waits.
    pub(super) fn drain(&self) -> Vec<Piece> {
        std::mem::take(&mut self.lock().turns).into_iter().flatten().collect()
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
    }
}

impl State {
    fn push(&mut self, pieces: Vec<Piece>) {
        let mut pieces = pieces.into_iter().peekable();
        if let Some(first) = pieces.peek() {
            let continued = |turn: &&mut VecDeque<Piece>| turn.back().is_some_and(|last| last.is_followed_by(first));
            if let Some(turn) = self.turns.iter_mut().rev().take(NEAR).find(continued) {
                return turn.extend(pieces);
            }
        }
        self.turns.push_back(pieces.collect());
    }

    /// What to do next, and what need not be done any more.
    fn take(&mut self, take: Take) -> (Vec<Piece>, Vec<Piece>) {
        let (mut taken, mut moot) = (Vec::<Piece>::new(), Vec::new());
        let mut bytes = 0;
        while taken.len() < take.pieces {
            let Some(turn) = self.turns.front_mut() else { break };
            let Some(next) = turn.front() else {
                self.turns.pop_front();
                continue;
            };
            let fits = taken.last().is_none_or(|last| {
                bytes + next.left() <= take.bytes && (!take.contiguous || last.is_followed_by(next))
            });
            if !fits {
                break;
            }
            if let Some(next) = turn.pop_front() {
                bytes += next.left();
                let target = if next.segment().is_moot() { &mut moot } else { &mut taken };
                target.push(next);
            }
            if !take.contiguous {
                // Another transfer's turn.
                self.turns.rotate_left(1);
            }
        }
        if take.contiguous && !self.turns.is_empty() {
            self.turns.rotate_left(1);
        }
        self.turns.retain(|turn| !turn.is_empty());
        (taken, moot)
    }
}

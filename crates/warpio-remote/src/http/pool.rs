use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::target::HttpUrl;

/// A server by which protocol, and the network thread that its connections belong to: a socket wakes the thread that
/// it was made on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    thread: usize,
    tls: bool,
    host: String,
    port: u16,
}

impl Key {
    pub(super) fn new(url: &HttpUrl) -> Self {
        Self { thread: crate::net::current_thread(), tls: url.tls, host: url.host.clone(), port: url.port }
    }
}

/// Connections between requests.
pub(super) struct Pool {
    idle: Mutex<HashMap<Key, Vec<(Connection, Instant)>>>,
    keep: Duration,
}

impl Pool {
    /// Connections are kept for so long: servers hang up after some time, and say nothing.
    pub(super) fn new(keep: Duration) -> Self {
        Self { idle: Mutex::default(), keep }
    }

    /// The connection used last, if there is one that can be used again.
    pub(super) fn take(&self, key: &Key) -> Option<Connection> {
        loop {
            let (mut connection, since) = {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.get_mut(key)?.pop()?
            };
            // Older ones are further down.
            if since.elapsed() > self.keep {
                self.forget(key);
                return None;
            }
            if connection.is_quiet() {
                return Some(connection);
            }
        }
    }

    pub(super) fn put(&self, key: Key, connection: Connection) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.entry(key).or_default().push((connection, Instant::now()));
    }

    fn forget(&self, key: &Key) {
        let old = self.idle.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        // Closing sockets takes a while: not under the lock.
        drop(old);
    }
}

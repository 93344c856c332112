//! What can be set about remote reads and writes.

use std::time::Duration;

use crate::kind::Kind;

/// How remote sources are read and written. The defaults are the fast ones; nobody needs to set any of it.
///
/// ```
/// use std::time::Duration;
/// use warpio_remote::RemoteSettings;
///
/// let mut settings = RemoteSettings::default();
/// settings.attempts = 3;
/// settings.stall_timeout = Duration::from_secs(5);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RemoteSettings {
    /// How often a request is sent at most, until it succeeds. Progress starts the count anew. Default 5: the last of
    /// them is sent about three seconds after the first.
    pub attempts: u32,
    /// Statuses after which a request is sent again. Default 408, 429, 500, 502, 503 and 504: those that say that it
    /// may pass.
    pub statuses: Vec<u16>,
    /// The longest wait before the first repetition; it doubles with each further one, up to
    /// [`backoff_limit`](Self::backoff_limit), and each wait is random up to it. Default 200 ms.
    pub backoff: Duration,
    /// The longest wait before a repetition. Default 20 s. A server that wants more is told as an error.
    pub backoff_limit: Duration,
    /// From the name of the server to a connection that can be used. Default 10 s.
    pub connect_timeout: Duration,
    /// A connection that carries nothing for so long is given up. Default 30 s.
    pub stall_timeout: Duration,
    /// A request, its body and its repetitions together. Default none: a transfer has its own deadline.
    pub total_timeout: Option<Duration>,
    /// The most connections to one server. Fewer are used where more bring nothing. Default 64.
    pub connections: usize,
    /// Uses [`connections`](Self::connections) from the beginning, whatever they bring.
    pub fixed_connections: bool,
    /// How much one request asks for, in bytes. Default none: it is chosen by the server's latency and rate.
    pub part_size: Option<u64>,
    /// How much one request of an upload sends, in bytes; at least 5 MiB. Default none: 8 MiB, and more from 8 GiB on.
    pub write_part_size: Option<u64>,
    /// How much of a sink may be on its way to the store, in bytes. Default 128 MiB.
    pub write_memory: u64,
    /// A request that is not answered for so long, or whose body is then less than half as fast as others of this
    /// server, gets a rival: what is missing is asked for over another connection, and read from there when that is
    /// answered. Default none.
    pub hedge_after: Option<Duration>,
    /// The kinds of sources that URLs may name. Default all.
    pub kinds: Vec<Kind>,
    /// Threads for network work. Default none: one per core that the process may use, twelve at most.
    pub threads: Option<usize>,
    /// Certificates, as PEM, that servers may be signed by, besides those of the system.
    pub root_certificates: Vec<Vec<u8>>,
}

impl Default for RemoteSettings {
    fn default() -> Self {
        Self {
            attempts: 5,
            statuses: vec![408, 429, 500, 502, 503, 504],
            backoff: Duration::from_millis(200),
            backoff_limit: Duration::from_secs(20),
            connect_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
            total_timeout: None,
            connections: 64,
            fixed_connections: false,
            part_size: None,
            write_part_size: None,
            write_memory: 128 << 20,
            hedge_after: None,
            kinds: Kind::ALL.to_vec(),
            threads: None,
            root_certificates: Vec::new(),
        }
    }
}

impl RemoteSettings {
    /// How many network threads to start.
    pub(crate) fn thread_count(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(2, usize::from);
        self.threads.unwrap_or_else(|| cores().min(12)).max(1)
    }
}

use std::time::Duration;

/// Which of cuFile's interfaces carries requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Route {
    /// Batches for requests of up to 1 MiB, calls for larger ones.
    #[default]
    Auto,
    /// Calls that block, on threads of the engine.
    Sync,
    /// Batches.
    Batch,
    /// Calls in the order of a stream.
    Stream,
}

/// How a [`CuFileEngine`](super::CuFileEngine) works.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// Which interface carries requests.
    pub route: Route,
    /// Threads for calls. Each has one request in flight; eight of 16 MiB are what two fast drives need.
    pub threads: usize,
    /// The largest request of a call, in bytes: neighbouring segments go together up to here. 16 MiB is the largest
    /// that the library passes to the kernel in one piece.
    pub call_size: usize,
    /// The largest entry of a batch, in bytes.
    pub entry_size: usize,
    /// Entries of batches in flight at once. With more than 64, the library's own bounce buffers ran out and a
    /// submission never returned.
    pub batch_depth: usize,
    /// Requests in flight on a stream at once.
    pub stream_depth: usize,
    /// How long a call, or an entry of a batch, may take before what waits behind it goes another way.
    pub stall: Duration,
    /// The most bytes of GPU memory that the engine registers by itself: buffers that are used again.
    pub registered: u64,
    /// Whether to work in compatibility mode too. It is slower than every other way, and good for comparing only.
    pub allow_compat: bool,
}

const MIB: usize = 1 << 20;

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            route: Route::Auto,
            threads: 8,
            call_size: 16 * MIB,
            entry_size: MIB,
            batch_depth: 64,
            stream_depth: 16,
            stall: Duration::from_secs(30),
            registered: 1 << 30,
            allow_compat: false,
        }
    }
}

/// What an engine did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineStats {
    /// Reads and writes by calls.
    pub calls: u64,
    /// Entries of batches that were submitted, those asked for again included.
    pub entries: u64,
    /// Submissions of batches.
    pub submissions: u64,
    /// Batches that were given up, with all of their entries.
    pub lost_batches: u64,
    /// Reads and writes on streams.
    pub stream_calls: u64,
    /// Requests that failed in a batch or on a stream and went by a call then.
    pub retries: u64,
    /// Segments that another engine took over because cuFile refused them.
    pub refused: u64,
    /// Bytes of GPU memory that the engine has registered by itself.
    pub registered: u64,
    /// Segments under way.
    pub in_flight: usize,
}

use super::Result;

/// What is read, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    /// In bytes.
    pub(crate) block: usize,
    /// Reads in flight.
    pub(crate) depth: usize,
    pub(crate) random: bool,
    /// Past the page cache.
    pub(crate) direct: bool,
}

/// What one run did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) ops: f64,
    pub(crate) bytes: f64,
    pub(crate) seconds: f64,
    /// User and system time of all threads.
    pub(crate) cpu_seconds: f64,
}

impl Sample {
    pub(crate) fn ops_per_s(&self) -> f64 {
        self.ops / self.seconds
    }

    pub(crate) fn gb_per_s(&self) -> f64 {
        self.bytes / self.seconds / 1e9
    }
}

/// One of those compared. `run` takes the seconds that it should take.
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) run: Box<dyn FnMut(f64) -> Result<Sample>>,
}

impl Contender {
    pub(crate) fn new(name: impl Into<String>, run: impl FnMut(f64) -> Result<Sample> + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

/// Numbers that look random, the same ones in each run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

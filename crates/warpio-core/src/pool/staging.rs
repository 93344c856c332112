use std::fmt;
use std::task::{Context, Poll, Wake, Waker};

use super::class::Class;
use super::config::PoolConfig;
use super::slot::{Slot, StagingSlab};
use crate::device::DeviceBackend;
use crate::sync::{Arc, spawn};
use crate::{Error, Result};

/// The bounded pool of staging memory of one device. Waiting for a slot is the back-pressure of every transfer.
///
/// Slots are lent first come, first served, in two sizes with budgets of their own, so that a small transfer never
/// waits behind a large one. Memory is allocated on demand, and given back by [`trim`](Self::trim).
#[derive(Clone)]
pub struct StagingPool(Arc<Inner>);

struct Inner {
    backend: Arc<dyn DeviceBackend>,
    config: PoolConfig,
    small: Arc<Class>,
    large: Arc<Class>,
}

/// What a pool holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// The most that the pool may hold, in bytes.
    pub budget: usize,
    /// What it holds now, lent or free, in bytes.
    pub allocated: usize,
    /// What is free of it, in bytes.
    pub free: usize,
}

impl StagingPool {
    pub(crate) fn new(backend: Arc<dyn DeviceBackend>, config: PoolConfig) -> Self {
        let small = config.small_budget();
        Self(Arc::new(Inner {
            backend,
            small: Arc::new(Class::new(config.small_slot_len, small, small.min(config.slab_len))),
            large: Arc::new(Class::new(config.slot_len, config.budget.saturating_sub(small), config.slab_len)),
            config,
        }))
    }

    /// The size of a large slot: no acquired piece may be longer. In bytes.
    pub fn slot_len(&self) -> usize {
        self.0.config.slot_len
    }

    /// The size of a small slot, in bytes.
    pub fn small_slot_len(&self) -> usize {
        self.0.config.small_slot_len
    }

    /// How many large slots the budget allows.
    pub fn max_slots(&self) -> usize {
        self.0.large.max_slots()
    }

    /// How many small slots the budget allows.
    pub fn max_small_slots(&self) -> usize {
        self.0.small.max_slots()
    }

    fn class(&self, len: usize) -> Result<&Arc<Class>> {
        match len {
            _ if len <= self.0.small.slot_len => Ok(&self.0.small),
            _ if len <= self.0.large.slot_len => Ok(&self.0.large),
            _ => Err(Error::invalid_input(format!(
                "a staging slot of {len} bytes was asked for, but slots have {} bytes",
                self.0.large.slot_len
            ))),
        }
    }

    /// A slot of at least `len` bytes, if one is free now. Nothing is allocated.
    pub fn try_acquire(&self, len: usize) -> Option<Slot> {
        let class = self.class(len).ok()?;
        Some(Slot::new(class.queue.try_take()?, class.clone()))
    }

    /// Waits for a slot of at least `len` bytes. Memory is allocated by a thread of its own, never by the caller.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when no slot is that large;
    /// [`OutOfMemory`](crate::ErrorKind::OutOfMemory) when the budget has no room for one, or every one is leaked; what
    /// the device reports when not a single one can be allocated.
    pub async fn acquire(&self, len: usize) -> Result<Slot> {
        let class = self.class(len)?;
        let mut take = class.queue.take();
        let first = std::future::poll_fn(|cx| Poll::Ready(take.enlist(cx.waker()))).await;
        if let Some(memory) = first {
            return Ok(Slot::new(memory, class.clone()));
        }
        if class.begin_growth() {
            let (worker, backend) = (class.clone(), self.0.backend.clone());
            if !spawn("warpio-staging", move || worker.grow(&backend)) {
                class.grow(&self.0.backend);
            }
        } else if let Some(error) = class.hopeless() {
            return Err(error);
        }
        Ok(Slot::new(take.await?, class.clone()))
    }

    /// Blocks until a slot of at least `len` bytes is free, or allocates one: for engines' own threads.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    pub fn acquire_blocking(&self, len: usize) -> Result<Slot> {
        let class = self.class(len)?;
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        let mut cx = Context::from_waker(&waker);
        let mut take = std::pin::pin!(class.queue.take());
        if let Some(memory) = take.enlist(&waker) {
            return Ok(Slot::new(memory, class.clone()));
        }
        if class.begin_growth() {
            class.grow(&self.0.backend);
        } else if let Some(error) = class.hopeless() {
            return Err(error);
        }
        loop {
            match take.as_mut().poll(&mut cx) {
                Poll::Ready(memory) => return Ok(Slot::new(memory?, class.clone())),
                Poll::Pending => std::thread::park(),
            }
        }
    }

    /// As [`acquire_blocking`](Self::acquire_blocking), for worker number `home` of `workers` that fill slots over and
    /// over: each gets slots back that it used before, as the caches of its processor may still hold them. Two for each
    /// worker are allocated before one takes another's.
    ///
    /// # Errors
    /// As for [`acquire`](Self::acquire).
    pub fn acquire_near(&self, len: usize, home: usize, workers: usize) -> Result<Slot> {
        let class = self.class(len)?;
        for _ in 0..2 {
            if let Some(memory) = class.try_take_near(home, 2 * workers) {
                return Ok(Slot::new(memory, class.clone()));
            }
            if class.begin_growth() {
                class.grow(&self.0.backend);
            }
        }
        self.acquire_blocking(len)
    }

    /// Allocates up to `bytes` of large slots now, so that no transfer has to wait for it later. Blocks meanwhile.
    pub fn warm(&self, bytes: usize) {
        let class = &self.0.large;
        while class.bytes() < bytes {
            let before = class.bytes();
            if class.begin_growth() {
                class.grow(&self.0.backend);
            }
            if class.bytes() == before {
                return;
            }
        }
    }

    /// The memory that exists now and of which a part is free, for engines that register it with the kernel.
    pub fn slabs(&self) -> Vec<StagingSlab> {
        self.0.small.slabs().into_iter().chain(self.0.large.slabs()).map(StagingSlab::new).collect()
    }

    /// Gives memory back of which no part is lent and no [`StagingSlab`] is held. Returns the bytes released.
    pub fn trim(&self) -> usize {
        self.0.small.trim() + self.0.large.trim()
    }

    /// What the pool holds.
    pub fn stats(&self) -> PoolStats {
        let mut free = 0;
        for class in [&self.0.small, &self.0.large] {
            class.queue.for_each_free(|_| free += class.slot_len);
        }
        PoolStats { budget: self.0.config.budget, allocated: self.0.small.bytes() + self.0.large.bytes(), free }
    }
}

/// Wakes a thread that waits as a future.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

impl fmt::Debug for StagingPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StagingPool").field("config", &self.0.config).field("stats", &self.stats()).finish()
    }
}

//! Runs of a task read as segments, by an engine that knows nothing of reads of many ranges.

use std::sync::Arc;

use super::Gather;
use super::place::{Memory, Placed};
use super::task::{GatherRun, GatherTask};
use crate::engine::Engine;
use crate::engine::batch::{Batch, Target};
use crate::engine::lane::LanePool;
use crate::engine::operation::Operation;
use crate::engine::segment::Segment;
use crate::pool::Slot;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, lock, spawn};
use crate::transfer::PathKind;
use crate::{Error, Result};

/// Carries a read of many ranges out by the segments that `engine` takes, from a thread of its own: it waits for staging
/// memory.
pub(in crate::engine) fn by_segments(engine: Arc<dyn Engine>, target: Target, gather: Gather) {
    // Where no thread can be had, the read is dropped, and fails.
    spawn("warpio-gather", move || {
        if gather.is_moot() {
            return;
        }
        let (lanes, align) = (Arc::new(LanePool::default()), engine.segment_align());
        for task in gather.plan() {
            task.read_by(&engine, &target, align, &lanes);
        }
    });
}

impl GatherTask {
    /// Has its runs read by `engine`, a batch of segments for each staging slot, and scatters them from there on a copy
    /// stream of `lanes`. Reads into a slot begin and end at multiples of `align` bytes, a power of two, in the source
    /// and in memory. Blocks until there are slots.
    pub fn read_by(self, engine: &Arc<dyn Engine>, target: &Target, align: usize, lanes: &Arc<LanePool>) {
        let again = Again { engine: engine.clone(), target: target.clone(), align, lanes: lanes.clone() };
        let runs = self.runs();
        let room = self.device().staging().slot_len();
        let (mut task, mut rest) = (Some(self), runs.as_slice());
        while let Some(whole) = task.take() {
            if whole.is_moot() {
                return drop(whole);
            }
            let (placed, len) = whole.place_runs(rest, align, room);
            rest = &rest[placed.len()..];
            let part = if rest.is_empty() {
                whole
            } else {
                let part = whole.split_off(placed.iter().map(|placed| placed.run.clone()).collect());
                task = Some(whole);
                part
            };
            match part.begin(placed, len, again.clone()) {
                Ok(segments) => engine.submit(Batch::new(target.clone(), segments)),
                Err((part, error)) => part.fail(&error),
            }
        }
    }

    fn begin(self, placed: Vec<Placed>, len: usize, again: Again) -> std::result::Result<Vec<Segment>, (Self, Error)> {
        let slot = match (len > 0).then(|| self.device().staging().acquire_blocking(len)).transpose() {
            Ok(slot) => slot,
            Err(error) => return Err((self, error)),
        };
        let base = slot.as_ref().map(Slot::as_ptr);
        let operation = self.shared.operation.clone();
        let parts = Arc::new(Parts {
            left: AtomicUsize::new(placed.len()),
            reads: placed.iter().map(Read::new).collect(),
            errors: Mutex::default(),
            end: Mutex::new(Some(End { task: self, slot, again })),
            operation,
        });
        let segment = |(index, placed): (usize, &Placed)| {
            let memory = match (placed.memory, base) {
                (Memory::Own(own), _) => own,
                // SAFETY: the slot is as long as the placement said.
                (Memory::Slot(at), Some(base)) => unsafe { base.add(at) },
                (Memory::Slot(_), None) => unreachable!("a run in a slot needs one"),
            };
            Segment::of_parts(parts.clone(), index, placed.offset, memory, placed.len)
        };
        Ok(placed.iter().enumerate().map(segment).collect())
    }

    /// Brings runs that were read into `slot`, or to their own places, to where they belong.
    fn deliver(mut self, slot: Option<Slot>, runs: &[(GatherRun, Result<usize>)], lanes: &LanePool) {
        if let (Some(slot), true) = (&slot, self.device().is_host_visible()) {
            for (run, result) in runs.iter().filter(|(run, _)| !run.own) {
                if let Ok(n) = result {
                    self.copy_out_of(run, &slot.as_slice()[run.slot_offset..run.slot_offset + n]);
                }
            }
        }
        match slot.filter(|_| !self.device().is_host_visible()) {
            None => {
                self.settle(runs);
                self.end();
            }
            Some(slot) => match lanes.get(self.device()) {
                Ok(lane) => self.scatter(&lane, slot, runs),
                Err(error) => {
                    drop(slot);
                    self.fail_runs(runs.iter().map(|(run, _)| run), &error);
                }
            },
        }
    }
}

/// The reads that fill one slot. The last one to end sends the slot on.
pub(in crate::engine) struct Parts {
    operation: Arc<Operation>,
    /// Segments that have not ended.
    left: AtomicUsize,
    reads: Box<[Read]>,
    errors: Mutex<Vec<(usize, Error)>>,
    end: Mutex<Option<End>>,
}

struct Read {
    run: GatherRun,
    head: usize,
    /// How many bytes arrived without a gap, those before the run's included.
    arrived: AtomicUsize,
    /// By which way: an index in [`PathKind::ALL`].
    path: AtomicU64,
}

struct End {
    task: GatherTask,
    slot: Option<Slot>,
    again: Again,
}

/// How the reads were started, for those that have to be again.
#[derive(Clone)]
struct Again {
    engine: Arc<dyn Engine>,
    target: Target,
    align: usize,
    lanes: Arc<LanePool>,
}

impl Again {
    /// Reads the pieces of runs that failed each by itself, on another thread: this one must not wait for staging
    /// memory.
    fn each_alone(&self, task: &GatherTask, runs: &mut Vec<(GatherRun, Result<usize>)>) {
        let mut alone = Vec::new();
        runs.retain(|(run, result)| {
            let pieces = result.as_ref().err().filter(|_| !task.is_moot()).and_then(|_| task.each_alone(run));
            let keep = pieces.is_none();
            alone.extend(pieces.into_iter().flatten());
            keep
        });
        if !alone.is_empty() {
            let (rest, again) = (task.split_off(alone), self.clone());
            spawn("warpio-gather", move || rest.read_by(&again.engine, &again.target, again.align, &again.lanes));
        }
    }
}

impl Read {
    fn new(placed: &Placed) -> Self {
        Self {
            run: placed.run.clone(),
            head: placed.head,
            arrived: AtomicUsize::new(placed.len),
            path: AtomicU64::new(PathKind::PageCache as u64),
        }
    }
}

impl Parts {
    pub(in crate::engine) fn operation(&self) -> &Arc<Operation> {
        &self.operation
    }

    /// A segment was cut in two.
    pub(in crate::engine) fn one_more(&self) {
        self.left.fetch_add(1, Ordering::AcqRel);
    }

    /// A segment has ended: of the `len` bytes at `at` in read number `index`, some arrived.
    pub(in crate::engine) fn ended(&self, index: usize, at: usize, len: usize, path: PathKind, result: Result<usize>) {
        let read = &self.reads[index];
        read.path.store(path as u64, Ordering::Release);
        match result {
            Ok(n) if n < len => _ = read.arrived.fetch_min(at + n, Ordering::AcqRel),
            Ok(_) => {}
            Err(error) => lock(&self.errors).push((index, error)),
        }
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.deliver();
        }
    }

    fn deliver(&self) {
        let Some(End { mut task, slot, again }) = lock(&self.end).take() else { return };
        let mut errors = std::mem::take(&mut *lock(&self.errors));
        errors.sort_by_key(|(index, _)| std::cmp::Reverse(*index));
        let mut counts = [0u64; PathKind::ALL.len()];
        let result = |(index, read): (usize, &Read)| {
            let mut failed = None;
            while errors.last().is_some_and(|(at, _)| *at == index) {
                failed = errors.pop();
            }
            let n = read.arrived.load(Ordering::Acquire).saturating_sub(read.head).min(read.run.len());
            (read.run.clone(), failed.map_or(Ok(n), |(_, error)| Err(error)))
        };
        let mut runs: Vec<_> = self.reads.iter().enumerate().map(result).collect();
        // They need not all have gone the same way: the greater part names it.
        for read in &self.reads {
            counts[read.path.load(Ordering::Acquire) as usize] += read.run.len() as u64;
        }
        let most = (0..counts.len()).max_by_key(|&path| counts[path]).unwrap_or(0);
        task.set_path(PathKind::ALL[most]);
        again.each_alone(&task, &mut runs);
        task.deliver(slot, &runs, &again.lanes);
    }
}

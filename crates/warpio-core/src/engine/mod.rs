//! The seam between transfers and the drivers that carry them out.
//!
//! A transfer is an operation that holds its buffer (the *lease*) and is cut into [`Segment`]s. An [`Engine`] receives
//! them as a [`Batch`] and finishes every one, in any order and on any thread; the last one resolves the transfer. The
//! lease is released when no segment and no device copy can touch it.

mod batch;
mod completion;
mod fair;
mod gather;
mod lane;
mod ledger;
mod operation;
mod outgoing;
mod seats;
mod segment;
mod sent;
mod start;
mod start_gather;
mod stats;

pub use crate::buffer::{Attachment, MemoryBlock};
pub use batch::{Batch, Target};
pub use completion::Completion;
pub use fair::FairQueue;
pub use gather::{Gather, GatherRun, GatherTask};
pub use lane::{Lane, LanePool, Lanes};
pub use ledger::{Entry, Ledger, unfinished};
pub use outgoing::Outgoing;
pub use seats::{Seat, Seats};
pub use segment::{Direction, Segment};
pub use sent::Sent;
pub use start::Starter;
pub use stats::{Stats, StatsSnapshot};

use std::fmt::Debug;

/// Carries out segments.
///
/// # Contract
/// * `submit` never blocks, never fails and may be called from any thread, outside tokio too: what cannot be done is
///   said through the segments.
/// * Every segment is finished, or dropped, which fails its transfer as [`Gone`](crate::ErrorKind::Gone).
/// * A segment is neither finished nor dropped while anything can still touch its memory.
/// * A large batch must not starve a small one: [`FairQueue`] takes turns between batches.
pub trait Engine: Send + Sync + Debug {
    /// Takes segments.
    fn submit(&self, batch: Batch);

    /// Whether it carries out [`gather`](Self::gather). Where it does not, a read of many ranges reaches it as segments
    /// of host memory: batches of joined ranges, each for one staging slot.
    fn gathers(&self) -> bool {
        false
    }

    /// What such segments have to begin and end at, in the source and in memory, to need no staging memory of the
    /// engine's own: they hold some already, and would wait for each other. A power of two, in bytes.
    fn segment_align(&self) -> usize {
        1
    }

    /// Takes a read of many ranges: plans it, and carries its tasks out by turns with everything else.
    fn gather(&self, target: Target, gather: Gather) {
        drop(target);
        gather.fail(crate::Error::unsupported("this engine takes segments only"));
    }

    /// The name used in reports, in `--json` and to force this engine.
    fn name(&self) -> &'static str;
}

const _: Option<&dyn Engine> = None;

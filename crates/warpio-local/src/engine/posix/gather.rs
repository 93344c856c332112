use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::Advice;
use warpio_core::config::DirectIo;
use warpio_core::engine::{Engine, GatherRun, GatherTask, Lane, Lanes, Target};
use warpio_core::{Error, PathKind, Result, Slot};

use super::Shared;
use super::cached::{CachedReads, pread_waiting};
use super::read::copy_mapped;
use crate::alignment::COMMON_ALIGN;
use crate::engine::OpenFile;
use crate::engine::policy::direct_target;
use crate::sys::cache::advise;
use crate::sys::map::FileMap;

/// A thread that serves tasks, and what it has for that.
pub(super) struct Gatherer<'a> {
    pub(super) lanes: &'a mut Lanes,
    /// Host memory for runs of several pieces.
    pub(super) scratch: &'a mut Vec<u8>,
    pub(super) shared: &'a Shared,
    pub(super) worker: usize,
}

impl Gatherer<'_> {
    /// Reads the runs of one task: into a staging slot, from which the device scatters them, or straight into host
    /// memory. Runs that are not cached go on to the engine for that, if there is one.
    pub(super) fn serve(&mut self, target: Target, mut task: GatherTask) {
        if task.is_moot() {
            drop(target);
            return drop(task);
        }
        match target.downcast::<OpenFile>() {
            Ok(file) => self.serve_file(&file, task),
            Err(target) => match target.downcast::<FileMap>() {
                Ok(map) => {
                    task.set_path(PathKind::Mmap);
                    // SAFETY: the place of a run is valid for its length, and no buffer lies in the map.
                    let read = |ptr, run: &GatherRun| unsafe { copy_mapped(&map, run.range.start, ptr, run.len()) };
                    let read = self.read(task, |ptr, run| Some(read(ptr, run)));
                    // Before the transfer can end, as for a single read.
                    drop(map);
                    if let Some((task, landing, landed, _)) = read {
                        landing.deliver(task, &landed);
                    }
                }
                Err(_) => task.fail(&Error::invalid_input("this engine serves open files only")),
            },
        }
    }

    fn serve_file(&mut self, file: &Arc<OpenFile>, task: GatherTask) {
        if let (Some(engine), DirectIo::Always) = (&self.shared.uncached, file.policy().read) {
            return self.forward(engine, file, task);
        }
        let uncached = self.shared.uncached_of(file);
        let mut reads = CachedReads::new(file);
        // SAFETY: the place of a run is valid for its length.
        let Some((task, mut landing, mut landed, missed)) = self.read(task, |ptr, run| unsafe { reads.read(ptr, run) })
        else {
            return;
        };
        match uncached.filter(|_| !missed.is_empty()) {
            Some(engine) => {
                let rest = task.split_off(missed);
                // What is there goes on its way before this thread waits for staging memory.
                landing.deliver(task, &landed);
                self.forward(engine, file, rest);
            }
            None => {
                ask_for(file, &missed);
                for run in missed {
                    // SAFETY: as above.
                    let read = |ptr, run: &GatherRun| Some(unsafe { pread_waiting(file, ptr, run) });
                    landing.read(&task, run, read, &mut landed);
                }
                landing.deliver(task, &landed);
            }
        }
    }

    /// Has a task read past the page cache, but for slots too small for what that asks for.
    fn forward(&mut self, engine: &Arc<dyn Engine>, file: &Arc<OpenFile>, task: GatherTask) {
        let align = file
            .direct()
            .map_or(1, |(_, align)| (align.offset() as usize).max(align.memory()).max(COMMON_ALIGN as usize));
        if !task.fits_aligned(align) {
            // The engine would need other slots for them, and wait while all are held by reads that wait like that.
            // SAFETY: the place of a run is valid for its length.
            let read = |ptr, run: &GatherRun| Some(unsafe { pread_waiting(file, ptr, run) });
            if let Some((task, landing, landed, _)) = self.read(task, read) {
                landing.deliver(task, &landed);
            }
            return;
        }
        task.read_by(engine, &direct_target(file.clone()), align, &self.shared.gather_lanes);
    }

    /// Reads every run to its place with `read`, which may pass. Returns the task, where its bytes are, the runs that
    /// were read and those that were not; `None` if the task has failed.
    fn read<'s>(
        &'s mut self,
        task: GatherTask,
        mut read: impl FnMut(*mut u8, &GatherRun) -> Option<Result<usize>>,
    ) -> Option<(GatherTask, Landing<'s>, Vec<Landed>, Vec<GatherRun>)> {
        let (runs, len) = task.layout();
        let mut landing = match self.landing(&task, len, &runs) {
            Ok(landing) => landing,
            Err(error) => {
                task.fail(&error);
                return None;
            }
        };
        let (mut landed, mut missed) = (Vec::with_capacity(runs.len()), Vec::new());
        for run in runs {
            missed.extend(landing.read(&task, run, &mut read, &mut landed));
        }
        Some((task, landing, landed, missed))
    }

    fn landing<'s>(&'s mut self, task: &GatherTask, len: usize, runs: &[GatherRun]) -> Result<Landing<'s>> {
        let device = task.device();
        if device.is_host_visible() {
            let longest = runs.iter().filter(|run| task.host_memory(run).is_none()).map(GatherRun::len).max();
            let need = longest.unwrap_or(0).max(self.scratch.len());
            self.scratch.resize(need, 0);
            return Ok(Landing::Host(self.scratch));
        }
        let slot = device.staging().acquire_near(len, self.worker, self.shared.threads)?;
        Ok(Landing::Device(self.lanes.get(device)?, slot))
    }
}

type Landed = (GatherRun, Result<usize>);

/// Where the runs of a task are read to.
enum Landing<'a> {
    /// Their own places in host memory, or scratch memory as long as the longest run of several pieces.
    Host(&'a mut Vec<u8>),
    Device(&'a Lane, Slot),
}

impl Landing<'_> {
    /// Memory that is valid for the run's length.
    fn place(&mut self, task: &GatherTask, run: &GatherRun) -> *mut u8 {
        match self {
            Self::Host(scratch) => task.host_memory(run).map_or(scratch.as_mut_ptr(), |own| own.as_ptr()),
            Self::Device(_, slot) => slot.as_ptr().as_ptr().wrapping_add(run.slot_offset),
        }
    }

    /// Reads a run with `read`, which may pass, and if that fails its pieces each by itself. Returns what was passed.
    fn read(
        &mut self,
        task: &GatherTask,
        run: GatherRun,
        mut read: impl FnMut(*mut u8, &GatherRun) -> Option<Result<usize>>,
        landed: &mut Vec<Landed>,
    ) -> Vec<GatherRun> {
        let result = read(self.place(task, &run), &run);
        let pieces = matches!(result, Some(Err(_))).then(|| task.each_alone(&run)).flatten();
        let mut missed = Vec::new();
        let mut settle = |landing: &Self, run, result| match result {
            Some(result) => landing.landed(task, run, result, landed),
            None => missed.push(run),
        };
        match pieces {
            None => settle(self, run, result),
            Some(pieces) => {
                for piece in pieces {
                    let result = read(self.place(task, &piece), &piece);
                    settle(self, piece, result);
                }
            }
        }
        missed
    }

    fn landed(&self, task: &GatherTask, run: GatherRun, result: Result<usize>, landed: &mut Vec<Landed>) {
        if let (Self::Host(scratch), Ok(n), None) = (self, &result, task.host_memory(&run)) {
            task.copy_out_of(&run, &scratch[..*n]);
        }
        landed.push((run, result));
    }

    fn deliver(self, task: GatherTask, landed: &[Landed]) {
        match self {
            Self::Host(_) => task.finish(landed),
            Self::Device(lane, slot) => task.scatter(lane, slot, landed),
        }
    }
}

/// Starts the reads of what is not cached, all at once, so that waiting for one waits for the others too.
fn ask_for(file: &OpenFile, runs: &[GatherRun]) {
    if !file.cache().can_miss() {
        return;
    }
    for run in runs {
        if let Err(error) = advise(file.as_fd(), &run.range, Advice::WillNeed) {
            tracing::trace!(%error, "a read cannot be started early");
        }
    }
}

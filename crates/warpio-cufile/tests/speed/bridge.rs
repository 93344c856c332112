//! What an entry of a batch costs the processor between a transfer and the library.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use futures::StreamExt;
use futures::executor::block_on;
use warpio_core::DeviceBytesMut;
use warpio_cufile::sys::{Descriptor, IoEvent, IoParams};
use warpio_cufile::{EngineOptions, Library, Route};

use crate::support::{Rig, aligned, finished};

const PIECE: usize = 4096;
const DEPTH: usize = 32;
const ENTRIES: usize = 6400;
const TRIES: usize = 12;
/// Microseconds. Without optimisation, everything takes some times as long.
const MOST: f64 = if cfg!(debug_assertions) { 20.0 } else { 5.0 };

/// The processor's time of the whole process, in nanoseconds.
fn cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn per_entry(work: impl FnOnce()) -> f64 {
    let before = cpu();
    work();
    (cpu() - before) as f64 / ENTRIES as f64 / 1000.0
}

/// The library alone, as a program would call it by hand: as many entries, in batches as large.
fn bare(library: &Library, file: &File, memory: &mut DeviceBytesMut) {
    let (mut handle, mut descriptor) = (std::ptr::null_mut(), Descriptor::of(file.as_raw_fd()));
    let mut batch = std::ptr::null_mut();
    let mut events = [IoEvent::NONE; DEPTH];
    // SAFETY: places for results; files, memory and entries outlive the batch.
    unsafe {
        assert_eq!((library.cuFileHandleRegister)(&mut handle, &mut descriptor).err.0, 0);
        assert_eq!((library.cuFileBatchIOSetUp)(&mut batch, DEPTH as u32).err.0, 0);
        for _ in 0..ENTRIES / DEPTH {
            let mut entries: Vec<_> = (0..DEPTH)
                .map(|i| IoParams {
                    mode: IoParams::BATCH,
                    base: memory.as_mut_ptr().cast(),
                    file_offset: (i * PIECE) as i64,
                    base_offset: (i * PIECE) as i64,
                    size: PIECE,
                    handle,
                    opcode: IoParams::READ,
                    cookie: (i + 1) as *mut _,
                })
                .collect();
            assert_eq!((library.cuFileBatchIOSubmit)(batch, DEPTH as u32, entries.as_mut_ptr(), 0).err.0, 0);
            let mut done = 0;
            while done < DEPTH {
                let mut count = DEPTH as u32;
                let status =
                    (library.cuFileBatchIOGetStatus)(batch, 1, &mut count, events.as_mut_ptr(), std::ptr::null_mut());
                assert_eq!(status.err.0, 0);
                done += count as usize;
            }
        }
        (library.cuFileBatchIODestroy)(batch);
        (library.cuFileHandleDeregister)(handle);
    }
}

#[test]
fn an_entry_costs_five_microseconds_more_than_the_library_at_most() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.file(DEPTH * PIECE);
    let mut options = EngineOptions::default();
    options.route = Route::Batch;
    let bench = rig.engine(options);
    let target = Arc::new(bench.alone(&path, false));
    finished(bench.read(&target, 0, PIECE));
    // Nothing is moved: what is measured is the way there and back.
    rig.mock.ctl(&format!("on entry ret {PIECE}"));
    let starter = bench.starter();
    let file = File::open(&path).unwrap();
    let mut memory = aligned(&rig.device, DEPTH * PIECE);

    let mut best = f64::MAX;
    for _ in 0..TRIES {
        let bare = per_entry(|| bare(rig.library, &file, &mut memory));
        let mut pieces: Vec<_> = (0..DEPTH).map(|_| Some(memory.split_to(PIECE))).collect();
        let with_engine = per_entry(|| {
            block_on(async {
                let mut reads = futures::stream::FuturesUnordered::new();
                let read = |i: usize, buffer| {
                    let transfer = starter.read(target.clone(), (i * PIECE) as u64, buffer);
                    async move { (i, transfer.await.unwrap().buffer) }
                };
                for (i, piece) in pieces.iter_mut().enumerate() {
                    reads.push(read(i, piece.take().unwrap()));
                }
                let mut left = ENTRIES - DEPTH;
                while let Some((i, buffer)) = reads.next().await {
                    if left > 0 {
                        left -= 1;
                        reads.push(read(i, buffer));
                    } else {
                        pieces[i] = Some(buffer);
                    }
                }
            });
        });
        memory = pieces
            .into_iter()
            .flatten()
            .fold(None, |whole: Option<DeviceBytesMut>, piece| match whole {
                None => Some(piece),
                Some(whole) => Some(whole.unsplit(piece).unwrap()),
            })
            .unwrap();
        println!("bare {bare:.2} µs, with the engine {with_engine:.2} µs per entry");
        best = best.min(with_engine - bare);
        if best <= MOST {
            break;
        }
    }
    assert_eq!(bench.engine.stats().lost_batches, 0);
    println!("the engine adds {best:.2} µs per entry");
    assert!(best <= MOST, "{best:.2} µs");
}

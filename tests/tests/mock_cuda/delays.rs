//! Random delays, against a model that knows none.

use cudarc::driver::sys::CUstream;

use crate::support::{
    Gpu, Pinned, alloc, copy, download, fill, recorded, stream, synchronize, upload, wait,
};

/// A small generator: the same numbers for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

const SLOTS: usize = 8;
const SLOT: usize = 64;

/// Random work on several streams, each step of which waits by event for the step before it: the outcome is that of one
/// thread, whatever the timing.
fn random_work(seed: u64, steps: usize) {
    let streams: Vec<CUstream> = (0..4).map(|_| stream()).collect();
    let mut numbers = Numbers(seed | 1);
    let device = alloc(SLOTS * SLOT);
    let host = Pinned::of(
        &(0..SLOTS * SLOT)
            .map(|index| index as u8)
            .collect::<Vec<_>>(),
    );
    let mut model = vec![0_u8; SLOTS * SLOT];
    fill(device, 0, SLOTS * SLOT, streams[0]).unwrap();
    let mut last = recorded(streams[0]);
    for _ in 0..steps {
        let stream = streams[numbers.below(streams.len())];
        wait(stream, last).unwrap();
        let (to, from) = (numbers.below(SLOTS) * SLOT, numbers.below(SLOTS) * SLOT);
        match numbers.below(3) {
            0 => {
                let value = numbers.below(256) as u8;
                fill(device + to as u64, value, SLOT, stream).unwrap();
                model[to..to + SLOT].fill(value);
            }
            1 => {
                upload(device + to as u64, &host.bytes()[from..from + SLOT], stream).unwrap();
                model[to..to + SLOT].copy_from_slice(&host.bytes()[from..from + SLOT]);
            }
            _ => {
                if to != from {
                    copy(device + to as u64, device + from as u64, SLOT, stream).unwrap();
                    model.copy_within(from..from + SLOT, to);
                }
            }
        }
        last = recorded(stream);
    }
    let mut out = Pinned::new(SLOTS * SLOT);
    wait(streams[0], last).unwrap();
    download(out.bytes_mut(), device, streams[0]).unwrap();
    synchronize(streams[0]).unwrap();
    assert_eq!(out.bytes(), model, "seed {seed}");
}

#[test]
fn ordered_work_comes_out_the_same_without_delays() {
    let _gpu = Gpu::new();
    for seed in 1..6 {
        random_work(seed * 7919, 200);
    }
}

#[test]
fn ordered_work_comes_out_the_same_with_delays() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    for seed in 1..6 {
        control.ctl(&format!("delay_us 200 seed {seed}"));
        random_work(seed * 104_729, 100);
    }
}

#[test]
fn delays_show_a_wait_that_is_missing() {
    let Some((_gpu, control)) = Gpu::controlled() else {
        return;
    };
    control.ctl("delay_us 500 seed 1");
    let (one, two) = (stream(), stream());
    let (from, to) = (alloc(SLOT), alloc(SLOT));
    // Without a wait, the copy overtakes the fill sooner or later.
    let overtaken = (1..=u8::MAX).any(|round| {
        fill(from, round, SLOT, one).unwrap();
        copy(to, from, SLOT, two).unwrap();
        synchronize(one).unwrap();
        synchronize(two).unwrap();
        crate::support::read(to, 1) != [round]
    });
    assert!(overtaken);
}

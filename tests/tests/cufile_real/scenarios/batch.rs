use std::fs::File;
use std::time::Duration;

use warpio_cufile::sys::{BatchHandle, Handle, IoParams};

use crate::lab::{KIB, Lab, Memory, code, entry};

const PIECE: usize = 16 * KIB;
const LEN: usize = 8 * PIECE;

/// A file, registered, and memory for all of it.
fn prepare() -> (Lab, File, Handle, Memory) {
    let lab = Lab::open();
    let file = lab.read_only(LEN);
    let handle = lab.register(&file);
    let memory = lab.memory(LEN);
    (lab, file, handle, memory)
}

/// One read for each piece of the file.
fn pieces(handle: Handle, memory: &Memory, count: usize) -> Vec<IoParams> {
    (0..count).map(|i| entry(handle, memory.base, PIECE, (i * PIECE) as i64, (i * PIECE) as i64, i + 1)).collect()
}

fn batch(lab: &Lab, capacity: u32) -> BatchHandle {
    let (status, batch) = lab.set_up(capacity);
    assert_eq!(status, "0");
    batch
}

/// How many events there were of each status and result.
fn told(events: &[(usize, u32, i64)]) -> String {
    let mut kinds: Vec<_> = events.iter().map(|&(_, status, ret)| (status, ret)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let count = |kind| events.iter().filter(|&&(_, status, ret)| (status, ret) == kind).count();
    match kinds.is_empty() {
        true => "none".to_owned(),
        false => kinds
            .iter()
            .map(|&kind| format!("{} of {:#x} {}", count(kind), kind.0, kind.1))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn cookies(events: &[(usize, u32, i64)], count: usize) -> &'static str {
    let found: Vec<_> = events.iter().map(|&(cookie, ..)| cookie).collect();
    if found == (1..=count).collect::<Vec<_>>() { "each cookie once" } else { "other cookies" }
}

pub(super) fn capacities() -> String {
    let lab = Lab::open();
    [0, 1, 128, 129].map(|capacity| lab.set_up(capacity).0).join(", ")
}

pub(super) fn submit_counts() -> String {
    let (lab, _file, handle, memory) = prepare();
    let (one, other) = (batch(&lab, 4), batch(&lab, 4));
    let mut entries = pieces(handle, &memory, 5);
    format!("{}, {}", lab.submit_first(one, &mut entries, 0), lab.submit(other, &mut entries))
}

pub(super) fn eight() -> String {
    let (lab, _file, handle, memory) = prepare();
    let batch = batch(&lab, 8);
    let mut entries = pieces(handle, &memory, 8);
    let submitted = lab.submit(batch, &mut entries);
    let events = lab.reap(batch, 8);
    format!("{submitted}, {}, {}, {}", told(&events), cookies(&events, 8), memory.has(0, 0, LEN))
}

pub(super) fn ends() -> String {
    let (lab, _file, handle, memory) = prepare();
    let batch = batch(&lab, 8);
    let over = entry(handle, memory.base, PIECE, (LEN - 4096) as i64, 0, 1);
    let at = entry(handle, memory.base, 4096, LEN as i64, PIECE as i64, 2);
    let submitted = lab.submit(batch, &mut [over, at]);
    format!("{submitted}, {}", told(&lab.reap(batch, 2)))
}

pub(super) fn no_bytes() -> String {
    let (lab, _file, handle, memory) = prepare();
    let batch = batch(&lab, 8);
    let (none, some) = (entry(handle, memory.base, 0, 0, 0, 1), entry(handle, memory.base, 4096, 0, 0, 2));
    let submitted = lab.submit(batch, &mut [none, some]);
    let events = lab.reap(batch, 1);
    let (_, more) = lab.status(batch, 1, 8, Duration::from_millis(200));
    format!("{submitted}, {}, then {}", told(&events), told(&more))
}

pub(super) fn wrong_counts() -> String {
    let (lab, _file, _handle, _memory) = prepare();
    let batch = batch(&lab, 4);
    let ask = |least, room| {
        let (status, events) = lab.status(batch, least, room, Duration::from_secs(2));
        format!("{status} {}", told(&events))
    };
    [ask(5, 4), ask(5, 8), ask(1, 4)].join(", ")
}

pub(super) fn overfull() -> String {
    let (lab, _file, handle, memory) = prepare();
    let batch = batch(&lab, 8);
    let (mut first, mut more) = (pieces(handle, &memory, 8), pieces(handle, &memory, 4));
    let submitted = lab.submit(batch, &mut first);
    let second = lab.submit(batch, &mut more);
    let (status, events) = lab.status(batch, 1, 8, Duration::from_millis(200));
    format!("{submitted}, {second}, then {status} {}", told(&events))
}

pub(super) fn wrong_entry() -> String {
    let (lab, _file, handle, memory) = prepare();
    let batch = batch(&lab, 8);
    let mut entries = pieces(handle, &memory, 4);
    entries[2].opcode = IoParams::WRITE;
    let submitted = lab.submit(batch, &mut entries);
    let (status, events) = lab.status(batch, 1, 8, Duration::from_millis(200));
    format!("{submitted}, then {status} {}, memory {}", told(&events), memory.is_untouched())
}

pub(super) fn cancelled() -> String {
    let (lab, _file, handle, memory) = prepare();
    let batch = batch(&lab, 8);
    let mut entries = pieces(handle, &memory, 4);
    let submitted = lab.submit(batch, &mut entries);
    // SAFETY: a live batch.
    let cancelled = code(unsafe { (lab.library.cuFileBatchIOCancel)(batch) });
    let (status, events) = lab.status(batch, 1, 8, Duration::from_millis(200));
    let canceled = events.iter().filter(|event| event.1 == 8).count();
    let mut again = pieces(handle, &memory, 2);
    format!(
        "{submitted}, {cancelled}, then {status} with {canceled} cancelled; used again: {}",
        lab.submit(batch, &mut again)
    )
}

pub(super) fn destroyed() -> String {
    let (lab, _file, handle, memory) = prepare();
    let batch = batch(&lab, 8);
    // SAFETY: a live batch.
    unsafe { (lab.library.cuFileBatchIODestroy)(batch) };
    lab.submit(batch, &mut pieces(handle, &memory, 2))
}

pub(super) fn bad_operation() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_write(LEN), lab.memory(LEN));
    let handle = lab.register(&file);
    let batch = batch(&lab, 8);
    let mut bad = pieces(handle, &memory, 1);
    bad[0].opcode = 9;
    let first = lab.submit(batch, &mut bad);
    let mut good = pieces(handle, &memory, 1);
    format!("{first}, {}", lab.submit(batch, &mut good))
}

pub(super) fn again() -> String {
    let (lab, _file, handle, memory) = prepare();
    let batch = batch(&lab, 8);
    let mut right = 0;
    for _ in 0..20 {
        memory.fill(0xEE);
        let mut entries = pieces(handle, &memory, 8);
        let submitted = lab.submit(batch, &mut entries);
        let events = lab.reap(batch, 8);
        right += usize::from(submitted == "0" && events.len() == 8 && memory.has(0, 0, LEN) == "right bytes");
    }
    format!("{right} right")
}

pub(super) fn two_submissions() -> String {
    let (lab, _file, handle, memory) = prepare();
    let batch = batch(&lab, 8);
    let mut all = pieces(handle, &memory, 8);
    let (one, other) = all.split_at_mut(4);
    let submitted = [lab.submit(batch, one), lab.submit(batch, other)].join(", ");
    let events = lab.reap(batch, 8);
    format!("{submitted}, {}, {}", told(&events), memory.has(0, 0, LEN))
}

pub(super) fn written() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_write(LEN), lab.memory(LEN));
    let handle = lab.register(&file);
    memory.fill(7);
    let batch = batch(&lab, 8);
    let mut entries = pieces(handle, &memory, 4);
    entries.iter_mut().for_each(|entry| entry.opcode = IoParams::WRITE);
    let submitted = lab.submit(batch, &mut entries);
    let events = lab.reap(batch, 4);
    let found = std::fs::read(lab.path(LEN)).unwrap();
    let right =
        found[..4 * PIECE].iter().all(|&byte| byte == 7) && found[4 * PIECE..] == crate::lab::bytes(LEN)[4 * PIECE..];
    format!("{submitted}, {}, {}", told(&events), if right { "right bytes" } else { "wrong bytes" })
}

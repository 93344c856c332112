use std::ffi::c_void;

use warpio_core::DeviceStream;
use warpio_cufile::sys::{Handle, Stream};

use crate::lab::{KIB, Lab, bytes, code};

const LEN: usize = 256 * KIB;
/// What stands in the place of a result before there is one.
const NONE: isize = -9999;

/// The parameters of an operation, where they outlive it.
struct Params {
    size: usize,
    offset: i64,
    at: i64,
    moved: isize,
}

fn stream(lab: &Lab) -> (DeviceStream, Stream) {
    let stream = lab.device.new_stream().unwrap();
    let raw = warpio_cuda::raw_stream(&stream).unwrap().cast();
    (stream, raw)
}

fn params(size: usize, offset: usize) -> Box<Params> {
    Box::new(Params { size, offset: offset as i64, at: 0, moved: NONE })
}

fn enqueue(lab: &Lab, write: bool, handle: Handle, base: *mut c_void, params: &mut Params, stream: Stream) -> String {
    let (size, offset) = (&raw mut params.size, &raw mut params.offset);
    let (at, moved) = (&raw mut params.at, &raw mut params.moved);
    let call = if write { lab.library.cuFileWriteAsync } else { lab.library.cuFileReadAsync };
    // SAFETY: scenarios keep parameters and memory until the stream is idle.
    code(unsafe { call(handle, base, size, offset, at, moved, stream) })
}

/// Waits for the stream, and reads the result.
fn result(stream: &DeviceStream, params: &Params) -> isize {
    stream.record().unwrap().synchronize().unwrap();
    // SAFETY: a word that lives.
    unsafe { (&raw const params.moved).read_volatile() }
}

pub(super) fn read() -> String {
    let lab = Lab::open();
    let (file, memory, (stream, raw)) = (lab.read_only(LEN), lab.memory(LEN), stream(&lab));
    let mut params = params(LEN, 0);
    let call = enqueue(&lab, false, lab.register(&file), memory.base, &mut params, raw);
    format!("{call}, {}, {}", result(&stream, &params), memory.has(0, 0, LEN))
}

pub(super) fn end() -> String {
    let lab = Lab::open();
    let (file, memory, (stream, raw)) = (lab.read_only(LEN), lab.memory(LEN), stream(&lab));
    let handle = lab.register(&file);
    let (mut over, mut behind) = (params(64 * KIB, LEN - 4096), params(4096, LEN + 8192));
    let calls = [
        enqueue(&lab, false, handle, memory.base, &mut over, raw),
        enqueue(&lab, false, handle, memory.base, &mut behind, raw),
    ];
    format!("{}, {}, {}", calls.join(", "), result(&stream, &over), result(&stream, &behind))
}

pub(super) fn written() -> String {
    let lab = Lab::open();
    let (file, memory, (stream, raw)) = (lab.read_write(LEN), lab.memory(64 * KIB), stream(&lab));
    memory.fill(7);
    let mut params = params(64 * KIB, 4096);
    let call = enqueue(&lab, true, lab.register(&file), memory.base, &mut params, raw);
    let moved = result(&stream, &params);
    let mut want = bytes(LEN);
    want[4096..4096 + 64 * KIB].fill(7);
    let right = std::fs::read(lab.path(LEN)).unwrap() == want;
    format!("{call}, {moved}, {}", if right { "right bytes" } else { "wrong bytes" })
}

pub(super) fn wrong_mode() -> String {
    let lab = Lab::open();
    let (file, memory, (stream, raw)) = (lab.write_only(LEN, 0), lab.memory(LEN), stream(&lab));
    let mut params = params(LEN, 0);
    let call = enqueue(&lab, false, lab.register(&file), memory.base, &mut params, raw);
    format!("{call}, {}", result(&stream, &params))
}

pub(super) fn wrong_handle() -> String {
    let lab = Lab::open();
    let (file, memory, (stream, raw)) = (lab.read_only(LEN), lab.memory(LEN), stream(&lab));
    let handle = lab.register(&file);
    // SAFETY: registered above.
    unsafe { (lab.library.cuFileHandleDeregister)(handle) };
    let mut params = params(LEN, 0);
    let call = enqueue(&lab, false, handle, memory.base, &mut params, raw);
    format!("{call}, {}", result(&stream, &params))
}

pub(super) fn registered() -> String {
    let lab = Lab::open();
    let ((_stream, raw), (_other, other)) = (stream(&lab), stream(&lab));
    let (register, deregister) = (lab.library.cuFileStreamRegister, lab.library.cuFileStreamDeregister);
    // SAFETY: streams that live.
    let codes =
        unsafe { [register(raw, 15), register(raw, 15), deregister(raw), deregister(raw), register(other, 16)] };
    codes.map(code).join(", ")
}

/// Eight reads of one buffer: by its base and offsets in it, or each by an address of its own; all at once, or each
/// waited for before the next.
fn eight(by_base: bool, at_once: bool) -> String {
    let lab = Lab::open();
    let (file, memory, (stream, raw)) = (lab.read_only(LEN), lab.memory(LEN), stream(&lab));
    let handle = lab.register(&file);
    let piece = LEN / 8;
    let mut all: Vec<_> = (0..8).map(|i| params(piece, i * piece)).collect();
    for (i, params) in all.iter_mut().enumerate() {
        let base = if by_base { memory.base } else { memory.base.wrapping_byte_add(i * piece) };
        params.at = if by_base { (i * piece) as i64 } else { 0 };
        assert_eq!(enqueue(&lab, false, handle, base, params, raw), "0");
        if !at_once {
            result(&stream, params);
        }
    }
    let moved: Vec<isize> = all.iter().map(|params| result(&stream, params)).collect();
    let runs = moved.chunk_by(|a, b| a == b).map(|run| format!("{} of {}", run.len(), run[0]));
    format!("{}, {}", runs.collect::<Vec<_>>().join(", "), memory.has(0, 0, LEN))
}

pub(super) fn many() -> String {
    eight(true, true)
}

pub(super) fn many_addresses() -> String {
    eight(false, true)
}

pub(super) fn one_by_one() -> String {
    eight(true, false)
}

use std::ptr::null;

use crate::lab::{KIB, Lab, bytes};

const LEN: usize = 64 * KIB;

pub(super) fn twice() -> String {
    let lab = Lab::open();
    let memory = lab.memory(LEN);
    let inner = memory.base.wrapping_byte_add(4096);
    [lab.pin(memory.base, LEN), lab.pin(memory.base, LEN), lab.pin(inner, 4096)].join(", ")
}

pub(super) fn nothing() -> String {
    let lab = Lab::open();
    let memory = lab.memory(LEN);
    [lab.pin(null(), LEN), lab.pin(memory.base, 0), lab.unpin(memory.base)].join(", ")
}

pub(super) fn no_context() -> String {
    let lab = Lab::open();
    let (memory, library) = (lab.memory(LEN), lab.library);
    let base = memory.base as usize;
    let on_another_thread = std::thread::spawn(move || {
        // SAFETY: memory of this length.
        let status = unsafe { (library.cuFileBufRegister)(base as *const _, LEN, 0) };
        crate::lab::code(status)
    });
    on_another_thread.join().unwrap()
}

pub(super) fn beyond() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(LEN), lab.memory(LEN));
    let handle = lab.register(&file);
    assert_eq!(lab.pin(memory.base, LEN / 2), "0");
    let half = (LEN / 2) as i64;
    format!(
        "{}, {}",
        lab.read(handle, memory.base, 8192, 0, half - 4096),
        lab.read(handle, memory.base, 4096, 0, -4096)
    )
}

pub(super) fn base_and_offset() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(LEN), lab.memory(LEN));
    let handle = lab.register(&file);
    assert_eq!(lab.pin(memory.base, LEN), "0");
    let read = lab.read(handle, memory.base, 8192, 4096, 12_288);
    let right =
        memory.bytes()[12_288..20_480] == bytes(LEN)[4096..12_288] && memory.bytes()[..12_288] == [0xEE; 12_288];
    let unpinned = lab.unpin(memory.base);
    format!("{read}, {}, deregister {unpinned}", if right { "right bytes" } else { "wrong bytes" })
}

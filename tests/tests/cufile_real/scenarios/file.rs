use std::fs::File;
use std::os::fd::AsRawFd;

use crate::lab::{KIB, Lab, code};

const LEN: usize = 64 * KIB;

pub(super) fn modes() -> String {
    let lab = Lab::open();
    let files = [
        lab.read_only(LEN),
        lab.read_write(LEN),
        lab.write_only(LEN, 0),
        lab.write_only(LEN, libc::O_DIRECT),
        lab.write_only(LEN, libc::O_APPEND),
    ];
    files.iter().map(|file| code(lab.try_register(file.as_raw_fd()).0)).collect::<Vec<_>>().join(", ")
}

pub(super) fn kinds() -> String {
    let lab = Lab::open();
    let mut ends = [0; 2];
    // SAFETY: places for two descriptors.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let (folder, null) = (lab.folder(), File::open("/dev/null").unwrap());
    let fds = [folder.as_raw_fd(), ends[0], null.as_raw_fd(), -1];
    fds.iter().map(|&fd| code(lab.try_register(fd).0)).collect::<Vec<_>>().join(", ")
}

pub(super) fn twice() -> String {
    let lab = Lab::open();
    let file = lab.read_only(LEN);
    lab.register(&file);
    code(lab.try_register(file.as_raw_fd()).0)
}

pub(super) fn deregistered() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(LEN), lab.memory(LEN));
    let handle = lab.register(&file);
    for _ in 0..2 {
        // SAFETY: harmless the second time.
        unsafe { (lab.library.cuFileHandleDeregister)(handle) };
    }
    lab.read(handle, memory.base, LEN, 0, 0)
}

pub(super) fn closed_first() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(LEN), lab.memory(LEN));
    let (handle, fd) = (lab.register(&file), file.as_raw_fd());
    drop(file);
    let other = lab.read_only(LEN + 1);
    assert_eq!(other.as_raw_fd(), fd, "the number is used again");
    let read = lab.read(handle, memory.base, LEN, 0, 0);
    format!("{read}, {}", code(lab.try_register(fd).0))
}

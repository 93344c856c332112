use warpio_cufile::LibraryVersion;
use warpio_cufile::sys::DriverProperties;

use crate::lab::{KIB, Lab, code};

fn properties(lab: &Lab) -> DriverProperties {
    let mut properties = DriverProperties::default();
    // SAFETY: a place for the result.
    assert_eq!(code(unsafe { (lab.library.cuFileDriverGetProperties)(&mut properties) }), "0");
    properties
}

pub(super) fn properties_before_opening() -> String {
    let lab = Lab::closed();
    let found = properties(&lab);
    format!(
        "nvfs {}.{}, direct {} KiB, flags {:#x} {:#x} {:#x}, cache {} KiB, batch {}, {} ms",
        found.nvfs_major,
        found.nvfs_minor,
        found.max_direct_io_size,
        found.status_flags,
        found.control_flags,
        found.feature_flags,
        found.max_device_cache_size,
        found.max_batch_io_size,
        found.max_batch_io_timeout
    )
}

pub(super) fn open_and_close() -> String {
    let lab = Lab::closed();
    let library = lab.library;
    // SAFETY: a context is current.
    let mut codes: Vec<_> = (0..2).map(|_| code(unsafe { (library.cuFileDriverOpen)() })).collect();
    // SAFETY: nothing is registered.
    codes.extend((0..3).map(|_| code(unsafe { (library.cuFileDriverClose_v2)() })));
    codes.join(", ")
}

pub(super) fn read_behind_the_last_close() -> String {
    let lab = Lab::open();
    let (file, memory) = (lab.read_only(64 * KIB), lab.memory(64 * KIB));
    let handle = lab.register(&file);
    // SAFETY: deregistered, and the driver closed once for its opening.
    let closed = unsafe {
        (lab.library.cuFileHandleDeregister)(handle);
        (lab.library.cuFileDriverClose_v2)()
    };
    format!("close {}, read {}", code(closed), lab.read(handle, memory.base, 4096, 0, 0))
}

pub(super) fn setters_of_an_open_driver() -> String {
    let lab = Lab::open();
    let before = properties(&lab);
    let library = lab.library;
    // SAFETY: the setters take any value.
    let codes = unsafe {
        [
            (library.cuFileDriverSetPollMode)(true, 64),
            (library.cuFileDriverSetMaxDirectIOSize)(512),
            (library.cuFileDriverSetMaxCacheSize)(65_536),
            (library.cuFileDriverSetMaxPinnedMemSize)(1 << 20),
        ]
    };
    let changed = if properties(&lab) == before { "unchanged" } else { "changed" };
    format!("{}, {changed}", codes.map(code).join(", "))
}

pub(super) fn parameters_before_and_after() -> String {
    let lab = Lab::closed();
    let (get, set) = (lab.library.cuFileGetParameterSizeT, lab.library.cuFileSetParameterSizeT);
    let (Some(get), Some(set)) = (get, set) else { return "missing".to_owned() };
    let (mut staged, mut allowed) = (7, false);
    // SAFETY: a place for the result.
    let before = code(unsafe { get(2, &mut staged) });
    // SAFETY: as above.
    let compat = lab.library.cuFileGetParameterBool.map(|get| code(unsafe { get(1, &mut allowed) }));
    // SAFETY: a context is current.
    assert_eq!(code(unsafe { (lab.library.cuFileDriverOpen)() }), "0");
    // SAFETY: any value may be set.
    let after = code(unsafe { set(2, 4) });
    format!("{before} {staged}, {} {allowed}, {after}", compat.unwrap_or_default())
}

pub(super) fn statistics() -> String {
    let lab = Lab::open();
    let library = lab.library;
    let (Some(level), Some(start), Some(get)) =
        (library.cuFileSetStatsLevel, library.cuFileStatsStart, library.cuFileGetStatsL3)
    else {
        return "missing".to_owned();
    };
    let mut words = vec![0u64; 2048];
    // SAFETY: a place that is longer than any structure.
    let early = code(unsafe { get(words.as_mut_ptr().cast()) });
    // SAFETY: a level that exists.
    let (set, started) = unsafe { (code(level(3)), code(start())) };
    let (file, memory) = (lab.read_only(64 * KIB), lab.memory(64 * KIB));
    lab.read(lab.register(&file), memory.base, 64 * KIB, 0, 0);
    // SAFETY: as above.
    let counted = code(unsafe { get(words.as_mut_ptr().cast()) });
    // The first level has 78 words since 1.19, and had 64 before; 64 of histograms follow, then the number of GPUs, then
    // each of them.
    let basic = if library.version() >= (LibraryVersion { major: 1, minor: 19 }) { 78 } else { 64 };
    let gpu = &words[basic + 64 + 1..];
    let (p2p, nvfs, posix) = (gpu[7], gpu[8], gpu[9]);
    format!("{early}, {set}, {started}, {counted}: {} read, p2p {p2p}, nvfs {nvfs}, posix {posix}", words[0])
}

pub(super) fn peer_flags() -> String {
    let lab = Lab::open();
    let Some(get) = lab.library.cuFileDriverGetP2PFlags else { return "missing".to_owned() };
    let ask = |storage| {
        let mut flags = -1;
        // SAFETY: a place for the result.
        format!("{} {flags}", code(unsafe { get(storage, &mut flags) }))
    };
    format!("{}, {}", ask(4), ask(99))
}

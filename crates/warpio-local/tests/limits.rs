//! What the machine refuses: rings, locked memory, descriptors. In a binary of its own, because limits are the process's.

mod support;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::engines::{Setup, disk, has_rings, rings};
use warpio_core::testing::pattern;
use warpio_core::{AsyncDeviceReadExt, Device, PathKind, PoolConfig};
use warpio_local::engine::{Mode, RingOptions, TokioUringEngine, Unavailable, UringEngine};
use warpio_local::file::LocalFile;
use warpio_local::open::OpenOptions;

const LEN: usize = 1_000_003;

/// Limits are the process's, so nothing else may run while one is changed: the first line of every test here.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `test` on a thread of its own, which may give up rights that nobody gets back.
fn on_a_thread<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(test).join().unwrap())
}

/// Lets the calling thread's `io_uring_setup` fail with `errno`.
fn refuse_rings(errno: i32) {
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let (jump, answer) = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::BPF_RET | libc::BPF_K);
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        // The number of the call is the first field.
        step(load, 0, 0, 0),
        step(jump, 0, 1, libc::SYS_io_uring_setup as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(answer, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the first call passes no memory, the second one a program that lives through the call.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_refused_ring_is_an_answer_with_a_reason() {
    let _one = one_at_a_time();
    for (errno, words) in [(libc::EPERM, ["seccomp", "EPERM"]), (libc::ENOSYS, ["seccomp", "ENOSYS"])] {
        let refusals: Vec<Unavailable> = on_a_thread(|| {
            refuse_rings(errno);
            let options = RingOptions { threads: 2, ..RingOptions::default() };
            vec![
                UringEngine::start(&options).unwrap_err(),
                TokioUringEngine::start(&options).unwrap_err(),
                UringEngine::probe().unwrap_err(),
                TokioUringEngine::probe().unwrap_err(),
            ]
        });
        for refusal in refusals {
            assert!(words.iter().all(|word| refusal.reason().contains(word)), "{refusal}");
            assert!(refusal.to_string().contains(refusal.reason()));
            let source = std::error::Error::source(&refusal).and_then(|error| error.downcast_ref::<std::io::Error>());
            assert_eq!(source.and_then(std::io::Error::raw_os_error), Some(errno));
        }
    }
}

#[test]
fn where_rings_are_allowed_a_probe_says_so() {
    let _one = one_at_a_time();
    if !has_rings() {
        return;
    }
    let features = UringEngine::probe().unwrap();
    TokioUringEngine::probe().unwrap();
    let engine = UringEngine::start(&RingOptions { threads: 3, ..RingOptions::default() }).unwrap();
    assert_eq!((engine.features(), engine.threads()), (features, 3));
}

/// Sets a soft limit, and sets it back.
fn with_limit<T>(resource: impl Fn() -> Resource, soft: impl FnOnce() -> u64, test: impl FnOnce() -> T) -> T {
    let before = getrlimit(resource());
    setrlimit(resource(), Rlimit { current: Some(soft()), ..before }).unwrap();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
    setrlimit(resource(), before).unwrap();
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Staging memory that exists when the rings start, more than may be locked.
fn staging() -> Device {
    let pool = PoolConfig { budget: 8 << 20, slot_len: 128 << 10, small_slot_len: 16 << 10, slab_len: 1 << 20 };
    let device = Device::host_with(pool);
    device.staging().warm(4 << 20);
    device
}

async fn read_all_of(setup: &Setup, device: &Device) {
    let dir = disk();
    let path = dir.path().join("data.bin");
    std::fs::write(&path, pattern(LEN)).unwrap();
    let context = setup.context(device.clone());
    let file = LocalFile::open(&context, &path, &OpenOptions::new().read(true)).await.unwrap();
    // Nothing is aligned, so that everything passes through slots.
    let transfer = file.read_exact_at(1, device.alloc(LEN - 2).unwrap());
    let report = transfer.report();
    assert!(transfer.await.unwrap().as_slice().unwrap() == &pattern(LEN)[1..LEN - 1], "{setup:?}");
    if setup.mode == Mode::Direct {
        assert!(report.bytes(PathKind::Direct) > 0, "{setup:?}: {report:?}");
    }
}

/// Runs `test` without the right to lock memory at will.
fn without_privileges(test: impl FnOnce() + Send) {
    on_a_thread(|| {
        let mut capabilities = rustix::thread::capabilities(None).unwrap();
        capabilities.effective.remove(rustix::thread::CapabilitySet::IPC_LOCK);
        rustix::thread::set_capabilities(None, capabilities).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        test();
    });
}

#[test]
fn memory_that_may_not_be_locked_is_used_unregistered() {
    let _one = one_at_a_time();
    if !has_rings() {
        return;
    }
    for bytes in [64 << 10, 1 << 20, 3 << 20] {
        for mode in [Mode::Buffered, Mode::Direct] {
            with_limit(
                || Resource::Memlock,
                || bytes,
                || {
                    without_privileges(|| {
                        let device = staging();
                        let slabs = device.staging().slabs();
                        assert!(slabs.len() >= 4);
                        let options = RingOptions { fixed: slabs, ..RingOptions::default() };
                        let handle = tokio::runtime::Handle::current();
                        let engine = Arc::new(started(|| UringEngine::start(&options)));
                        handle.block_on(read_all_of(&Setup { engine, mode }, &device));
                        let engine = Arc::new(started(|| TokioUringEngine::start(&options)));
                        handle.block_on(read_all_of(&Setup { engine, mode }, &device));
                    });
                },
            );
        }
    }
}

/// The memory of an engine that was dropped counts until its thread has ended.
fn started<E>(start: impl Fn() -> Result<E, Unavailable>) -> E {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match start() {
            Ok(engine) => return engine,
            Err(refusal) if refusal.reason().contains("ENOMEM") && Instant::now() < deadline => {
                std::thread::yield_now()
            }
            Err(refusal) => panic!("{refusal}"),
        }
    }
}

#[test]
fn where_no_descriptor_is_left_for_direct_io_the_page_cache_remains() {
    let _one = one_at_a_time();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = disk();
    let paths: Vec<_> = (0..30).map(|n| dir.path().join(n.to_string())).collect();
    for (n, path) in paths.iter().enumerate() {
        std::fs::write(path, &pattern(LEN)[n..]).unwrap();
    }
    for setup in rings(&RingOptions::default()) {
        // Enough for the files, not for opening each of them twice.
        with_limit(
            || Resource::Nofile,
            || std::fs::read_dir("/proc/self/fd").unwrap().count() as u64 + 45,
            || {
                runtime.block_on(async {
                    let context = setup.context(Device::host());
                    let mut files = Vec::new();
                    for path in &paths {
                        files.push(LocalFile::open(&context, path, &OpenOptions::new().read(true)).await.unwrap());
                    }
                    for (n, file) in files.iter().enumerate() {
                        let read = file.read_exact_at(0, Device::host().alloc(LEN - n).unwrap()).await.unwrap();
                        assert!(read.as_slice().unwrap() == &pattern(LEN)[n..], "{setup:?}, file {n}");
                    }
                });
            },
        );
    }
}

#[test]
fn without_a_descriptor_for_a_ring_the_reason_says_so() {
    let _one = one_at_a_time();
    let refusals = with_limit(
        || Resource::Nofile,
        || 3,
        || {
            let options = RingOptions::default();
            [UringEngine::start(&options).unwrap_err(), TokioUringEngine::start(&options).unwrap_err()]
        },
    );
    for refusal in refusals {
        assert!(refusal.reason().contains("descriptor"), "{refusal}");
    }
}

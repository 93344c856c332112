use std::time::{Duration, Instant};

use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, DeviceSpec, ErrorKind, Runtime};

use crate::support::{MIB, Place, host, runtime, shutdown};

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_is_not_there_is_an_error_that_names_it() {
    let _place = Place::new();
    let error = Runtime::builder().device(DeviceSpec::Cuda(99)).ignore_environment().build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoDevice);
    assert!(error.to_string().contains("cuda:99"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn too_much_device_memory_is_an_error_and_the_rest_goes_on() {
    let place = Place::new();
    let (path, want) = place.file("data.bin", MIB);
    let rt = runtime();
    let error = rt.device().alloc(1 << 46).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let source = rt.open(&path).await.unwrap();
    assert!(host(&source.read_all().await.unwrap()).await == want);
    shutdown(rt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_context_ends_every_transfer_with_an_error() {
    let place = Place::new();
    let Some(control) = place.gpu.control() else { return eprintln!("skipped: not on a real GPU") };
    let (path, _) = place.file("data.bin", 4 * MIB);
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    control.ctl("hold");
    let transfers: Vec<_> = (0..4).map(|_| source.read_at(0, rt.device().alloc(4 * MIB).unwrap())).collect();
    control.ctl("wait held 1; sticky 0 700");
    for transfer in transfers {
        let failed = transfer.await.unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::DeviceLost, "{}", failed.error);
    }
    assert_eq!(rt.device().alloc(1).unwrap_err().kind(), ErrorKind::DeviceLost);
    let staging = rt.stats().staging;
    assert_eq!(staging.free, staging.allocated, "pinned memory returns to the pool");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_holds_while_the_gpu_does_not_answer() {
    let place = Place::new();
    let Some(control) = place.gpu.control() else { return eprintln!("skipped: not on a real GPU") };
    let (path, want) = place.file("data.bin", MIB);
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    control.ctl("hold");
    let start = Instant::now();
    let transfer = source.read_at(0, rt.device().alloc(MIB).unwrap()).deadline(start + Duration::from_millis(50));
    let failed = transfer.await.unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::DeadlineExceeded);
    assert!(failed.buffer.is_none(), "the copies may still come");
    assert!(start.elapsed() < Duration::from_secs(5));
    control.ctl("release");
    assert!(host(&source.read_all().await.unwrap()).await == want);
    shutdown(rt).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_buffer_dropped_under_its_copies_is_freed_behind_them() {
    let place = Place::new();
    let Some(control) = place.gpu.control() else { return eprintln!("skipped: not on a real GPU") };
    let (path, _) = place.file("data.bin", MIB);
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    let before = control.counters().device_bytes;
    control.ctl("hold");
    drop(source.read_at(0, rt.device().alloc(MIB).unwrap()));
    let buffer = rt.device().alloc(MIB).unwrap();
    let transfer = source.read_at(0, buffer);
    control.ctl("wait held 1");
    drop(transfer);
    assert!(control.counters().device_bytes > before, "memory under a copy is not freed");
    control.ctl("release; wait idle");
    shutdown(rt).await;
    warpio::cuda::wait_for_releases();
    assert_eq!(control.counters().violations, 0);
}

/// Processor time of this process, in seconds.
fn cpu_seconds() -> f64 {
    // SAFETY: the kernel fills the structure, which may hold any bytes.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_runtime_uses_no_processor() {
    let place = Place::new();
    let (path, want) = place.file("data.bin", MIB);
    let rt = runtime();
    let source = rt.open(&path).await.unwrap();
    assert!(host(&source.read_all().await.unwrap()).await == want);
    // What has just been busy may look for more for a moment.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = cpu_seconds();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let used = cpu_seconds() - before;
    assert!(used < 0.02, "{used} s of processor time in a second of nothing");
    shutdown(rt).await;
}

//! Compatibility modes, of a runtime and of a file.

use warpio::config::CompatMode;
use warpio::cufile::Surroundings;
use warpio::{DeviceSpec, ErrorKind, PathKind, Runtime};
use warpio_tests::mock_cufile::{self, Edition};

use crate::support::{KIB, MIB, Rig, read};

#[tokio::test]
async fn on_means_that_cufile_is_never_called() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.cold(4 * MIB);
    let rt = rig.builder().compat_mode(CompatMode::On).on_cufile(rig.driver()).build().unwrap();
    let error = rt.gds().await.unwrap_err();
    assert!(error.to_string().contains("compat_mode is on"), "{error}");
    assert_ne!(rt.engine(), "cufile");
    let file = rt.open(&path).await.unwrap();
    let paths = read(&file, &rig.device, 0, 4 * MIB).await.unwrap();
    assert!(paths.iter().all(|(path, _)| *path != PathKind::Gds), "{paths:?}");
    assert_eq!(rig.mock.calls("HandleRegister"), 0);
    let off = rt.open_options().read(true).compat_mode(CompatMode::Off).open(&path).await.unwrap_err();
    assert_eq!(off.kind(), ErrorKind::Unsupported, "a file cannot have what the runtime has not");
}

#[tokio::test]
async fn off_without_gpudirect_storage_is_an_error_that_says_why() {
    let Some(rig) = Rig::new("mode compat") else { return };
    let error = rig.builder().compat_mode(CompatMode::Off).on_cufile(rig.driver()).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("compat_mode=off") && text.contains("nvidia-fs is not loaded"), "{text}");
}

#[tokio::test]
async fn off_without_a_library_or_a_gpu_is_an_error_that_says_why() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let missing = rig.builder().compat_mode(CompatMode::Off).cufile_library("/nowhere/libcufile.so.0").build();
    let error = missing.unwrap_err();
    assert!(error.to_string().contains("/nowhere/libcufile.so.0"), "{error}");
    let host = Runtime::builder().ignore_environment().device(DeviceSpec::Host).compat_mode(CompatMode::Off).build();
    assert!(host.unwrap_err().to_string().contains("no GPU"));
}

#[tokio::test]
async fn off_takes_everything_by_cufile_whatever_is_cached_and_however_short() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.cold(4 * MIB);
    let rt = rig.builder().compat_mode(CompatMode::Off).on_cufile(rig.driver()).build().unwrap();
    drop(std::fs::read(&path).unwrap());
    let file = rt.open(&path).await.unwrap();
    assert_eq!(read(&file, &rig.device, 0, 4 * MIB).await.unwrap(), [(PathKind::Gds, 4 * MIB as u64)]);
    assert_eq!(read(&file, &rig.device, 0, 8 * KIB).await.unwrap(), [(PathKind::Gds, 8 * KIB as u64)]);
}

#[tokio::test]
async fn off_fails_where_cufile_refuses_a_file() {
    let Some(rig) = Rig::new("mode gds; on HandleRegister status 5008") else { return };
    let path = rig.cold(MIB);
    let rt = rig.builder().compat_mode(CompatMode::Off).on_cufile(rig.driver()).build().unwrap();
    let file = rt.open(&path).await.unwrap();
    let error = read(&file, &rig.device, 0, MIB).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("5008"), "{error}");
}

#[tokio::test]
async fn off_fails_where_the_driver_does_not_do_what_it_claims() {
    let Some(rig) = Rig::new("mode gds; truth compat") else { return };
    let path = rig.cold(MIB);
    let rt = rig.builder().compat_mode(CompatMode::Off).on_cufile(rig.driver()).build().unwrap();
    let file = rt.open(&path).await.unwrap();
    let error = read(&file, &rig.device, 0, MIB).await.unwrap_err();
    assert!(error.to_string().contains("compatibility mode"), "{error}");
}

#[tokio::test]
async fn auto_goes_another_way_where_cufile_refuses_a_file() {
    let Some(rig) = Rig::new("mode gds; on HandleRegister status 5030") else { return };
    let path = rig.cold(MIB);
    let rt = rig.runtime();
    let file = rt.open(&path).await.unwrap();
    let paths = read(&file, &rig.device, 0, MIB).await.unwrap();
    assert_eq!(paths.iter().map(|(_, bytes)| bytes).sum::<u64>(), MIB as u64);
    assert!(paths.iter().all(|(path, _)| *path != PathKind::Gds), "{paths:?}");
}

#[tokio::test]
async fn a_file_has_its_own_mode() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let path = rig.cold(MIB);
    let rt = rig.runtime();
    let open = |mode| rt.open_options().read(true).compat_mode(mode).open(&path);
    let on = open(CompatMode::On).await.unwrap();
    let paths = read(&on, &rig.device, 0, MIB).await.unwrap();
    assert!(paths.iter().all(|(path, _)| *path != PathKind::Gds), "{paths:?}");
    drop(std::fs::read(&path).unwrap());
    let off = open(CompatMode::Off).await.unwrap();
    assert_eq!(read(&off, &rig.device, 0, MIB).await.unwrap(), [(PathKind::Gds, MIB as u64)], "though it is cached");
    let auto = open(CompatMode::Auto).await.unwrap();
    assert_eq!(read(&auto, &rig.device, 0, MIB).await.unwrap(), [(PathKind::PageCache, MIB as u64)]);
}

#[tokio::test]
async fn a_file_that_demands_what_is_not_there_does_not_open() {
    let Some(rig) = Rig::new("mode compat") else { return };
    let path = rig.cold(MIB);
    let rt = rig.runtime();
    let error = rt.open_options().read(true).compat_mode(CompatMode::Off).open(&path).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let sink = rt.open_options().compat_mode(CompatMode::Off).create_whole(rig.path("sink")).await.unwrap_err();
    assert_eq!(sink.kind(), ErrorKind::Unsupported);
    // A descriptor is taken at once, and its transfers fail.
    let file = std::fs::File::open(&path).unwrap();
    let file = rt.open_options().compat_mode(CompatMode::Off).from_fd(file.into()).unwrap();
    let error = read(&file, &rig.device, 0, MIB).await.unwrap_err();
    assert!(error.to_string().contains("compat_mode=off"), "{error}");
}

/// As a user has it: nothing but a library, found when the runtime is made and opened on a thread of its own.
#[tokio::test]
async fn auto_finds_and_opens_cufile_beside_the_first_transfers() {
    let Some(rig) = Rig::new("mode gds; on DriverOpen times 1 block") else { return };
    let path = rig.cold(MIB);
    let rt = rig.builder().cufile_library(mock_cufile::path(Edition::Current).unwrap()).build().unwrap();
    let file = rt.open(&path).await.unwrap();
    // It hangs, or was not called at all; either way nothing waits for it.
    let paths = read(&file, &rig.device, 0, MIB).await.unwrap();
    assert!(paths.iter().all(|(path, _)| *path != PathKind::Gds), "{paths:?}");
    let machine = Surroundings::probe();
    if machine.modules && !machine.wsl {
        rig.mock.ctl("wait blocked 1; release");
        rt.gds().await.unwrap();
        crate::support::chill(&path);
        assert_eq!(read(&file, &rig.device, 0, MIB).await.unwrap(), [(PathKind::Gds, MIB as u64)]);
        drop((file, rt));
        warpio::cufile::wait_for_releases();
        assert_eq!(rig.mock.calls("DriverClose"), 0, "a runtime leaves the driver open");
        // SAFETY: opened once and not closed; the next test wants it closed.
        assert_eq!(unsafe { (rig.library().cuFileDriverClose_v2)() }.err.0, 0);
    } else {
        let reason = rt.gds().await.unwrap_err();
        assert!(reason.to_string().contains("/proc/modules") || machine.wsl, "{reason}");
        assert_eq!(rig.mock.calls("DriverOpen"), 0);
    }
}

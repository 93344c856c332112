//! Settings before and after opening.

use warpio_core::ErrorKind;
use warpio_cufile::{BoolParameter, Driver, DriverOptions, NotApplied, Setting, SizeParameter, Unavailable};

use crate::support::{MIB, Rig, options, until};

const ALL: [Setting; 4] = [
    Setting::PollMode { on: true, threshold: 16 << 10 },
    Setting::MaxDirectIoSize(2 * MIB as u64),
    Setting::MaxDeviceCacheSize(64 * MIB as u64),
    Setting::MaxPinnedSize(256 * MIB as u64),
];

fn with_all(options: DriverOptions) -> DriverOptions {
    ALL.into_iter().fold(options, DriverOptions::setting)
}

fn not_applied(error: &warpio_core::Error) -> NotApplied {
    let cause = std::error::Error::source(error).unwrap();
    match cause.downcast_ref::<Unavailable>() {
        Some(Unavailable::NotApplied(what)) => what.clone(),
        _ => cause.downcast_ref::<NotApplied>().unwrap_or_else(|| panic!("{error}")).clone(),
    }
}

#[test]
fn settings_before_opening_are_there_afterwards() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let driver = Driver::open(rig.library, &rig.device, &with_all(options())).unwrap();
    let properties = driver.properties().unwrap();
    assert!(properties.poll_mode());
    assert_eq!(properties.poll_threshold(), 16 << 10);
    assert_eq!(properties.max_direct_io_size(), 2 * MIB as u64);
    assert_eq!(properties.max_device_cache_size(), 64 * MIB as u64);
    assert_eq!(properties.max_device_pinned_size(), 256 * MIB as u64);
}

#[test]
fn parameters_are_set_before_opening_and_read_back() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let options =
        options().size_parameter(SizeParameter::MaxIoThreads, 4).bool_parameter(BoolParameter::PreferIoUring, true);
    let driver = Driver::open(rig.library, &rig.device, &options).unwrap();
    let info = driver.info().unwrap();
    assert!(info.sizes.contains(&(SizeParameter::MaxIoThreads, 4)));
    assert!(info.switches.contains(&(BoolParameter::PreferIoUring, true)));
    // A second user that wants the same gets it, and one that wants something else is told.
    Driver::open(rig.library, &rig.device, &options).unwrap();
    let other = options.size_parameter(SizeParameter::MaxIoThreads, 8);
    let error = Driver::open(rig.library, &rig.device, &other).unwrap_err();
    let what = not_applied(&error);
    assert_eq!((what.wanted.as_str(), what.found.as_deref()), ("8", Some("4")));
}

#[test]
fn what_another_library_of_the_process_opened_is_taken_as_it_is() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let first = rig.driver();
    // As KvikIO would: opened by itself, so that ours is the second use.
    // SAFETY: closed below.
    let opened = rig.device_context(|| unsafe { (rig.library.cuFileDriverOpen)() });
    assert_eq!(opened.err.0, 0);
    drop(first);
    until(|| rig.mock.counters().open == 1);
    let options = options().bool_parameter(BoolParameter::PreferIoUring, true);
    let error = Driver::open(rig.library, &rig.device, &options).unwrap_err();
    assert_eq!((error.kind(), not_applied(&error).setting.as_str()), (ErrorKind::InvalidConfig, "PreferIoUring"));
    // SAFETY: opened above.
    assert_eq!(unsafe { (rig.library.cuFileDriverClose_v2)() }.err.0, 0);
}

#[test]
fn settings_of_an_open_driver_that_have_no_effect_are_told() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let driver = rig.driver();
    for setting in ALL {
        let error = driver.scoped(setting).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        let what = not_applied(&error);
        assert!(what.found.is_some() && what.found.as_deref() != Some(what.wanted.as_str()), "{what}");
    }
    let now = driver.properties().unwrap();
    // What is so already is no failure.
    drop(driver.scoped(Setting::MaxDirectIoSize(now.max_direct_io_size())).unwrap());
    assert_eq!(driver.properties().unwrap(), now);
}

#[test]
fn a_scoped_setting_is_undone() {
    let Some(rig) = Rig::new("mode gds; settings_apply on") else { return };
    let driver = rig.driver();
    let before = driver.properties().unwrap();
    {
        let _guards: Vec<_> = ALL.into_iter().map(|setting| driver.scoped(setting).unwrap()).collect();
        let meanwhile = driver.properties().unwrap();
        assert!(meanwhile.poll_mode() && meanwhile.max_direct_io_size() == 2 * MIB as u64);
        assert_ne!(meanwhile, before);
    }
    assert_eq!(driver.properties().unwrap(), before);
}

#[test]
fn what_a_setter_refuses_is_told_with_its_code() {
    let Some(rig) = Rig::new("mode gds; on DriverSetMaxCacheSize status 5022") else { return };
    let error = rig.driver().scoped(Setting::MaxDeviceCacheSize(MIB as u64)).unwrap_err();
    assert!(error.to_string().contains("5022"), "{error}");
}

#[test]
fn sizes_that_the_library_cannot_be_told_are_refused() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let odd = Setting::MaxDirectIoSize(1000);
    let error = Driver::open(rig.library, &rig.device, &options().setting(odd)).unwrap_err();
    assert_eq!((error.kind(), rig.mock.calls("DriverOpen")), (ErrorKind::InvalidConfig, 0));
    assert_eq!(rig.driver().scoped(odd).unwrap_err().kind(), ErrorKind::InvalidConfig);
}

#[test]
fn a_parameter_that_the_library_refuses_is_told_with_its_code() {
    let Some(rig) = Rig::new("mode gds; on SetParameterSizeT status 5022") else { return };
    let options = options().size_parameter(SizeParameter::IoBatchSize, 100_000);
    let error = Driver::open(rig.library, &rig.device, &options).unwrap_err();
    assert!(error.to_string().contains("5022"), "{error}");
    assert_eq!(rig.mock.calls("DriverOpen"), 0);
}

#[test]
fn the_log_does_not_fall_where_the_program_was_started() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let driver = Driver::open(rig.library, &rig.device, &options().log_dir("/var/log/mine")).unwrap();
    let mut text = [0; 64];
    // SAFETY: a place of the length that is passed; 2 is the folder of the log.
    let status =
        unsafe { rig.library.cuFileGetParameterString.unwrap()(2, text.as_mut_ptr().cast(), text.len() as i32) };
    assert_eq!(status.err.0, 0);
    assert!(text.starts_with(b"/var/log/mine\0"));
    drop(driver);
}

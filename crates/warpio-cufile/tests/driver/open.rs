//! Opening, with a bound and with guards, and closing.

use std::path::Path;
use std::time::{Duration, Instant};

use warpio_core::{Device, ErrorKind};
use warpio_cufile::{CuFileError, Driver, DriverOptions, Library, Surroundings, Unavailable};
use warpio_tests::mock_cufile::{self, Edition};

use crate::support::{Rig, options, succeeded_in_child, surroundings, until};

/// Why opening failed.
fn reason(opened: warpio_core::Result<Driver>) -> Unavailable {
    let error = opened.unwrap_err();
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<Unavailable>());
    cause.unwrap_or_else(|| panic!("{error}")).clone()
}

#[test]
fn handles_share_one_driver_and_the_last_one_closes_it() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let first = rig.driver();
    let (second, third) = (rig.driver(), first.clone());
    assert_eq!((rig.mock.calls("DriverOpen"), first.use_count()), (1, 1));
    drop((first, third));
    assert_eq!(second.properties().unwrap().nvidia_fs(), Some((2, 28)));
    assert_eq!(rig.mock.calls("DriverClose"), 0);
    drop(second);
    until(|| rig.mock.counters().open == 0);
    // And again.
    assert!(rig.driver().availability().unwrap().is_on());
    until(|| rig.mock.calls("DriverClose") == 2);
}

#[test]
fn a_driver_left_open_is_never_closed_and_can_be_had_again() {
    let Some(rig) = Rig::new("mode gds") else { return };
    for times in 1..=3 {
        let driver = rig.driver();
        driver.leave_open();
        let again = driver.clone();
        drop(driver);
        assert!(again.availability().unwrap().is_on());
        drop(again);
        warpio_cufile::wait_for_releases();
        assert_eq!((rig.mock.calls("DriverClose"), rig.mock.counters().open), (0, times));
    }
    // What was not closed is for the next test.
    for _ in 0..3 {
        // SAFETY: opened as often and not closed.
        assert_eq!(unsafe { (rig.library.cuFileDriverClose_v2)() }.err.0, 0);
    }
}

#[test]
fn what_the_driver_answers_is_the_reason() {
    for (code, kind) in [
        (5001, ErrorKind::Unsupported),
        (5004, ErrorKind::Unsupported),
        (5006, ErrorKind::Gone),
        (5033, ErrorKind::Unsupported),
    ] {
        let Some(rig) = Rig::new(&format!("on DriverOpen status {code}")) else { return };
        let error = Driver::open(rig.library, &rig.device, &options()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let Unavailable::Refused(refusal) = reason(Driver::open(rig.library, &rig.device, &options())) else {
            panic!("{error}")
        };
        assert_eq!((refusal.call(), refusal.code()), ("cuFileDriverOpen", Some(code)));
        // The reason passes.
        rig.mock.ctl("reset");
        rig.driver();
    }
}

#[test]
fn an_error_of_cuda_keeps_its_code() {
    let Some(rig) = Rig::new("on DriverOpen status 5011 999") else { return };
    let Unavailable::Refused(refusal) = reason(Driver::open(rig.library, &rig.device, &options())) else { panic!() };
    assert!(refusal.to_string().contains("999"), "{refusal}");
    assert_eq!(refusal.kind(), ErrorKind::DeviceLost);
}

#[test]
fn a_driver_that_does_not_open_in_time_is_left_behind_and_closed_when_it_does() {
    let Some(rig) = Rig::new("on DriverOpen times 1 block") else { return };
    let hurried = options().limit(Duration::from_millis(50));
    let began = Instant::now();
    let limit = Duration::from_millis(50);
    assert_eq!(reason(Driver::open(rig.library, &rig.device, &hurried)), Unavailable::Overdue { limit });
    assert!(began.elapsed() < Duration::from_secs(10));
    // While it hangs, nobody else is made to wait.
    let began = Instant::now();
    assert_eq!(reason(Driver::open(rig.library, &rig.device, &options())), Unavailable::Overdue { limit });
    assert!(began.elapsed() < Duration::from_secs(1));
    rig.mock.ctl("release");
    until(|| rig.mock.calls("DriverClose") == 1);
    until(|| Driver::open(rig.library, &rig.device, &options()).is_ok());
}

#[test]
fn a_slow_driver_is_waited_for() {
    let Some(rig) = Rig::new("mode gds; on DriverOpen block 100") else { return };
    assert!(rig.driver().availability().unwrap().is_on());
}

#[test]
fn a_driver_that_does_not_close_is_no_harm() {
    let Some(rig) = Rig::new("on DriverClose times 1 status 5006") else { return };
    drop(rig.driver());
    until(|| rig.mock.calls("DriverClose") == 1);
    rig.driver();
    rig.mock.ctl("reset");
    // What was not closed is for the next test.
    // SAFETY: opened once more than it was closed.
    let status = unsafe { (rig.library.cuFileDriverClose_v2)() };
    assert_eq!(status.err.0, 0);
}

#[test]
fn without_proc_modules_the_library_is_not_called() {
    let Some(rig) = Rig::new("") else { return };
    let mut machine = surroundings();
    machine.modules = false;
    let options = DriverOptions::new().surroundings(machine);
    assert_eq!(reason(Driver::open(rig.library, &rig.device, &options)), Unavailable::NoModules);
    assert_eq!(rig.mock.calls("DriverOpen"), 0);
}

#[test]
fn under_windows_the_library_is_not_called() {
    let Some(rig) = Rig::new("") else { return };
    let mut machine = surroundings();
    machine.wsl = true;
    let options = DriverOptions::new().surroundings(machine);
    assert_eq!(reason(Driver::open(rig.library, &rig.device, &options)), Unavailable::Wsl);
    assert_eq!(rig.mock.calls("DriverOpen"), 0);
}

#[test]
fn this_machine_is_looked_at_where_nobody_says_what_it_is_like() {
    let Some(rig) = Rig::new("mode gds") else { return };
    let opened = Driver::open(rig.library, &rig.device, &DriverOptions::new());
    let machine = Surroundings::probe();
    match opened {
        Ok(driver) => assert!(machine.modules && driver.surroundings() == &machine),
        Err(error) => assert!(!machine.modules || machine.wsl, "{error}"),
    }
}

#[test]
fn host_memory_has_no_context_to_open_it_in() {
    let Some(rig) = Rig::new("") else { return };
    let error = Driver::open(rig.library, &Device::host(), &options()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_lost_context_is_the_reason() {
    if succeeded_in_child("open::a_lost_context_is_the_reason") {
        return;
    }
    let Some(rig) = Rig::new("") else { return };
    rig.gpu().ctl("sticky 0 700");
    assert_eq!(rig.device.alloc(4096).unwrap_err().kind(), ErrorKind::DeviceLost);
    let error = Driver::open(rig.library, &rig.device, &options()).unwrap_err();
    assert_eq!((error.kind(), rig.mock.calls("DriverOpen")), (ErrorKind::NoDevice, 0), "{error}");
}

#[test]
fn a_library_that_is_not_there_or_is_none_is_a_reason() {
    let missing = Library::open("/nowhere/libcufile.so.0").unwrap_err();
    assert!(matches!(&missing, Unavailable::NoLibrary { reason } if reason.contains("/nowhere")), "{missing}");
    let other = Library::open("libc.so.6").unwrap_err();
    assert!(matches!(other, Unavailable::MissingFunction { function: "cuFileGetVersion", .. }), "{other}");
}

#[test]
fn a_library_is_loaded_once() {
    let Some(path) = mock_cufile::path(Edition::Current) else { return };
    let (one, other) = (Library::open(&path).unwrap(), Library::open(&path).unwrap());
    assert!(std::ptr::eq(one, other));
    assert_eq!((one.version().to_string().as_str(), one.path()), ("1.20", Path::new(&path)));
}

#[test]
fn an_answer_of_cufile_is_the_source_of_the_error() {
    let Some(rig) = Rig::new("on DriverGetProperties status 5002") else { return };
    let error = Driver::open(rig.library, &rig.device, &options()).unwrap_err();
    let cause = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<CuFileError>());
    assert_eq!(cause.and_then(CuFileError::code), Some(5002));
}

//! The end of the process.

use std::sync::Mutex;

use warpio_cufile::{Driver, wait_for_releases};
use warpio_tests::mock_cufile::Control;

use crate::support::{Rig, in_child, text};

static LAST: Mutex<Option<(Driver, Control)>> = Mutex::new(None);

/// Runs behind warpio's own exit handler, as those of the library do.
extern "C" fn last() {
    let Some((driver, mock)) = LAST.lock().ok().and_then(|mut last| last.take()) else { return };
    drop(driver);
    wait_for_releases();
    let word: &[u8] = if mock.calls("DriverClose") == 0 { b"LEFT ALONE" } else { b"CLOSED" };
    // SAFETY: a text of this length.
    unsafe { libc::write(1, word.as_ptr().cast(), word.len()) };
}

#[test]
fn a_library_whose_exit_handlers_have_run_is_not_called() {
    if let Some(output) = in_child("exit::a_library_whose_exit_handlers_have_run_is_not_called") {
        let said = text(&output);
        return assert!(output.status.success() && said.contains("LEFT ALONE"), "{said}");
    }
    let Some(rig) = Rig::new("mode gds") else {
        println!("LEFT ALONE, on a real GPU");
        return;
    };
    // SAFETY: the handler lives as long as the process.
    assert_eq!(unsafe { libc::atexit(last) }, 0);
    *LAST.lock().unwrap() = Some((rig.driver(), rig.mock));
    std::process::exit(0);
}

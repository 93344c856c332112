//! `WARPIO_*` in the environment.

use serde_json::Value;

use crate::support::{FAILED, Run, Scratch, WRONG_USAGE, args, program};

fn with(name: &str, value: &str, arguments: &[&str]) -> Run {
    let mut command = program(arguments);
    command.env(name, value);
    Run::of(command)
}

#[test]
fn a_value_that_cannot_be_read_is_wrong_usage_and_names_the_variable() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 10);
    let mut command = program(args!["read", file]);
    command.env("WARPIO_TASK_SIZE", "8Mibble");
    let line = Run::of(command).error(WRONG_USAGE);
    assert!(line.contains("WARPIO_TASK_SIZE=8Mibble") && line.contains("8MiB"), "{line}");
}

#[test]
fn a_setting_that_does_not_exist_is_answered_with_those_that_do() {
    let line = with("WARPIO_TASKSIZE", "8MiB", &["info"]).error(WRONG_USAGE);
    assert!(line.contains("WARPIO_TASKSIZE") && line.contains("WARPIO_TASK_SIZE"), "{line}");
}

#[test]
fn a_value_out_of_range_is_answered_with_the_range() {
    let line = with("WARPIO_THREADS", "0", &["bench", "seq", "--size", "1MiB"]).error(WRONG_USAGE);
    assert!(line.contains("WARPIO_THREADS") && line.contains("between 1 and 1024"), "{line}");
}

#[test]
fn a_setting_is_shown_with_where_it_comes_from() {
    let info = with("WARPIO_TASK_SIZE", "8388608", &["info", "--json"]).json();
    let settings = info["config"].as_array().unwrap();
    let row = |key: &str| settings.iter().find(|row| row["key"] == key).unwrap();
    assert_eq!(row("task_size")["value"], "8MiB");
    assert_eq!(row("task_size")["origin"], "environment");
    assert_eq!(row("task_size")["variable"], "WARPIO_TASK_SIZE");
    assert_eq!(row("slot_size")["origin"], "default");
    for row in settings {
        for member in ["key", "variable", "value", "origin", "reason"] {
            assert!(row[member].as_str().is_some_and(|text| !text.is_empty()), "{member} of {row}");
        }
    }
}

#[test]
fn a_device_set_but_missing_fails_a_read_and_is_told_by_info() {
    let line = with("WARPIO_DEVICE", "cuda:77", &["bench", "seq", "--size", "1MiB"]).error(FAILED);
    assert!(line.contains("cuda:77"), "{line}");
    let info = with("WARPIO_DEVICE", "cuda:77", &["info", "--json"]).json();
    assert_eq!(info["device"], Value::Null);
    let text = with("WARPIO_DEVICE", "cuda:77", &["info"]).expect(0).stdout;
    assert!(text.contains("reads fail") && text.contains("cuda:77"), "{text}");
}

#[test]
fn an_engine_that_was_not_asked_for_has_a_reason() {
    let info = with("WARPIO_ENGINE", "posix", &["info", "--json"]).json();
    assert_eq!(info["engine"], "posix");
    assert!(info["io_uring"]["unused_because"].as_str().unwrap().contains("posix"));
    let bench = with("WARPIO_ENGINE", "posix", &["bench", "seq", "--size", "1MiB", "--json"]).json();
    assert_eq!(bench["engine"], "posix");
}

#[test]
fn an_engine_that_cannot_be_had_fails_a_read_and_is_told_by_info() {
    let without_ring = |arguments: &[&str]| {
        let mut command = program(arguments);
        command.env("WARPIO_ENGINE", "io-uring").env("WARPIO_IO_URING", "off");
        Run::of(command)
    };
    let line = without_ring(&["read", "/proc/version"]).error(FAILED);
    assert!(line.contains("io-uring") && line.contains("choose"), "{line}");
    let info = without_ring(&["info"]).expect(0).stdout;
    assert!(info.contains("none: the engine io-uring"), "{info}");
    assert_eq!(without_ring(&["info", "--json"]).json()["engine"], Value::Null);
}

#[test]
fn an_option_beats_the_environment() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 10);
    let mut command = program(args!["read", file, "--device", "host", "--json"]);
    command.env("WARPIO_DEVICE", "cuda:77");
    assert_eq!(Run::of(command).json()["device"], "host");
}

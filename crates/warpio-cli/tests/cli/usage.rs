//! What is called wrongly, and what helps.

use crate::support::{DONE, WRONG_USAGE, warpio};

#[track_caller]
fn refused(arguments: &[&str], said: &str) {
    let run = warpio(arguments).expect(WRONG_USAGE);
    assert_eq!(run.stdout, "", "{run:#?}");
    assert!(run.stderr.contains(said), "{run:#?}");
}

#[test]
fn nothing_to_do_is_answered_with_the_commands() {
    refused(&[], "bench");
    refused(&["bench"], "seq");
}

#[test]
fn unknown_commands_and_options_are_named() {
    refused(&["no-such-command"], "no-such-command");
    refused(&["bench", "no-such-bench"], "no-such-bench");
    refused(&["read", "x", "--no-such-option"], "--no-such-option");
    refused(&["info", "--checksum"], "--checksum");
}

#[test]
fn what_a_command_needs_is_named() {
    refused(&["read"], "<SRC>");
    refused(&["cp"], "<SRC>");
    refused(&["cp", "x"], "<DST>");
    refused(&["cache"], "warm");
    refused(&["cache", "show"], "<PATH>");
    refused(&["cache", "drop"], "<PATH>");
    refused(&["read", "x", "y"], "y");
}

#[test]
fn a_device_that_makes_no_sense_is_refused_with_those_that_do() {
    refused(&["read", "x", "--device", "potato"], "cuda:N");
    refused(&["bench", "seq", "--device", "cuda:-1"], "cuda:-1");
}

#[test]
fn a_size_that_makes_no_sense_is_refused_with_one_that_does() {
    refused(&["bench", "seq", "--size", "8Mibble"], "8MiB");
    refused(&["read", "x", "--offset", "-1"], "-1");
    refused(&["read", "x", "--offset", "+1"], "+1");
    refused(&["read", "x", "--length", "99999999999999999999"], "too large");
    refused(&["bench", "rand", "--block", "0"], "1GiB");
    refused(&["bench", "rand", "--block", "2GiB"], "1GiB");
    for depth in ["0", "4097", "+64", "65600"] {
        refused(&["bench", "rand", "--depth", depth], "4096");
    }
    for number in ["0", "+5", "five", "4294967296"] {
        refused(&["bench", "seq", "--rounds", number], number);
        refused(&["bench", "gather", "--batch", number], number);
    }
    refused(&["bench", "seq", "--device", "cuda:+1"], "cuda:+1");
    refused(&["bench", "rand", "--direct=sometimes"], "always");
    refused(&["bench", "rand", "--engine", "steam"], "io-uring");
    refused(&["bench", "seq", "--compare", "dd"], "fio");
}

#[test]
fn options_that_mean_nothing_together_are_refused() {
    refused(&["bench", "seq", "x", "--size", "1MiB"], "--size");
    refused(&["bench", "seq", "x", "--dir", "/tmp"], "--dir");
    refused(&["bench", "mmap", "x", "--pin", "--cold"], "--cold");
}

#[test]
fn what_a_bench_has_no_use_for_is_refused() {
    for option in ["--direct", "--engine=posix", "--batch=5", "--limit"] {
        refused(&["bench", "mmap", "x", option], option.split('=').next().unwrap());
    }
    for option in ["--pin", "--limit", "--checksum"] {
        refused(&["bench", "gather", "x", option], option);
    }
    refused(&["read", "x", "--mmap=yes"], "--mmap");
}

#[test]
fn a_level_that_the_log_does_not_have_is_refused() {
    refused(&["info", "--log", "loud"], "loud");
}

#[test]
fn help_names_every_command_and_fails_nothing() {
    let help = warpio(["--help"]).expect(DONE).stdout;
    for command in ["info", "read", "cp", "cache", "bench", "--json", "--log"] {
        assert!(help.contains(command), "{help}");
    }
    let help = warpio(["help", "bench", "seq"]).expect(DONE).stdout;
    assert!(help.contains("--rounds") && help.contains("256MiB"), "{help}");
}

#[test]
fn the_version_is_that_of_the_package() {
    let run = warpio(["--version"]).expect(DONE);
    assert_eq!(run.stdout, format!("warpio {}\n", env!("CARGO_PKG_VERSION")));
}

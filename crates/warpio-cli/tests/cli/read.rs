//! `warpio read`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::gpu::on_software_gpu;
use crate::support::{DONE, FAILED, MIB, Run, Scratch, args, bytes, crc32c, json, program, warpio};

#[test]
fn the_checksum_is_that_of_the_file() {
    let scratch = Scratch::new();
    for len in [1, 4095, 4096, 4 * MIB, 17 * MIB + 4097] {
        let file = scratch.file("file", len);
        let read = json(args!["read", file, "--checksum", "--device", "host"]);
        assert_eq!(read["crc32c"], crc32c(&bytes(len)), "{len} bytes");
        assert_eq!(read["bytes"], len);
        let paths = read["paths"].as_object().unwrap();
        assert_eq!(paths.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), len as u64);
        assert_eq!((&read["device"], &read["offset"]), (&"host".into(), &0.into()));
        assert!(read["engine"].is_string());
        let rate = len as f64 / read["seconds"].as_f64().unwrap() / 1e9;
        assert!((read["gb_per_s"].as_f64().unwrap() / rate - 1.0).abs() < 1e-6, "{read}");
    }
}

#[test]
fn a_map_is_read_as_the_file_is() {
    let scratch = Scratch::new();
    let (len, file) = (3 * MIB + 5, scratch.file("a file", 3 * MIB + 5));
    let url = format!("file://{}", file.to_str().unwrap().replace(' ', "%20"));
    for (source, offset, length) in [
        (file.to_str().unwrap(), 0, usize::MAX),
        (&url, 100, usize::MAX),
        (&url, 4097, 70_001),
        (&url, len - 7, 8),
        (&url, len, 1),
        (&url, 5, 0),
    ] {
        let part = &bytes(len)[offset..len.min(offset.saturating_add(length))];
        let (offset, length) = (offset.to_string(), length.to_string());
        let arguments = ["read", source, "--mmap", "--checksum", "--offset", &offset, "--length", &length];
        let host = [&arguments[..], &["--device", "host", "--json"]].concat();
        let mut reads = vec![("host", program(host))];
        let gpu: Vec<_> = arguments.iter().chain(&["--device", "cuda:0", "--json"]).map(OsStr::new).collect();
        reads.extend(on_software_gpu(&gpu).map(|command| ("cuda:0", command)));
        for (device, command) in reads {
            let read = Run::of(command).json();
            assert_eq!((&read["crc32c"], &read["bytes"]), (&crc32c(part).into(), &part.len().into()), "{read}");
            let mapped = read["paths"]["mmap"].as_u64().unwrap_or(0);
            assert_eq!((mapped, &read["device"]), (part.len() as u64, &device.into()), "{read}");
        }
    }
    let text = warpio(args!["read", file, "--mmap", "--device", "host"]).expect(DONE).stdout;
    for part in ["3145733 bytes", "GB/s", "device host", "path mmap"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let empty = json(args!["read", scratch.file("empty", 0), "--mmap", "--checksum"]);
    assert_eq!((&empty["bytes"], &empty["crc32c"]), (&0.into(), &"00000000".into()));
}

#[test]
fn what_cannot_be_mapped_is_an_error_that_names_it() {
    let scratch = Scratch::new();
    let (fifo, missing, file) = (scratch.fifo("fifo"), scratch.path("missing"), scratch.file("file", 100));
    for (path, said) in [
        (fifo.as_path(), "pipe"),
        (scratch.dir(), "directory"),
        ("/dev/null".as_ref(), "character"),
        ("/proc/version".as_ref(), "cannot be mapped"),
        (missing.as_path(), "no such file"),
        ("s3://bucket/key".as_ref(), "file of this machine"),
        ("https://host/file".as_ref(), "file of this machine"),
    ] {
        for more in ["--mmap", "--mmap --json"] {
            let mut command = program(args!["read", path]);
            command.args(more.split(' '));
            let line = Run::of(command).error(FAILED);
            assert!(line.contains(said) && line.contains(path.to_str().unwrap()), "{line}");
        }
    }
    let line = warpio(args!["read", file, "--mmap", "--offset", "101"]).error(FAILED);
    assert!(line.contains("100 bytes") && line.contains("--offset"), "{line}");
}

#[test]
fn text_tells_the_same() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 5000);
    let text = warpio(args!["read", file, "--checksum", "--device", "host"]).expect(DONE).stdout;
    for part in ["5000 bytes", "GB/s", "device host", &crc32c(&bytes(5000)), file.to_str().unwrap()] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let text = warpio(args!["read", file]).expect(DONE).stdout;
    assert!(!text.contains("crc32c"), "not asked for: {text}");
}

#[test]
fn a_part_is_read_where_it_was_asked_for() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 100_000);
    let read = json(args!["read", file, "--offset", "3KiB", "--length", "70001", "--checksum"]);
    assert_eq!(read["crc32c"], crc32c(&bytes(100_000)[3072..73_073]));
    assert_eq!((&read["bytes"], &read["offset"]), (&70_001.into(), &3072.into()));
    let rest = json(args!["read", file, "--offset", "99999", "--checksum"]);
    assert_eq!((&rest["bytes"], &rest["crc32c"]), (&1.into(), &crc32c(&bytes(100_000)[99_999..]).into()));
}

#[test]
fn a_length_that_reaches_past_the_end_ends_there() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 100);
    for length in ["61", "1TiB", "18446744073709551615"] {
        assert_eq!(json(args!["read", file, "--offset", "40", "--length", length])["bytes"], 60, "{length}");
    }
    assert_eq!(json(args!["read", file, "--offset", "100"])["bytes"], 0, "at the end is nothing, and no mistake");
    assert_eq!(json(args!["read", file, "--length", "0"])["bytes"], 0);
}

#[test]
fn an_offset_past_the_end_is_an_error_that_tells_the_size() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 100);
    for offset in ["101", "18446744073709551615"] {
        let line = warpio(args!["read", file, "--offset", offset, "--length", "10"]).error(FAILED);
        assert!(line.contains("100 bytes") && line.contains(offset) && line.contains("--offset"), "{line}");
    }
}

#[test]
fn an_empty_file_is_read() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 0);
    let read = json(args!["read", file, "--checksum"]);
    assert_eq!((&read["bytes"], &read["crc32c"], &read["gb_per_s"]), (&0.into(), &"00000000".into(), &0.0.into()));
    assert!(read["paths"].as_object().unwrap().is_empty());
}

#[test]
fn a_file_that_knows_no_size_is_read_to_its_end() {
    let whole = std::fs::read("/proc/version").unwrap();
    let read = json(["read", "/proc/version", "--checksum"]);
    assert_eq!((&read["bytes"], &read["crc32c"]), (&whole.len().into(), &crc32c(&whole).into()));
    let part = json(["read", "/proc/version", "--checksum", "--offset", "3", "--length", "7"]);
    assert_eq!(part["crc32c"], crc32c(&whole[3..10]));
}

#[test]
fn a_missing_file_is_named() {
    let scratch = Scratch::new();
    let missing = scratch.path("missing");
    for arguments in [&args!["read", missing][..], &args!["read", missing, "--json"], &args!["bench", "seq", missing]] {
        let line = warpio(arguments).error(FAILED);
        assert!(line.contains(missing.to_str().unwrap()), "{line}");
    }
}

#[test]
fn what_is_no_file_is_refused_and_never_waited_for() {
    let scratch = Scratch::new();
    let fifo = scratch.fifo("fifo");
    for (path, what) in [(fifo.as_path(), "pipe"), (scratch.dir(), "directory"), ("/dev/null".as_ref(), "character")] {
        for command in [&args!["read", path][..], &args!["bench", "seq", path]] {
            let line = warpio(command).error(FAILED);
            assert!(line.contains(what) && line.contains(path.to_str().unwrap()), "{line}");
        }
    }
}

#[test]
fn a_file_url_is_a_path() {
    let scratch = Scratch::new();
    let file = scratch.file("a b", 1000);
    let url = format!("file://{}", file.to_str().unwrap().replace(' ', "%20"));
    assert_eq!(json(["read", &url, "--checksum"])["crc32c"], crc32c(&bytes(1000)));
}

#[test]
fn a_url_that_cannot_be_opened_is_refused_without_its_secrets() {
    let line = warpio(["read", "gopher://me:secret@host/x?key=hidden"]).error(FAILED);
    assert!(line.contains("gopher") && !line.contains("secret") && !line.contains("hidden"), "{line}");
}

#[test]
fn a_name_with_a_line_break_leaves_one_line() {
    let scratch = Scratch::new();
    let line = warpio(args!["read", scratch.path("two\nlines\x1b[31m")]).error(FAILED);
    assert!(line.contains("two\\nlines"), "{line}");
    let file = scratch.file("two\nlines", 10);
    assert_eq!(json(args!["read", file])["source"], file.to_str().unwrap());
    let text = warpio(args!["read", file]).expect(DONE).stdout;
    assert_eq!(text.lines().count(), 2, "{text}");
}

#[test]
fn a_name_that_is_not_utf_8_is_read() {
    let scratch = Scratch::new();
    let file = scratch.dir().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::write(&file, bytes(10)).unwrap();
    let read = json(args!["read", file, "--checksum"]);
    assert_eq!(read["crc32c"], crc32c(&bytes(10)));
    assert!(read["source"].as_str().unwrap().ends_with("caf\u{fffd}"));
}

#[test]
fn a_device_that_is_not_there_is_not_replaced_by_the_host() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 10);
    let line = warpio(args!["read", file, "--device", "cuda:99", "--checksum"]).error(FAILED);
    assert!(line.contains("cuda:99") && line.contains("host"), "{line}");
}

#[test]
fn the_log_goes_to_stderr_and_tells_of_the_transfer() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 10);
    let run = Run::of(program(args!["read", file, "--json", "--log", "debug"])).expect(DONE);
    assert_eq!(run.stdout.lines().count(), 1);
    assert!(run.stderr.contains("transfer") && run.stderr.contains("paths="), "{run:#?}");
}

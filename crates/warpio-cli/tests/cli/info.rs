//! `warpio info`.

use crate::support::{DONE, FAILED, Scratch, args, json, on_tmpfs, warpio};

#[test]
fn everything_is_in_one_object() {
    let info = json(["info"]);
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(info["kernel"], kernel.trim());
    assert_eq!(info["page_size"], rustix::param::page_size());
    assert!(info["cpus"]["usable"].as_u64().unwrap() >= 1);
    assert!(info["memory"]["total"].as_u64().unwrap() > 0);
    for member in ["memlock", "open_files", "io_uring", "cuda"] {
        assert!(info[member].is_object(), "{member}");
    }
    assert!(info["io_uring"]["allowed"].is_boolean());
    assert!(info["engine"].is_string());
    assert!(info.get("path").is_none(), "no path was given");
}

#[test]
fn devices_begin_with_host_memory_and_missing_ones_have_a_reason() {
    let info = json(["info"]);
    let devices = info["devices"].as_array().unwrap();
    assert_eq!((&devices[0]["name"], &devices[0]["kind"]), (&"host".into(), &"host".into()));
    if !info["cuda"]["available"].as_bool().unwrap() {
        assert!(!info["cuda"]["reason"].as_str().unwrap().is_empty());
        assert_eq!((devices.len(), &info["device"]), (1, &"host".into()));
    }
}

#[test]
fn settings_are_complete_and_their_defaults_have_a_reason() {
    let info = json(["info"]);
    let settings = info["config"].as_array().unwrap();
    assert!(settings.iter().any(|row| row["variable"] == "WARPIO_DEVICE" && row["value"] == "auto"));
    for row in settings {
        assert_eq!(row["origin"], "default", "{row}");
        assert!(!row["reason"].as_str().unwrap().is_empty(), "{row}");
    }
}

#[test]
fn people_see_machine_devices_and_settings() {
    let text = warpio(["info"]).expect(DONE).stdout;
    for part in ["kernel", "processors", "memory", "locked memory", "io_uring", "device host", "WARPIO_TASK_SIZE"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line == line.trim_end()), "{text:?}");
}

#[test]
fn a_file_is_told_with_what_direct_io_asks_for() {
    let scratch = Scratch::new();
    let file = scratch.file("file", 12_345);
    let info = json(args!["info", file]);
    let path = &info["path"];
    assert_eq!((&path["kind"], &path["size"]), (&"regular file".into(), &12_345.into()));
    assert_eq!(path["path"], file.to_str().unwrap());
    let direct = &path["direct_io"];
    let alignment = direct["offset_alignment"].as_u64();
    assert_eq!(direct["supported"], alignment.is_some());
    assert!(alignment.is_none_or(u64::is_power_of_two), "{path}");
    let text = warpio(args!["info", file]).expect(DONE).stdout;
    assert!(text.contains("12345 bytes") && text.contains("direct I/O"), "{text}");
}

#[test]
fn the_file_system_is_named() {
    on_tmpfs("size=1m", |dir| {
        std::fs::write(dir.join("file"), b"x").unwrap();
        assert_eq!(json(args!["info", dir.join("file")])["path"]["file_system"], "tmpfs");
    });
}

#[test]
fn what_is_no_file_is_told_and_not_opened() {
    let scratch = Scratch::new();
    for (path, kind) in
        [(scratch.fifo("fifo").as_path(), "named pipe (FIFO)"), ("/dev/null".as_ref(), "character device")]
    {
        let info = json(args!["info", path]);
        assert_eq!(info["path"]["kind"], kind);
        assert!(info["path"]["direct_io"].is_null());
    }
    let info = json(args!["info", scratch.dir()]);
    assert_eq!(info["path"]["kind"], "directory");
    assert!(info["path"]["file_system"].is_string());
}

#[test]
fn a_missing_path_is_an_error() {
    let scratch = Scratch::new();
    let line = warpio(args!["info", scratch.path("missing"), "--json"]).error(FAILED);
    assert!(line.contains("missing"), "{line}");
}

//! Runs the examples as they were built, on host memory and on the software GPU, and looks at what they print. With
//! `WARPIO_TEST_CUDA=real` they run on the machine's own GPU instead.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use tempfile::TempDir;
use warpio_tests::servers::s3::{self, Objects};

const DEVICES: [&str; 2] = ["host", "cuda:0"];

/// Longer than two chunks of the examples, and a bit.
const LONG: usize = (33 << 20) + 13;

/// Cargo leaves the tests in `deps`, and the examples in a folder beside that.
fn beside(file: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let found = test.ancestors().skip(1).take(2).map(|folder| folder.join(file)).find(|file| file.is_file());
    found.unwrap_or_else(|| {
        panic!("{file} was not built: run all of this package's targets (cargo test -p warpio-examples)")
    })
}

fn example(name: &str, device: &str, arguments: &[&Path]) -> Output {
    command(name, device).args(arguments).output().unwrap()
}

fn command(name: &str, device: &str) -> Command {
    let mut command = Command::new(beside(&format!("examples/{name}")));
    for (variable, _) in std::env::vars_os() {
        if variable.to_string_lossy().starts_with("WARPIO_") {
            command.env_remove(variable);
        }
    }
    command.env("WARPIO_DEVICE", device).stdin(Stdio::null());
    let real = std::env::var_os("WARPIO_TEST_CUDA").is_some_and(|choice| choice == "real");
    if device != "host" && !real {
        command.env("LD_PRELOAD", beside("libmock_cuda.so")).env_remove("CUDA_VISIBLE_DEVICES");
    }
    command
}

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn file(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn load_tells_how_much_arrived_and_where() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "data", &bytes(LONG));
    for device in DEVICES {
        let line = printed(&example("load", device, &[&path]));
        assert!(line.starts_with(&format!("{LONG} bytes on {device} in ")) && line.ends_with(" GB/s\n"), "{line}");
    }
}

#[test]
fn replace_open_finds_the_numbers_of_the_file_on_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = [1.5f32, -2.0, 0.25, 1e9, 7.0];
    let path = file(&dir, "floats", &numbers.map(f32::to_le_bytes).concat());
    let short = file(&dir, "short", &numbers[..2].iter().copied().map(f32::to_le_bytes).collect::<Vec<_>>().concat());
    for device in DEVICES {
        let line = printed(&example("replace_open", device, &[&path]));
        assert_eq!(line, format!("5 floats on {device}, beginning with [1.5, -2.0, 0.25, 1000000000.0]\n"));
        let line = printed(&example("replace_open", device, &[&short]));
        assert_eq!(line, format!("2 floats on {device}, beginning with [1.5, -2.0]\n"));
    }
}

#[test]
fn ingest_sees_every_byte_of_every_file() {
    let dir = tempfile::tempdir().unwrap();
    let contents = [("long", bytes(LONG)), ("short", bytes(7)), ("empty", Vec::new())];
    let paths: Vec<_> = contents.iter().map(|(name, bytes)| file(&dir, name, bytes)).collect();
    let arguments: Vec<_> = paths.iter().map(PathBuf::as_path).collect();
    for device in DEVICES {
        let lines = printed(&example("ingest", device, &arguments));
        let want: Vec<_> = contents
            .iter()
            .zip(&paths)
            .map(|((_, bytes), path)| {
                let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
                format!("{}: the bytes add up to {sum}, on {device}", path.display())
            })
            .collect();
        assert_eq!(lines.lines().collect::<Vec<_>>(), want);
    }
}

#[test]
fn copy_is_the_same_file_and_leaves_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (file(&dir, "from", &bytes(LONG)), dir.path().join("to"));
    assert_eq!(printed(&example("copy", "auto", &[&from, &to])), format!("{LONG} bytes copied\n"));
    assert!(std::fs::read(&to).unwrap() == bytes(LONG), "the copy differs");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

#[test]
fn s3_stream_sees_every_byte_of_an_object() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let objects = Arc::new(Objects::default());
    let server = tokio.block_on(s3::start(&objects, |_| None));
    // Longer than one chunk of the example.
    let object = bytes((64 << 20) + 13);
    let sum: u64 = object.iter().map(|&byte| u64::from(byte)).sum();
    objects.put("/bucket/an%20object", object);
    for device in DEVICES {
        let mut command = command("s3_stream", device);
        command.env("AWS_ENDPOINT_URL", server.url("")).env("AWS_ACCESS_KEY_ID", "id");
        command.env("AWS_SECRET_ACCESS_KEY", "hidden").arg("s3://bucket/an object");
        let output = command.output().unwrap();
        // What is sent without TLS is warned of where there is a log; the example has none.
        let line = printed(&output);
        let expected = format!("s3://bucket/an object: {} bytes on {device}, sum {sum}, ", (64 << 20) + 13);
        assert!(line.starts_with(&expected) && line.ends_with(" GB/s\n"), "{line}");
    }
}

#[test]
fn a_missing_file_is_named_and_nothing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let (missing, target) = (dir.path().join("missing"), dir.path().join("target"));
    for (name, arguments) in [
        ("load", &[missing.as_path()] as &[&Path]),
        ("replace_open", &[&missing]),
        ("ingest", &[&missing]),
        ("copy", &[&missing, &target]),
    ] {
        let output = example(name, "host", arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
        assert!(error.contains(missing.to_str().unwrap()) && error.contains("NotFound"), "{name}: {error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

//! `read` and `cp` with URLs.

use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Runtime;
use warpio_tests::servers::fault::{Act, Answer, FaultServer, Seen};
use warpio_tests::servers::hdfs::Hdfs;
use warpio_tests::servers::s3::{self, Objects};

use crate::support::{DONE, FAILED, MIB, Run, Scratch, args, bytes, crc32c, program, with_signals};

/// A store, and what lives in it. The server runs in the test.
struct Store {
    tokio: Runtime,
    objects: Arc<Objects>,
    server: FaultServer,
}

impl Store {
    fn new() -> Self {
        Self::with_faults(|_| None)
    }

    fn with_faults(fault: impl Fn(&Seen) -> Option<Vec<Act>> + Send + Sync + 'static) -> Self {
        let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let objects = Arc::new(Objects::default());
        let server = tokio.block_on(s3::start(&objects, fault));
        Self { tokio, objects, server }
    }

    fn command<A: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> std::process::Command {
        let mut command = program(arguments);
        command
            .env("AWS_ENDPOINT_URL", self.server.url(""))
            .env("AWS_ACCESS_KEY_ID", "the-id")
            .env("AWS_SECRET_ACCESS_KEY", "hidden-secret")
            .arg("--log=error");
        command
    }

    fn run<A: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Run {
        Run::of(self.command(arguments))
    }

    fn json<A: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> serde_json::Value {
        let mut command = self.command(arguments);
        command.arg("--json");
        Run::of(command).json()
    }
}

#[test]
fn an_object_is_read_into_memory_by_its_url() {
    let store = Store::new();
    store.objects.put("/bucket/an%20object", bytes(3 * MIB + 5));
    let whole = store.json(["read", "s3://bucket/an object", "--checksum"]);
    assert_eq!((&whole["bytes"], &whole["crc32c"]), (&(3 * MIB + 5).into(), &crc32c(&bytes(3 * MIB + 5)).into()));
    assert_eq!((&whole["engine"], &whole["paths"]["remote"]), (&"remote".into(), &(3 * MIB + 5).into()));
    let url = store.server.url("/bucket/an%20object?sig=hidden");
    let part = store.json(["read", &url, "--offset", "1MiB", "--length", "100", "--checksum"]);
    assert_eq!(part["crc32c"], crc32c(&bytes(MIB + 100)[MIB..]));
    assert!(!part.to_string().contains("hidden"), "{part}");
}

/// Lets a program believe that it runs on an instance of Google's, with a bucket at `store`, and a home of its own.
fn on_instance(command: &mut std::process::Command, home: &Scratch, store: &Store, metadata: &str) {
    command.env("HOME", home.dir()).env("GOOGLE_BASE_URL", store.server.url(""));
    command.env("GCE_METADATA_HOST", metadata).env("GCE_METADATA_IP", metadata);
}

/// An instance of Google's is told where to ask by the environment alone. Its tokens are over at once here, so that each
/// request needs another.
#[test]
fn what_an_instance_is_given_is_renewed_while_an_object_is_read() {
    let store = Store::with_faults(|seen| {
        let good = seen.header("authorization").starts_with("Bearer given-");
        (!good).then(|| Answer::new("401 Unauthorized").body(b"").send(&seen.method))
    });
    store.objects.put("/bucket/object", bytes(40 * MIB));
    let metadata = store.tokio.block_on(FaultServer::start(|seen| {
        let answer = match (seen.target.split('?').next(), seen.header("metadata-flavor")) {
            (Some("/computeMetadata/v1/instance/service-accounts/default/token"), "Google") => {
                let text = format!("{{\"access_token\":\"given-{}\",\"expires_in\":0}}", seen.number);
                Answer::new("200 OK").body(text.as_bytes())
            }
            _ => Answer::new("403 Forbidden").body(b"hidden"),
        };
        answer.send(&seen.method)
    }));
    let home = Scratch::new();
    let command = |metadata: &str| {
        let mut command = program(["read", "gs://bucket/object", "--checksum", "--json", "--log=error"]);
        on_instance(&mut command, &home, &store, metadata);
        command.env("http_proxy", "http://127.0.0.1:1");
        command
    };
    let read = Run::of(command(&metadata.address().to_string())).json();
    assert_eq!((&read["bytes"], &read["crc32c"]), (&(40 * MIB).into(), &crc32c(&bytes(40 * MIB)).into()));
    let mut tokens: Vec<_> = store.server.seen().iter().map(|seen| seen.header("authorization").to_owned()).collect();
    // Requests that are made at the same moment share one.
    tokens.sort();
    tokens.dedup();
    assert!(tokens.len() > 2, "{tokens:?}");

    let refused = format!("{}/elsewhere", metadata.address());
    let line = Run::of(command(&refused)).error(FAILED);
    assert!(line.contains("asked for them answers 403") && !line.contains("hidden"), "{line}");
}

/// A server that has one object, whatever it is asked for.
fn with_one_object() -> Store {
    Store::with_faults(|seen| Some(Answer::of(&bytes(1000), seen).send(&seen.method)))
}

#[test]
fn containers_of_azure_are_found_by_their_urls() {
    let store = with_one_object();
    let endpoint = store.server.url("/account");
    let read = |url: &str, variables: &[(&str, &str)]| {
        let mut command = program(["read", url, "--checksum", "--json", "--log=error"]);
        command.env("AZURE_STORAGE_ENDPOINT", &endpoint).envs(variables.iter().copied());
        assert_eq!(Run::of(command).json()["crc32c"], crc32c(&bytes(1000)), "{url}");
        store.server.seen().pop().unwrap()
    };
    let key = ("AZURE_STORAGE_ACCOUNT_KEY", "aGlkZGVu");
    let seen = read("az://container/a b", &[("AZURE_STORAGE_ACCOUNT_NAME", "mine"), key]);
    assert_eq!(seen.target, "/account/container/a%20b");
    assert!(seen.header("authorization").starts_with("SharedKey mine:"), "{seen:?}");
    let seen = read("abfss://container@other.dfs.core.windows.net/d/k", &[key]);
    assert_eq!(seen.target, "/account/container/d/k");
    assert!(seen.header("authorization").starts_with("SharedKey other:"), "{seen:?}");
    let public = [("AZURE_STORAGE_ACCOUNT_NAME", "mine"), ("AZURE_SKIP_SIGNATURE", "true")];
    assert_eq!(read("az://container/x", &public).header("authorization"), "");
}

#[test]
fn public_buckets_need_no_credentials() {
    let store = with_one_object();
    for url in ["s3://bucket/key", "gs://bucket/key"] {
        let mut command = program(["read", url, "--checksum", "--json", "--log=error"]);
        command.env("AWS_SKIP_SIGNATURE", "true").env("AWS_ENDPOINT_URL", store.server.url(""));
        command.env("GOOGLE_SKIP_SIGNATURE", "true").env("GOOGLE_BASE_URL", store.server.url(""));
        assert_eq!(Run::of(command).json()["crc32c"], crc32c(&bytes(1000)), "{url}");
    }
    for seen in store.server.seen() {
        assert_eq!((seen.target.as_str(), seen.header("authorization")), ("/bucket/key", ""));
    }
}

#[test]
fn a_proxy_is_told_what_it_needs_and_no_more() {
    let proxy = with_one_object();
    let by_proxy = |url: &str, variable: &str| {
        let mut command = program(["read", url, "--checksum", "--json", "--log=error"]);
        command.env_remove("no_proxy").env_remove("NO_PROXY");
        command.env(variable, proxy.server.url("").replace("http://", "http://me:hidden@"));
        Run::of(command)
    };
    let run = by_proxy("http://far.example/x?y", "http_proxy");
    assert_eq!(run.json()["crc32c"], crc32c(&bytes(1000)));
    for seen in proxy.server.seen() {
        assert_eq!((seen.target.as_str(), seen.header("host")), ("http://far.example/x?y", "far.example"));
        assert_eq!(seen.header("proxy-authorization"), "Basic bWU6aGlkZGVu");
    }

    // What goes to a server by TLS is not for the proxy, which refuses here to let it through.
    let refusing = Store::with_faults(|seen| Some(Answer::new("403 Forbidden").body(b"hidden").send(&seen.method)));
    let mut command = program(["read", "https://user:hidden@far.example/x?sig=hidden", "--log=error"]);
    command.env_remove("no_proxy").env_remove("NO_PROXY").env("WARPIO_HTTP_ATTEMPTS", "1");
    command.env("https_proxy", refusing.server.url(""));
    let line = Run::of(command).error(FAILED);
    assert!(line.contains("proxy") && !line.contains("hidden"), "{line}");
    let seen = refusing.server.seen();
    assert!(!seen.is_empty());
    for seen in seen {
        assert_eq!((seen.method.as_str(), seen.target.as_str()), ("CONNECT", "far.example:443"));
        assert!(!format!("{seen:?}").contains("hidden") && seen.header("authorization").is_empty(), "{seen:?}");
    }
}

#[test]
fn a_server_that_tells_no_length_is_read_as_far_as_is_said() {
    // All of it, whatever range is asked for.
    let store = Store::with_faults(|seen| {
        let whole = Seen { headers: Default::default(), ..seen.clone() };
        Some(Answer::of(&bytes(5000), &whole).chunked(99).send(&seen.method))
    });
    let url = store.server.url("/x");
    let line = store.run(["read", &url]).error(FAILED);
    assert!(line.contains("--length"), "{line}");
    let read = store.json(["read", &url, "--length", "1MiB", "--checksum"]);
    assert_eq!((&read["bytes"], &read["crc32c"]), (&5000.into(), &crc32c(&bytes(5000)).into()));
}

#[test]
fn copies_go_from_anywhere_to_anywhere() {
    let (store, scratch) = (Store::new(), Scratch::new());
    for len in [0, 1, 37 * MIB + 5] {
        let (file, back) = (scratch.file("file", len), scratch.path("back"));
        let up = store.json(args!["cp", file, "s3://bucket/a+b", "--verify"]);
        assert_eq!((&up["bytes"], &up["destination"]), (&len.into(), &"s3://bucket/a+b".into()));
        assert_eq!(store.objects.get("/bucket/a%2Bb").unwrap(), bytes(len));
        store.json(["cp", "s3://bucket/a+b", "s3://bucket/other", "--verify"]);
        store.json(args!["cp", "s3://bucket/other", back, "--verify"]);
        assert!(fs::read(&back).unwrap() == bytes(len), "{len} bytes");
    }
    // Into a directory, and below a URL that ends with a slash.
    let dir = scratch.subdir("dir");
    store.run(args!["cp", "s3://bucket/other", dir]).expect(DONE);
    assert!(dir.join("other").exists());
    store.run(args!["cp", dir.join("other"), "s3://bucket/below/"]).expect(DONE);
    assert!(store.objects.get("/bucket/below/other").is_some());
    let line = store.run(["cp", "s3://bucket/other", "https://example.invalid/x"]).error(FAILED);
    assert!(line.contains("cannot be written"), "{line}");
}

#[test]
fn copies_go_from_one_kind_of_store_to_another() {
    let (store, others, scratch) = (Store::new(), Store::new(), Scratch::new());
    let hdfs = others.tokio.block_on(Hdfs::start(None));
    let token = br#"{"access_token":"given","expires_in":3600}"#;
    let metadata =
        others.tokio.block_on(FaultServer::start(|seen| Answer::new("200 OK").body(token).send(&seen.method)));
    let metadata = metadata.address().to_string();
    let len = 9 * MIB + 7;
    let (file, back) = (scratch.file("file", len), scratch.path("back"));
    let copy = |from: &str, to: &str| {
        let mut command = store.command(["cp", from, to, "--verify"]);
        on_instance(&mut command, &scratch, &others, &metadata);
        command.arg("--json");
        assert_eq!(Run::of(command).json()["bytes"], len, "{from} to {to}");
    };
    copy(file.to_str().unwrap(), "gs://bucket/an object");
    assert!(others.objects.get("/bucket/an%20object").unwrap() == bytes(len));
    copy("gs://bucket/an object", &hdfs.url("/data/a file"));
    assert!(hdfs.files().get("/data/a file").unwrap() == bytes(len));
    copy(&hdfs.url("/data/a file"), "s3://bucket/object");
    copy("s3://bucket/object", back.to_str().unwrap());
    assert!(fs::read(&back).unwrap() == bytes(len));
}

#[test]
fn whole_prefixes_and_directories_are_copied() {
    let (store, scratch) = (Store::new(), Scratch::new());
    let dir = scratch.subdir("dir");
    fs::create_dir_all(dir.join("sub/deep")).unwrap();
    for (name, len) in [("a", 10), ("b c=1", 0), ("sub/d%", 6 * MIB), ("sub/deep/ü", 5)] {
        fs::write(dir.join(name), bytes(len)).unwrap();
    }
    let up = store.json(args!["cp", "-r", dir, "s3://bucket/pre/fix"]);
    assert_eq!((&up["files"], &up["bytes"]), (&4.into(), &(6 * MIB + 15).into()));
    let keys = [
        "/bucket/pre/fix/a",
        "/bucket/pre/fix/b%20c%3D1",
        "/bucket/pre/fix/sub/d%25",
        "/bucket/pre/fix/sub/deep/%C3%BC",
    ];
    assert_eq!(store.objects.paths(), keys);
    store.json(["cp", "-r", "s3://bucket/pre/fix/", "s3://bucket/again"]);
    let back = scratch.path("back");
    store.json(args!["cp", "-r", "s3://bucket/again", back]);
    for (name, len) in [("a", 10), ("b c=1", 0), ("sub/d%", 6 * MIB), ("sub/deep/ü", 5)] {
        assert!(fs::read(back.join(name)).unwrap() == bytes(len), "{name}");
    }
    let line = store.run(args!["cp", "-r", "s3://bucket/nothing", back]).error(FAILED);
    assert!(line.contains("nothing below"), "{line}");
}

#[test]
fn a_key_that_leads_out_of_the_destination_is_refused() {
    let (store, scratch) = (Store::new(), Scratch::new());
    store.objects.put("/bucket/evil/%2E%2E/%2E%2E/out", bytes(10));
    store.objects.put("/bucket/evil/a", bytes(10));
    let run = store.run(args!["cp", "-r", "s3://bucket/evil", scratch.path("in")]);
    assert_ne!(run.code, Some(DONE), "{run:?}");
    assert!(!scratch.path("in").exists() && !scratch.path("out").exists());
}

/// What consoles make to show a folder is an empty object whose key ends with a slash.
#[test]
fn what_stands_for_a_folder_is_no_file() {
    let (store, scratch) = (Store::new(), Scratch::new());
    for (key, len) in [("", 0), ("a", 10), ("sub/", 0), ("sub/b", 20), ("empty/", 0), ("nothing", 0)] {
        store.objects.put(&format!("/bucket/folder/{key}"), bytes(len));
    }
    let down = store.json(args!["cp", "-r", "s3://bucket/folder", scratch.path("in")]);
    assert_eq!((&down["files"], &down["bytes"]), (&3.into(), &30.into()));
    assert!(fs::read(scratch.path("in/a")).unwrap() == bytes(10));
    assert!(fs::read(scratch.path("in/sub/b")).unwrap() == bytes(20));
    assert!(fs::read(scratch.path("in/nothing")).unwrap().is_empty());
    assert!(!scratch.path("in/empty").exists());
}

/// Listings show both under one name.
#[test]
fn keys_that_differ_in_a_slash_at_the_end_are_not_taken_for_one() {
    let (store, scratch) = (Store::new(), Scratch::new());
    store.objects.put("/bucket/two/x", bytes(10));
    store.objects.put("/bucket/two/x/", bytes(20));
    let line = store.run(args!["cp", "-r", "s3://bucket/two", scratch.path("in")]).error(FAILED);
    assert!(line.contains(r#""x""#) && line.contains("slash"), "{line}");
    assert!(!scratch.path("in").exists());
}

#[test]
fn errors_are_one_line_without_secrets() {
    let store = Store::with_faults(|seen| {
        let body = b"<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>hidden</AWSAccessKeyId></Error>";
        Some(Answer::new("403 Forbidden").body(body).send(&seen.method))
    });
    let line = store.run(["read", "s3://bucket/x"]).error(FAILED);
    assert!(line.contains("SignatureDoesNotMatch") && line.contains("s3://bucket/x"), "{line}");
    assert!(!line.contains("hidden"), "{line}");
    let url = format!("{}?X-Amz-Signature=hidden", store.server.url("/x")).replace("http://", "http://me:hidden@");
    let line = store.run(["read", &url]).error(FAILED);
    assert!(!line.contains("hidden"), "{line}");
}

#[test]
fn a_copy_that_is_interrupted_leaves_nothing_at_the_store() {
    let objects: Arc<std::sync::OnceLock<Arc<Objects>>> = Arc::default();
    let shared = objects.clone();
    let store = Store::with_faults(move |seen| {
        // Parts are taken, but never acknowledged.
        let part = seen.target.contains("partNumber=");
        part.then(|| shared.get().map(|objects| objects.answer(seen))).flatten().map(|_| vec![Act::Silence])
    });
    objects.set(store.objects.clone()).unwrap();
    let scratch = Scratch::new();
    let source = scratch.sparse("source", 1 << 30);
    let mut command = store.command(args!["cp", source, "s3://bucket/target"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = with_signals(command, false).spawn().unwrap();
    // The beginning of the upload, and a part.
    store.tokio.block_on(store.server.requests(2));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let run: Run = child.wait_with_output().unwrap().into();
    run.error(130);
    assert_eq!((store.objects.aborted(), store.objects.open_uploads()), (1, 0));
    assert!(store.objects.paths().is_empty());
}

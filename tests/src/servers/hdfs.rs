//! WebHDFS, by Hadoop's documentation of it (`WebHDFS REST API`): a name node that answers in JSON and sends whoever
//! wants bytes on to a data node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault::{Act, Answer, FaultServer, Seen};

/// A cluster of one name node and one data node.
#[derive(Debug)]
pub struct Hdfs {
    name_node: FaultServer,
    data_node: FaultServer,
    files: Arc<Files>,
}

/// What a cluster holds.
#[derive(Debug, Default)]
pub struct Files {
    files: Mutex<BTreeMap<String, (Vec<u8>, u64)>>,
    clock: Mutex<u64>,
    /// Operations whose next reply is lost.
    lost: Mutex<Vec<&'static str>>,
    /// Bytes of an append whose sender has given up, which are written with the next.
    late: Mutex<Option<Vec<u8>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Files {
    /// Writes a file, at a later time than any before.
    pub fn put(&self, path: &str, bytes: Vec<u8>) {
        let now = {
            let mut clock = lock(&self.clock);
            *clock += 1000;
            *clock
        };
        lock(&self.files).insert(path.to_owned(), (bytes, now));
    }

    /// A file.
    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        lock(&self.files).get(path).map(|(bytes, _)| bytes.clone())
    }

    /// Loses the next reply to `operation`. A rename is carried out all the same, and an append later: just before the
    /// next one.
    pub fn lose_reply(&self, operation: &'static str) {
        lock(&self.lost).push(operation);
    }

    fn loses_reply(&self, operation: &str) -> bool {
        let mut lost = lock(&self.lost);
        lost.iter().position(|lost| *lost == operation).map(|at| lost.swap_remove(at)).is_some()
    }

    /// The paths of all files.
    pub fn paths(&self) -> Vec<String> {
        lock(&self.files).keys().cloned().collect()
    }
}

impl Hdfs {
    /// Starts a cluster. Where `kerberos` is set, only who has the token is let in.
    pub async fn start(kerberos: Option<&'static str>) -> Self {
        Self::with_faults(kerberos, |_| None).await
    }

    /// As [`start`](Self::start); `fault` may answer instead of the data node.
    pub async fn with_faults(
        kerberos: Option<&'static str>,
        fault: impl Fn(&Seen) -> Option<Vec<Act>> + Send + Sync + 'static,
    ) -> Self {
        let files: Arc<Files> = Arc::default();
        let shared = files.clone();
        let data_node = FaultServer::start(move |seen| {
            if query(seen, "op") == "APPEND" && shared.loses_reply("APPEND") {
                *lock(&shared.late) = Some(seen.body.clone());
                return vec![Act::Reset];
            }
            fault(seen).unwrap_or_else(|| data(&shared, seen).send(&seen.method))
        })
        .await;
        let shared = files.clone();
        let address = data_node.url("");
        let name_node = FaultServer::start(move |seen| {
            if kerberos.is_some_and(|token| query(seen, "delegation") != token) {
                let refusal = Answer::new("401 Authentication required").header("WWW-Authenticate", "Negotiate");
                return refusal.body(b"").send(&seen.method);
            }
            let answer = name(&shared, &address, seen);
            match query(seen, "op") == "RENAME" && shared.loses_reply("RENAME") {
                true => vec![Act::Reset],
                false => answer.send(&seen.method),
            }
        })
        .await;
        Self { name_node, data_node, files }
    }

    /// The URL of a file, as its users write it.
    pub fn url(&self, path: &str) -> String {
        format!("webhdfs://{}{path}", self.name_node.address())
    }

    /// The URL of a file, as HTTP.
    pub fn http(&self, path: &str) -> String {
        self.name_node.url(&format!("/webhdfs/v1{path}"))
    }

    /// What it holds.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The name node.
    pub fn name_node(&self) -> &FaultServer {
        &self.name_node
    }

    /// The data node.
    pub fn data_node(&self) -> &FaultServer {
        &self.data_node
    }
}

fn path(seen: &Seen) -> String {
    let path = seen.target.split('?').next().unwrap_or_default();
    decode(path.strip_prefix("/webhdfs/v1").unwrap_or(path))
}

fn query(seen: &Seen, name: &str) -> String {
    let query = seen.target.split_once('?').map_or("", |(_, query)| query);
    let value = query.split('&').filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name);
    value.map_or(String::new(), |(_, value)| decode(value))
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap_or(b'0'), rest.next().unwrap_or(b'0')];
            bytes.push(u8::from_str_radix(&String::from_utf8_lossy(&digits), 16).unwrap_or(b'?'));
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn json(text: &str) -> Answer {
    Answer::new("200 OK").header("Content-Type", "application/json").body(text.as_bytes())
}

fn exception(status: &str, name: &str, message: &str) -> Answer {
    let text = format!(
        "{{\"RemoteException\":{{\"exception\":\"{name}\",\"javaClassName\":\"java.io.{name}\",\"message\":\"{message}\"}}}}"
    );
    json(&text).status(status)
}

fn not_found(path: &str) -> Answer {
    exception("404 Not Found", "FileNotFoundException", &format!("File does not exist: {path}"))
}

fn status(suffix: &str, file: Option<&(Vec<u8>, u64)>) -> String {
    let (kind, len, time) = file.map_or(("DIRECTORY", 0, 0), |(bytes, time)| ("FILE", bytes.len(), *time));
    format!(
        "{{\"accessTime\":0,\"blockSize\":134217728,\"group\":\"g\",\"length\":{len},\"modificationTime\":{time},\
         \"owner\":\"o\",\"pathSuffix\":\"{suffix}\",\"permission\":\"644\",\"replication\":1,\"type\":\"{kind}\"}}"
    )
}

fn name(files: &Files, data_node: &str, seen: &Seen) -> Answer {
    let path = path(seen);
    let all = lock(&files.files);
    let file = all.get(&path);
    let folder = format!("{}/", path.trim_end_matches('/'));
    let is_folder = all.keys().any(|key| key.starts_with(&folder));
    match (seen.method.as_str(), query(seen, "op").as_str()) {
        ("GET", "GETFILESTATUS") => match file {
            None if !is_folder => not_found(&path),
            file => json(&format!("{{\"FileStatus\":{}}}", status("", file))),
        },
        ("GET", "LISTSTATUS") => {
            let mut children = BTreeMap::new();
            for (key, file) in all.iter() {
                if let Some(rest) = key.strip_prefix(&folder) {
                    match rest.split_once('/') {
                        Some((name, _)) => children.insert(name.to_owned(), status(name, None)),
                        None => children.insert(rest.to_owned(), status(rest, Some(file))),
                    };
                }
            }
            if let Some(file) = file {
                children.insert(String::new(), status("", Some(file)));
            }
            let list = children.into_values().collect::<Vec<_>>().join(",");
            json(&format!("{{\"FileStatuses\":{{\"FileStatus\":[{list}]}}}}"))
        }
        ("GET", "OPEN") | ("POST", "APPEND") if file.is_none() => not_found(&path),
        ("GET", "OPEN") | ("PUT", "CREATE") | ("POST", "APPEND") => {
            Answer::new("307 Temporary Redirect").header("Location", &format!("{data_node}{}", seen.target)).body(b"")
        }
        ("DELETE", "DELETE") => {
            let there = file.is_some();
            drop(all);
            lock(&files.files).remove(&path);
            json(&format!("{{\"boolean\":{there}}}"))
        }
        ("PUT", "RENAME") => {
            let to = query(seen, "destination");
            let overwrite = query(seen, "renameoptions") == "OVERWRITE";
            let taken = all.contains_key(&to);
            drop(all);
            rename(files, &path, to, overwrite, taken)
        }
        (_, operation) => {
            exception("400 Bad Request", "IllegalArgumentException", &format!("Invalid operation {operation}"))
        }
    }
}

fn rename(files: &Files, from: &str, to: String, overwrite: bool, taken: bool) -> Answer {
    let mut all = lock(&files.files);
    if taken && !overwrite {
        return json("{\"boolean\":false}");
    }
    match all.remove(from) {
        Some(file) => {
            all.insert(to, file);
            // With options, the answer has no body.
            if overwrite { Answer::new("200 OK").body(b"") } else { json("{\"boolean\":true}") }
        }
        None if overwrite => not_found(from),
        None => json("{\"boolean\":false}"),
    }
}

fn data(files: &Files, seen: &Seen) -> Answer {
    let path = path(seen);
    match (seen.method.as_str(), query(seen, "op").as_str()) {
        ("GET", "OPEN") => {
            let Some(bytes) = files.get(&path) else { return not_found(&path) };
            let offset: usize = query(seen, "offset").parse().unwrap_or(0);
            if offset > bytes.len() {
                return exception("403 Forbidden", "IOException", "Offset is out of the range");
            }
            let len = query(seen, "length").parse().unwrap_or(usize::MAX);
            let end = offset.saturating_add(len).min(bytes.len());
            Answer::new("200 OK").header("Content-Type", "application/octet-stream").body(&bytes[offset..end])
        }
        ("PUT", "CREATE") => {
            files.put(&path, seen.body.clone());
            Answer::new("201 Created").body(b"")
        }
        ("POST", "APPEND") => {
            let mut bytes = files.get(&path).unwrap_or_default();
            bytes.extend(lock(&files.late).take().unwrap_or_default());
            bytes.extend(&seen.body);
            files.put(&path, bytes);
            Answer::new("200 OK").body(b"")
        }
        (_, operation) => {
            exception("400 Bad Request", "IllegalArgumentException", &format!("Invalid operation {operation}"))
        }
    }
}

//! The part of S3's protocol that objects are written with, to see what is sent and to let it go wrong.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault::{Act, Answer, FaultServer, Seen};

/// What a store holds, and what is being uploaded to it.
#[derive(Debug, Default)]
pub struct Objects {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    uploads: Mutex<BTreeMap<String, BTreeMap<usize, Vec<u8>>>>,
    aborted: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    /// An object, by its path: bucket and key, as they stood in the request.
    pub fn get(&self, path: &str) -> Option<Vec<u8>> {
        lock(&self.objects).get(path).cloned()
    }

    /// Puts an object there.
    pub fn put(&self, path: &str, bytes: Vec<u8>) {
        lock(&self.objects).insert(path.to_owned(), bytes);
    }

    /// The paths of all objects.
    pub fn paths(&self) -> Vec<String> {
        lock(&self.objects).keys().cloned().collect()
    }

    /// How many uploads were begun and neither completed nor aborted.
    pub fn open_uploads(&self) -> usize {
        lock(&self.uploads).len()
    }

    /// Throws away what is being uploaded, as stores do with uploads that are old.
    pub fn expire_uploads(&self) {
        lock(&self.uploads).clear();
    }

    /// How many uploads were aborted.
    pub fn aborted(&self) -> usize {
        lock(&self.aborted).len()
    }

    /// What the store answers.
    pub fn answer(&self, seen: &Seen) -> Answer {
        let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
        let value = |name: &str| {
            query.split('&').find_map(|pair| match pair.split_once('=') {
                Some((key, value)) if key == name => Some(value.to_owned()),
                None if pair == name => Some(String::new()),
                _ => None,
            })
        };
        match (seen.method.as_str(), value("uploadId"), value("partNumber")) {
            ("POST", None, _) if value("uploads").is_some() => self.begin(path),
            ("PUT", Some(id), Some(number)) => self.part(&id, number.parse().unwrap_or(0), seen),
            ("POST", Some(id), _) => self.complete(&id, path, seen),
            ("DELETE", Some(id), _) => {
                lock(&self.uploads).remove(&id);
                lock(&self.aborted).push(id);
                Answer::new("204 No Content")
            }
            ("PUT", None, _) => self.store(path, seen.body.clone(), seen),
            ("DELETE", None, _) => {
                lock(&self.objects).remove(path);
                Answer::new("204 No Content")
            }
            ("GET", None, _) if value("list-type").is_some() => self.list(
                path,
                &decode(&value("prefix").unwrap_or_default()),
                &decode(&value("start-after").unwrap_or_default()),
            ),
            _ => match self.get(path) {
                Some(object) => Answer::of(&object, seen),
                None => refuse("404 Not Found", "NoSuchKey"),
            },
        }
    }

    /// All of it in one page.
    fn list(&self, bucket: &str, prefix: &str, after: &str) -> Answer {
        let mut text = String::from("<ListBucketResult>");
        for (path, bytes) in lock(&self.objects).iter() {
            let key = path.strip_prefix(bucket.trim_end_matches('/')).map(|key| decode(key.trim_start_matches('/')));
            if let Some(key) = key.filter(|key| key.starts_with(prefix) && key.as_str() > after) {
                let (key, len) = (key.replace('&', "&amp;").replace('<', "&lt;"), bytes.len());
                text += &format!(
                    "<Contents><Key>{key}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified>\
                     <ETag>&quot;x&quot;</ETag><Size>{len}</Size></Contents>"
                );
            }
        }
        xml(&(text + "</ListBucketResult>"))
    }

    fn begin(&self, path: &str) -> Answer {
        let id = format!("upload-{}", lock(&self.uploads).len() + lock(&self.aborted).len());
        lock(&self.uploads).insert(id.clone(), BTreeMap::new());
        xml(&format!(
            "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>{path}</Key><UploadId>{id}</UploadId>\
             </InitiateMultipartUploadResult>"
        ))
    }

    fn part(&self, id: &str, number: usize, seen: &Seen) -> Answer {
        match lock(&self.uploads).get_mut(id) {
            Some(parts) => {
                parts.insert(number, seen.body.clone());
                Answer::new("200 OK").header("ETag", &format!("\"part-{number}\"")).body(b"")
            }
            None => refuse("404 Not Found", "NoSuchUpload"),
        }
    }

    fn complete(&self, id: &str, path: &str, seen: &Seen) -> Answer {
        let Some(parts) = lock(&self.uploads).remove(id) else { return refuse("404 Not Found", "NoSuchUpload") };
        let wanted = String::from_utf8_lossy(&seen.body).matches("<PartNumber>").count();
        if wanted != parts.len() || !parts.keys().copied().eq(1..=wanted) {
            return refuse("400 Bad Request", "InvalidPart");
        }
        let stored = self.store(path, parts.into_values().flatten().collect(), seen);
        if lock(&self.objects).contains_key(path) && stored.is_success() {
            return xml("<CompleteMultipartUploadResult><Location>x</Location><Bucket>b</Bucket><Key>k</Key>\
                 <ETag>\"whole\"</ETag></CompleteMultipartUploadResult>");
        }
        stored
    }

    fn store(&self, path: &str, bytes: Vec<u8>, seen: &Seen) -> Answer {
        let mut objects = lock(&self.objects);
        let only_new = seen.header("if-none-match") == "*" || seen.header("x-goog-if-generation-match") == "0";
        if only_new && objects.contains_key(path) {
            return refuse("412 Precondition Failed", "PreconditionFailed");
        }
        objects.insert(path.to_owned(), bytes);
        Answer::new("200 OK").header("ETag", "\"whole\"").body(b"")
    }
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digits = [rest.clone().next().unwrap_or_default(), rest.clone().nth(1).unwrap_or_default()];
        match u8::from_str_radix(&String::from_utf8_lossy(&digits), 16) {
            Ok(value) if byte == b'%' => {
                bytes.push(value);
                rest.nth(1);
            }
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn xml(text: &str) -> Answer {
    Answer::new("200 OK").body(text.as_bytes())
}

fn refuse(status: &str, code: &str) -> Answer {
    let text = format!("<Error><Code>{code}</Code><Message>AWSAccessKeyId hidden-in-a-message</Message></Error>");
    Answer::new(status).body(text.as_bytes())
}

/// Starts a store that holds `objects`. `fault` may answer instead of it.
pub async fn start(
    objects: &Arc<Objects>,
    fault: impl Fn(&Seen) -> Option<Vec<Act>> + Send + Sync + 'static,
) -> FaultServer {
    let objects = objects.clone();
    FaultServer::start(move |seen| fault(seen).unwrap_or_else(|| objects.answer(seen).send(&seen.method))).await
}

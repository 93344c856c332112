//! `warpio cp -r`: all that is below a directory or the beginning of keys.

use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::Instant;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use warpio::remote::Location;
use warpio::{ErrorKind, Runtime, Sink, Source};

use super::{MAKE_ROOM, copy};
use crate::args::CpArgs;
use crate::failure::{Failure, OrAdvise};
use crate::figures::gb_per_s;
use crate::output::{Output, Report, named, shown_path};
use crate::progress::Progress;

/// Files that are copied at once: each alone may be too small to keep anything busy.
const AT_ONCE: usize = 8;

/// What is copied, and where to.
enum Root {
    Folder(PathBuf),
    Prefix(Location),
}

impl Root {
    fn of(rt: &Runtime, path: &Path) -> Result<Self, Failure> {
        match warpio::is_remote(path) {
            true => Ok(Self::Prefix(rt.remote().at(&path.to_string_lossy())?)),
            false => Ok(Self::Folder(warpio::local_path(path)?)),
        }
    }

    /// The names of all files below it, with slashes between their parts.
    async fn names(&self) -> Result<Vec<String>, Failure> {
        match self {
            Self::Folder(folder) => {
                let folder = folder.clone();
                let walk = tokio::task::spawn_blocking(move || walk(&folder)).await;
                walk.map_err(|error| Failure::new(format!("the directory could not be listed: {error}")))?
            }
            Self::Prefix(location) => {
                let mut listing = location.list()?;
                let mut names = Vec::new();
                while let Some(entry) = listing.try_next().await? {
                    // What some programs make to look like a directory.
                    if !entry.key.ends_with('/') {
                        names.push(location.relative(&entry).to_owned());
                    }
                }
                Ok(names)
            }
        }
    }

    async fn open(&self, rt: &Runtime, name: &str) -> Result<Source, Failure> {
        match self {
            Self::Folder(folder) => Ok(rt.open(folder.join(name)).await?),
            Self::Prefix(location) => Ok(Source::new(location.below(name).open().await?)),
        }
    }

    async fn create(&self, rt: &Runtime, name: &str) -> Result<Sink, Failure> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(inside(name)?);
                if let Some(parent) = path.parent() {
                    std::fs::create_dir_all(parent)
                        .map_err(|error| Failure::new(format!("{} cannot be made: {error}", parent.display())))?;
                }
                Ok(rt.create(path).await?)
            }
            Self::Prefix(location) => Ok(Sink::new(location.below(name).create()?)),
        }
    }
}

/// A name that leads nowhere but below the directory that it is joined to: keys may hold anything.
fn inside(name: &str) -> Result<&Path, Failure> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    // What a path leaves out would make one file of two objects.
    if plain && !name.is_empty() && !name.contains("//") && !name.contains("/./") && !name.ends_with('/') {
        return Ok(path);
    }
    Err(Failure::new(format!(
        "an object is called {name:?}, which can be no file below the destination; copy it alone"
    )))
}

/// Regular files, and what links to them. Directories are gone through, but not through links.
fn walk(folder: &Path) -> Result<Vec<String>, Failure> {
    let failed = |path: &Path, error: &dyn fmt::Display| Failure::new(format!("{}: {error}", path.display()));
    let (mut names, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = folders.pop() {
        let path = folder.join(&below);
        for entry in std::fs::read_dir(&path).map_err(|error| failed(&path, &error))? {
            let entry = entry.map_err(|error| failed(&path, &error))?;
            let name = below.join(entry.file_name());
            let kind = entry.file_type().map_err(|error| failed(&path, &error))?;
            if kind.is_dir() {
                folders.push(name);
            } else if std::fs::metadata(entry.path()).is_ok_and(|meta| meta.is_file()) {
                let text = name.to_str().ok_or_else(|| failed(&name, &"the name is not UTF-8, so no key can be it"))?;
                names.push(text.to_owned());
            }
        }
    }
    Ok(names)
}

pub(super) async fn run(rt: &Runtime, args: &CpArgs, output: &Output) -> Result<(), Failure> {
    if args.verify {
        return Err(Failure::new("--verify reads one copy again; copy the files one by one to verify them"));
    }
    let started = Instant::now();
    let (from, to) = (Root::of(rt, &args.source)?, Root::of(rt, &args.destination)?);
    let mut names = from.names().await?;
    names.sort();
    if names.is_empty() {
        return Err(Failure::new(format!("there is nothing below {}", named(&args.source))));
    }
    if let Root::Folder(_) = to {
        names.iter().try_for_each(|name| inside(name).map(drop))?;
    }
    let progress = Progress::new(output, "copying", names.len() as u64);
    let one = |name: &str| {
        let (from, to, progress, name) = (&from, &to, &progress, name.to_owned());
        async move {
            let source = from.open(rt, &name).await?;
            let sink = to.create(rt, &name).await?;
            let quiet = |size| Progress::new(&Output::new(true), "copying", size);
            let bytes = copy::all(&source, &sink, quiet).await.or_advise(ErrorKind::StorageFull, MAKE_ROOM)?;
            sink.finish().await.or_advise(ErrorKind::StorageFull, MAKE_ROOM)?;
            progress.add(1);
            Ok::<u64, Failure>(bytes)
        }
    };
    let copies = stream::iter(&names).map(|name| one(name)).buffer_unordered(AT_ONCE);
    let bytes = copies.try_fold(0, |sum, bytes| async move { Ok(sum + bytes) }).await?;
    drop(progress);
    let seconds = started.elapsed();
    output.print(&TreeReport {
        args,
        files: names.len(),
        bytes,
        seconds: seconds.as_secs_f64(),
        rate: gb_per_s(bytes, seconds),
    })
}

struct TreeReport<'a> {
    args: &'a CpArgs,
    files: usize,
    bytes: u64,
    seconds: f64,
    rate: f64,
}

impl Report for TreeReport<'_> {
    fn json(&self) -> Value {
        json!({
            "source": named(&self.args.source),
            "destination": named(&self.args.destination),
            "files": self.files,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "gb_per_s": self.rate,
        })
    }
}

impl fmt::Display for TreeReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (shown_path(&self.args.source), shown_path(&self.args.destination));
        let Self { files, bytes, seconds, rate, .. } = self;
        write!(f, "{source} to {destination}: {files} files, {bytes} bytes in {seconds:.6} s: {rate:.2} GB/s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_the_destination_are_refused() {
        for good in ["a", "a/b c", ".hidden", "a/..b"] {
            assert!(inside(good).is_ok(), "{good}");
        }
        for bad in ["", "..", "../a", "a/../../b", "/etc/passwd", "a//b", "a/./b", "./a", "a/"] {
            assert!(inside(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_directory_is_walked_to_its_files() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a", "d/b", "d/e/c"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, name).unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join("d"), dir.path().join("link")).unwrap();
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        let mut names = walk(dir.path()).unwrap();
        names.sort();
        assert_eq!(names, ["a", "d/b", "d/e/c"]);
        assert!(walk(&dir.path().join("missing")).is_err());
    }
}

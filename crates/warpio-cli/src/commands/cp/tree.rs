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

    /// The names of all files below it, in order, with slashes between their parts.
    async fn names(&self) -> Result<Vec<Name>, Failure> {
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
                    let name = Name { text: location.relative(&entry).to_owned(), is_empty: entry.size == 0 };
                    if !(name.is_empty && name.text.is_empty()) {
                        names.push(name);
                    }
                }
                one_of_each(names)
            }
        }
    }

    /// `None` for what only stands for a folder.
    async fn open(&self, rt: &Runtime, name: &Name) -> Result<Option<Source>, Failure> {
        match self {
            Self::Folder(folder) => Ok(Some(rt.open(folder.join(&name.text)).await?)),
            Self::Prefix(location) => match location.below(&name.text).open().await {
                Err(error) if name.is_empty && error.kind() == ErrorKind::NotFound => Ok(None),
                opened => Ok(Some(Source::new(opened?))),
            },
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

/// What a file is called below what is copied.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    text: String,
    /// It is an object without bytes. Many programs make one to look like a directory, with a slash at the end of its
    /// key, which listings do not tell.
    is_empty: bool,
}

/// Sorts the names of a listing, in which each may stand for two keys: with a slash at the end, and without.
fn one_of_each(mut names: Vec<Name>) -> Result<Vec<Name>, Failure> {
    // What has bytes comes first, and stays.
    names.sort();
    let mut twice = None;
    names.dedup_by(|later, first| {
        let same = later.text == first.text;
        if same && !later.is_empty {
            twice.get_or_insert_with(|| first.text.clone());
        }
        same
    });
    match twice {
        None => Ok(names),
        Some(name) => Err(Failure::new(format!(
            "two objects are called {name:?}, one of them with a slash at the end; copy them one by one"
        ))),
    }
}

/// A name that leads nowhere but below the directory that it is joined to: keys may hold anything.
fn inside(name: &str) -> Result<&Path, Failure> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    // What a path leaves out would make one file of two objects.
    if plain && name.split('/').all(|part| !matches!(part, "" | ".")) {
        return Ok(path);
    }
    Err(Failure::new(format!(
        "an object is called {name:?}, which can be no file below the destination; copy it alone"
    )))
}

/// Regular files, and what links to them. Directories are gone through, but not through links.
fn walk(folder: &Path) -> Result<Vec<Name>, Failure> {
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
                names.push(Name { text: text.to_owned(), is_empty: false });
            }
        }
    }
    names.sort();
    Ok(names)
}

pub(super) async fn run(rt: &Runtime, args: &CpArgs, output: &Output) -> Result<(), Failure> {
    if args.verify {
        return Err(Failure::new("--verify reads one copy again; copy the files one by one to verify them"));
    }
    let started = Instant::now();
    let (from, to) = (Root::of(rt, &args.source)?, Root::of(rt, &args.destination)?);
    let names = from.names().await?;
    if names.is_empty() {
        return Err(Failure::new(format!("there is nothing below {}", named(&args.source))));
    }
    if let Root::Folder(_) = to {
        names.iter().try_for_each(|name| inside(&name.text).map(drop))?;
    }
    let progress = Progress::new(output, "copying", names.len() as u64);
    let one = |name: Name| {
        let (from, to, progress) = (&from, &to, &progress);
        async move {
            let Some(source) = from.open(rt, &name).await? else {
                progress.add(1);
                return Ok(None);
            };
            let sink = to.create(rt, &name.text).await?;
            let quiet = |size| Progress::new(&Output::new(true), "copying", size);
            let bytes = copy::all(&source, &sink, quiet).await.or_advise(ErrorKind::StorageFull, MAKE_ROOM)?;
            sink.finish().await.or_advise(ErrorKind::StorageFull, MAKE_ROOM)?;
            progress.add(1);
            Ok::<Option<u64>, Failure>(Some(bytes))
        }
    };
    let copies = stream::iter(names).map(one).buffer_unordered(AT_ONCE);
    let sum = |(files, sum), bytes: Option<u64>| async move {
        Ok((files + usize::from(bytes.is_some()), sum + bytes.unwrap_or(0)))
    };
    let (files, bytes) = copies.try_fold((0, 0), sum).await?;
    drop(progress);
    let seconds = started.elapsed();
    output.print(&TreeReport { args, files, bytes, seconds: seconds.as_secs_f64(), rate: gb_per_s(bytes, seconds) })
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
        for bad in ["", "..", "../a", "a/../../b", "/etc/passwd", "a//b", "a/./b", "./a", "a/", "a/.", "."] {
            assert!(inside(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn of_two_keys_with_one_name_the_one_with_bytes_is_copied() {
        let name = |text: &str, is_empty| Name { text: text.to_owned(), is_empty };
        let names = || vec![name("b", true), name("a", true), name("b", false)];
        assert_eq!(one_of_each(names()).unwrap(), [name("a", true), name("b", false)]);
        let twice = names().into_iter().chain([name("b", false)]).collect();
        assert!(one_of_each(twice).unwrap_err().to_string().contains(r#""b""#));
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
        let names: Vec<_> = walk(dir.path()).unwrap().into_iter().map(|name| name.text).collect();
        assert_eq!(names, ["a", "d/b", "d/e/c"]);
        assert!(walk(&dir.path().join("missing")).is_err());
    }
}

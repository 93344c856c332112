//! `warpio cp`: a copy that appears whole or not at all.

mod copy;
mod place;
mod target;
mod tree;
mod verify;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::{Value, json};
use warpio::{AsyncDeviceRead, ErrorKind};

use self::place::Place;
use crate::args::CpArgs;
use crate::failure::{Failure, OrAdvise};
use crate::figures::{Figures, Paths};
use crate::output::{Output, Report, named, shown_path};
use crate::progress::Progress;
use crate::runtime;

/// What to do when a disk is full.
const MAKE_ROOM: &str = "free some space, or copy to another file system";

pub(crate) async fn run(args: &CpArgs, output: &Output) -> Result<(), Failure> {
    // The bytes go from file to file, so no other device has a part in it.
    let rt = runtime::start_on_host()?;
    if args.recursive {
        return tree::run(&rt, args, output).await;
    }
    let started = Instant::now();
    let source = rt.open(&args.source).await?;
    let place = Place::resolve(&rt, &args.source, &args.destination)?;
    let sink = place.create(&rt).await?;
    let progress = |size| Progress::new(output, "copying", size);
    let bytes = copy::all(&source, &sink, progress).await.or_advise(ErrorKind::StorageFull, MAKE_ROOM)?;
    sink.finish().await.or_advise(ErrorKind::StorageFull, MAKE_ROOM)?;
    let elapsed = started.elapsed();

    let stats = rt.stats().transfers;
    let crc32c = match args.verify {
        true => Some(verify::both(&rt, &args.source, &place, bytes, output).await?),
        false => None,
    };
    let figures = Figures {
        bytes,
        elapsed,
        device: rt.device().to_string(),
        engine: source.describe().engine,
        paths: stats.read.into(),
    };
    let written = stats.written.into();
    output.print(&CpReport { source: &args.source, destination: place.name(), figures, written, crc32c })
}

struct CpReport<'a> {
    source: &'a Path,
    destination: PathBuf,
    figures: Figures,
    written: Paths,
    crc32c: Option<u32>,
}

impl Report for CpReport<'_> {
    fn json(&self) -> Value {
        let mut object = self.figures.json();
        object.insert("source".to_owned(), json!(named(self.source)));
        object.insert("destination".to_owned(), json!(self.destination.to_string_lossy()));
        object.insert("write_paths".to_owned(), self.written.json());
        if let Some(crc) = self.crc32c {
            object.insert("crc32c".to_owned(), json!(format!("{crc:08x}")));
            object.insert("verified".to_owned(), json!(true));
        }
        Value::Object(object)
    }
}

impl fmt::Display for CpReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}: {}", shown_path(self.source), shown_path(&self.destination), self.figures)?;
        match self.crc32c {
            Some(crc) => write!(f, "\nverified: both files read again, crc32c {crc:08x}"),
            None => Ok(()),
        }
    }
}

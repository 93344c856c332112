//! `warpio read`: a file, or a part of it, into device memory.

use std::fmt;
use std::time::Instant;

use serde_json::{Value, json};
use warpio::{AsyncDeviceRead, AsyncDeviceReadExt, DeviceBytes, Error, ErrorKind, MmapOptions, Moved, Runtime, Source};

use crate::args::ReadArgs;
use crate::failure::{Failure, OrAdvise};
use crate::figures::{Figures, Paths};
use crate::output::{Output, Report, named, shown_path};
use crate::progress::Progress;
use crate::{readback, runtime};

pub(crate) async fn run(args: &ReadArgs, output: &Output) -> Result<(), Failure> {
    let rt = runtime::start(&args.device)?;
    let started = Instant::now();
    let source = match args.mmap {
        true => Source::new(rt.open_mmap(&args.source, MmapOptions::new()).await?),
        false => rt.open(&args.source).await?,
    };
    let (data, paths) = load(&rt, &source, args, output).await?;
    let figures = Figures {
        bytes: data.len() as u64,
        elapsed: started.elapsed(),
        device: data.device().to_string(),
        engine: source.describe().engine,
        paths,
    };
    let checksum = match args.checksum {
        true => Some(readback::crc32c(&data).await?),
        false => None,
    };
    output.print(&ReadReport { args, figures, checksum })
}

/// The part of the source that was asked for, in device memory, and the way that it took.
async fn load(
    rt: &Runtime,
    source: &Source,
    args: &ReadArgs,
    output: &Output,
) -> Result<(DeviceBytes, Paths), Failure> {
    let size = match (source.size().await, args.range.length) {
        // A server that does not tell it: what is there of the part will come.
        (Err(error), Some(len)) if error.kind() == ErrorKind::Unsupported => return up_to(rt, source, args, len).await,
        (size, _) => size.or_advise(ErrorKind::Unsupported, "or say how much to read, with --length")?,
    };
    if size == 0 {
        // Files that the kernel makes as they are read (in /proc, in /sys) know no size.
        let data = source.read_all().await?;
        let part = args.range.within(data.len() as u64, &args.source)?;
        // Not more than `data` has, which is in memory.
        let data = data.slice(part.start as usize..part.end as usize);
        return Ok((data, rt.stats().transfers.read.into()));
    }
    let part = args.range.within(size, &args.source)?;
    let buffer = usize::try_from(part.end - part.start)
        .map_err(|_| Error::new(ErrorKind::OutOfMemory))
        .and_then(|len| rt.device().alloc(len))
        .or_advise(ErrorKind::OutOfMemory, "read a part of it, with --offset and --length")?;
    let wanted = buffer.len();
    let progress = Progress::new(output, "reading", wanted as u64);
    let transfer = source.read_at(part.start, buffer);
    let report = transfer.report();
    let Moved { n, buffer } = progress.follow(transfer).await?;
    if n < wanted {
        return Err(Failure::new(format!(
            "{} became shorter while it was read: only {n} of {wanted} bytes were there; read it again when nothing \
             writes to it",
            shown_path(&args.source)
        )));
    }
    Ok((buffer.freeze(), Paths::from(&report)))
}

/// What there is of `len` bytes.
async fn up_to(rt: &Runtime, source: &Source, args: &ReadArgs, len: u64) -> Result<(DeviceBytes, Paths), Failure> {
    let buffer =
        usize::try_from(len).map_err(|_| Error::new(ErrorKind::OutOfMemory)).and_then(|len| rt.device().alloc(len))?;
    let transfer = source.read_at(args.range.offset, buffer);
    let report = transfer.report();
    let Moved { n, buffer } = transfer.await?;
    Ok((buffer.freeze().slice(..n), Paths::from(&report)))
}

struct ReadReport<'a> {
    args: &'a ReadArgs,
    figures: Figures,
    checksum: Option<u32>,
}

impl Report for ReadReport<'_> {
    fn json(&self) -> Value {
        let mut object = self.figures.json();
        object.insert("source".to_owned(), json!(named(&self.args.source)));
        object.insert("offset".to_owned(), json!(self.args.range.offset));
        if let Some(checksum) = self.checksum {
            object.insert("crc32c".to_owned(), json!(format!("{checksum:08x}")));
        }
        Value::Object(object)
    }
}

impl fmt::Display for ReadReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", shown_path(&self.args.source), self.figures)?;
        match self.checksum {
            Some(checksum) => write!(f, "\ncrc32c {checksum:08x}, read back from {}", self.figures.device),
            None => Ok(()),
        }
    }
}

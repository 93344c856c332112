use std::fmt;
use std::time::Duration;

use indicatif::BinaryBytes;
use serde_json::{Map, Value, json};
use warpio::local::page_cache::{Residency, Source};
use warpio::local::sys::statx::page_size;

use super::file::CachedFile;
use crate::output::{Report, shown_path};

/// What was done to the cache.
pub(super) enum Done {
    Looked,
    Dropped(Change),
    Warmed(Change),
}

/// What it was before, and how long it took.
pub(super) struct Change {
    pub(super) before: Residency,
    pub(super) elapsed: Duration,
}

/// What is cached of a file.
pub(super) struct CacheReport<'a> {
    pub(super) file: &'a CachedFile,
    pub(super) now: Residency,
    pub(super) done: Done,
}

impl CacheReport<'_> {
    fn change(&self) -> Option<(&'static str, &Change)> {
        match &self.done {
            Done::Looked => None,
            Done::Dropped(change) => Some(("dropped", change)),
            Done::Warmed(change) => Some(("warmed", change)),
        }
    }

    /// How many pages were dropped or warmed, less what others did meanwhile.
    fn changed_pages(&self) -> u64 {
        match &self.done {
            Done::Looked => 0,
            Done::Dropped(change) => change.before.pages.saturating_sub(self.now.pages),
            Done::Warmed(change) => self.now.pages.saturating_sub(change.before.pages),
        }
    }

    /// How many pages the kernel had evicted by itself. Dropping forgets these, so it is told how many it was before.
    fn evicted_pages(&self) -> Option<u64> {
        match &self.done {
            Done::Dropped(change) => change.before.evicted,
            Done::Looked | Done::Warmed(_) => self.now.evicted,
        }
    }
}

impl Report for CacheReport<'_> {
    fn json(&self) -> Value {
        let (range, now) = (&self.file.range, &self.now);
        let mut object = Map::new();
        let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
        put("path", json!(self.file.path.to_string_lossy()));
        put("offset", json!(range.start));
        put("length", json!(range.end - range.start));
        put("page_size", json!(page_size()));
        put("pages", json!(now.total_pages));
        put("cached_pages", json!(now.pages));
        put("cached_bytes", json!(now.bytes));
        put("dirty_pages", json!(now.dirty));
        put("writeback_pages", json!(now.writeback));
        put("evicted_pages", json!(self.evicted_pages()));
        put("found_by", json!(found_by(now.source)));
        put("estimated", json!(is_estimate(now.source)));
        put("action", json!(self.change().map_or("shown", |(action, _)| action)));
        if let Some((_, change)) = self.change() {
            put("cached_pages_before", json!(change.before.pages));
            put("cached_bytes_before", json!(change.before.bytes));
            put("seconds", json!(change.elapsed.as_secs_f64()));
        }
        Value::Object(object)
    }
}

impl fmt::Display for CacheReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (range, now) = (&self.file.range, &self.now);
        let about = if is_estimate(now.source) { "about " } else { "" };
        write!(f, "{}", shown_path(&self.file.path))?;
        if range.start > 0 {
            write!(f, " from {} on", range.start)?;
        }
        write!(f, ": {about}{} of {} pages are cached", now.pages, now.total_pages)?;
        write!(f, " ({} of {})", BinaryBytes(now.bytes), BinaryBytes(range.end - range.start))?;
        if let Some((action, change)) = self.change() {
            let pages = self.changed_pages();
            write!(f, "; {about}{pages} {action} in {:.6} s", change.elapsed.as_secs_f64())?;
        }
        if let (Done::Dropped(_), 1..) = (&self.done, now.pages) {
            write!(
                f,
                "\nwhat stays is in use by another process, or only in part within the range, or on a file system that \
                 is nothing but memory"
            )?;
        }
        match (now.dirty, now.writeback, self.evicted_pages()) {
            (Some(dirty), Some(writeback), Some(evicted)) => {
                write!(f, "\n{dirty} not yet written to disk, {writeback} being written, {evicted} evicted earlier")
            }
            _ if is_estimate(now.source) => write!(
                f,
                "\nestimated from some pages: the kernel counts them for those only who own the file or may write it"
            ),
            _ => Ok(()),
        }
    }
}

fn found_by(source: Source) -> &'static str {
    match source {
        Source::CacheStat => "cachestat",
        Source::Mincore => "mincore",
        _ => "samples",
    }
}

fn is_estimate(source: Source) -> bool {
    !matches!(source, Source::CacheStat | Source::Mincore)
}

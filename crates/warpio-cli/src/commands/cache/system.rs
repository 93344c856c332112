//! `warpio cache drop --system`.

use std::fmt;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use warpio::local::page_cache::{SystemCaches, drop_system_caches};

use super::file::blocking;
use crate::failure::Failure;
use crate::output::{Output, Report};

const WARNING: &str = "warpio: warning: all dirty pages are written, then the clean pages of every file of this \
                       machine are dropped; whoever reads files here is slowed down, in containers beside this one too";

pub(super) async fn drop_all(output: &Output) -> Result<(), Failure> {
    // Whoever does not see it has been told by --help.
    let _ = writeln!(std::io::stderr(), "{WARNING}");
    let started = Instant::now();
    blocking(|| drop_system_caches(SystemCaches::Pages).map_err(|error| Failure::of_cache(None, &error))).await?;
    output.print(&Dropped(started.elapsed()))
}

struct Dropped(Duration);

impl Report for Dropped {
    fn json(&self) -> Value {
        json!({"action": "dropped", "system": true, "seconds": self.0.as_secs_f64()})
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the clean pages of every file were dropped in {:.6} s", self.0.as_secs_f64())
    }
}

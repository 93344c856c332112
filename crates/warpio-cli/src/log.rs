//! The log on stderr.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::fmt::time::uptime;

/// Logs from here on: at `level`, else as `RUST_LOG` says, else warnings.
pub(crate) fn start(level: Option<LevelFilter>) {
    let default = level.unwrap_or(LevelFilter::WARN);
    let filter = EnvFilter::builder().with_default_directive(default.into());
    let filter = match level {
        Some(_) => filter.parse_lossy(""),
        None => filter.from_env_lossy(),
    };
    // A transfer is a span, and what is known of it is known when it ends.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_span_events(FmtSpan::CLOSE)
        .with_timer(uptime())
        .with_writer(std::io::stderr)
        .init();
}

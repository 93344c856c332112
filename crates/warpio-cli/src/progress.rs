//! Progress bars, on a terminal only.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::{MissedTickBehavior, interval};
use warpio::core::Outcome;
use warpio::{Failed, Transfer, TransferReport};

use crate::output::Output;

const TEMPLATE: &str = "{msg} [{wide_bar}] {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
const WITHOUT_RATE: &str = "{msg} [{wide_bar}] {bytes} of {total_bytes}, {eta} left";
const TICK: Duration = Duration::from_millis(100);

/// A bar on stderr, where that is a terminal and people read the result. It goes away when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar that is full at `total` bytes; `what` says what happens.
    pub(crate) fn new(output: &Output, what: &'static str, total: u64) -> Self {
        Self::with_template(output, what, total, TEMPLATE)
    }

    /// The same without a rate, for what is interrupted by other work.
    pub(crate) fn without_rate(output: &Output, what: &'static str, total: u64) -> Self {
        Self::with_template(output, what, total, WITHOUT_RATE)
    }

    fn with_template(output: &Output, what: &'static str, total: u64, template: &'static str) -> Self {
        let target = if output.is_text() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what);
        bar.set_style(style.progress_chars("=> "));
        Self(bar)
    }

    /// So many bytes more are done.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    /// Awaits a transfer while the bar follows it.
    pub(crate) async fn follow<O: Outcome>(&self, mut transfer: Transfer<O>) -> Result<O, Failed<O::Buffer>> {
        if self.0.is_hidden() {
            return transfer.await;
        }
        let (report, before) = (transfer.report(), self.0.position());
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                result = &mut transfer => {
                    self.0.set_position(before + moved(&report));
                    return result;
                }
                _ = tick.tick() => self.0.set_position(before + moved(&report)),
            }
        }
    }
}

fn moved(report: &TransferReport) -> u64 {
    report.paths().map(|(_, bytes)| bytes).sum()
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

//! Starting ring threads.

use std::sync::mpsc::{SyncSender, sync_channel};

use super::options::Unavailable;

/// Starts `threads` threads, each of which has to send whether it has a ring. Returns what the first one sent, and how
/// many there are; one is enough.
pub(in crate::engine) fn start<T, F>(
    name: &str,
    threads: usize,
    thread: impl Fn() -> F,
) -> Result<(T, usize), Unavailable>
where
    T: Send + 'static,
    F: FnOnce(SyncSender<Result<T, Unavailable>>) + Send + 'static,
{
    let mut first = None;
    for n in 0..threads {
        let (tx, rx) = sync_channel(1);
        let body = thread();
        let spawned = std::thread::Builder::new().name(format!("{name}-{n}")).spawn(move || body(tx));
        let started = match spawned {
            // A thread that sends nothing has panicked.
            Ok(_) => rx.recv().unwrap_or_else(|_| Err(Unavailable::because("a ring thread ended unexpectedly"))),
            Err(error) => Err(Unavailable::because(format_args!("there is no thread for a ring: {error}"))),
        };
        first = match (first, started) {
            (None, started) => Some((started?, 1)),
            (Some((granted, threads)), Ok(_)) => Some((granted, threads + 1)),
            (Some((granted, threads)), Err(error)) => {
                tracing::warn!(%error, threads, "fewer ring threads than asked for");
                return Ok((granted, threads));
            }
        };
    }
    first.ok_or_else(|| Unavailable::because("no thread was asked for"))
}

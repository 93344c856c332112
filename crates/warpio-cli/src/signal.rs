//! Signals that ask the program to stop.

use std::future::{pending, poll_fn};
use std::io;
use std::task::Poll;
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::oneshot;

use crate::failure::Failure;

/// A signal that asks the program to stop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) number: u8,
    pub(crate) name: &'static str,
}

const SIGNALS: [Signal; 3] = [
    Signal { number: 1, name: "SIGHUP" },
    Signal { number: 2, name: "SIGINT" },
    Signal { number: 15, name: "SIGTERM" },
];

/// The first signal that comes.
#[derive(Debug)]
pub(crate) struct Interruption(oneshot::Receiver<Signal>);

impl Interruption {
    /// Waits for it.
    pub(crate) async fn wait(self) -> Signal {
        match self.0.await {
            Ok(signal) => signal,
            Err(_) => pending().await,
        }
    }
}

/// Listens from here on, on a thread of its own: the first signal ends the command in good order, a second one ends the
/// program at once, even where the first has to wait for a disk.
pub(crate) fn listen() -> Result<Interruption, Failure> {
    try_listen().map_err(|error| Failure::new(format!("signals cannot be received: {error}")))
}

fn try_listen() -> io::Result<Interruption> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    let mut caught = {
        let _context = runtime.enter();
        let wanted = SIGNALS.into_iter().filter(|signal| ignored >> (signal.number - 1) & 1 == 0);
        let caught = wanted.map(|s| Ok((s, unix::signal(SignalKind::from_raw(s.number.into()))?)));
        caught.collect::<io::Result<Vec<_>>>()?
    };
    let (tell, told) = oneshot::channel();
    let listen = async move {
        // Nobody listens any more when the command has ended meanwhile.
        let _ = tell.send(next(&mut caught).await);
        let second = next(&mut caught).await;
        std::process::exit(128 + i32::from(second.number));
    };
    thread::Builder::new().name("warpio-signals".to_owned()).spawn(move || runtime.block_on(listen))?;
    Ok(Interruption(told))
}

async fn next(caught: &mut [(Signal, unix::Signal)]) -> Signal {
    poll_fn(|cx| {
        let came = caught.iter_mut().find_map(|(signal, stream)| stream.poll_recv(cx).is_ready().then_some(*signal));
        came.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// The signals that whoever started this process has it ignore, as bits: `nohup` does so, and a shell for its background
/// jobs. That holds.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert_eq!(ignored("Name:\tx\nSigBlk:\t0000000000000004\nSigIgn:\t0000000000001003\n"), 0x1003);
        assert_eq!(ignored(""), 0);
        assert_eq!(ignored("SigIgn:\tnonsense\n"), 0);
    }
}

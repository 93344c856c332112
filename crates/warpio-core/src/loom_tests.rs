//! Every interleaving, within a bound of preemptions, of what threads do to slots, wakers and counts:
//! `LOOM_MAX_PREEMPTIONS=2 cargo test -p warpio-core --features loom --release --lib loom_`.

mod pool;
mod transfer;

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Checks `test` under the bounds that the environment sets.
fn model(test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    builder.check(test);
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

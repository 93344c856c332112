use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{Either, select};
use tokio::sync::Notify;

use super::timer::{self, Expire};

/// What `future` resolves to, or `None` if it takes longer than `limit`. Unlike tokio's timeout it needs no timer of
/// the runtime that it runs on.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
///
/// assert_eq!(warpio_core::within(Duration::from_secs(5), async { 7 }).await, Some(7));
/// assert_eq!(warpio_core::within(Duration::from_millis(1), std::future::pending::<()>()).await, None);
/// # }
/// ```
pub async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    // A limit that no clock can express is none.
    let Some(end) = Instant::now().checked_add(limit) else { return Some(future.await) };
    let alarm = Arc::new(Alarm(Notify::new()));
    timer::expire_at(end, &alarm);
    match select(std::pin::pin!(future), std::pin::pin!(alarm.0.notified())).await {
        Either::Left((value, _)) => Some(value),
        Either::Right(_) => None,
    }
}

struct Alarm(Notify);

impl Expire for Alarm {
    fn expire(&self) {
        self.0.notify_one();
    }
}

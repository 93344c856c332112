use std::future::Future;
use std::time::{Duration, Instant};

use futures::future::{Either, select};

use super::timer;

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
    let (tx, rx) = tokio::sync::oneshot::channel::<()>();
    // A limit that no clock can express is none.
    let end = Instant::now().checked_add(limit);
    if let Some(end) = end {
        timer::call_at(end, Box::new(move || drop(tx)));
        return match select(std::pin::pin!(future), rx).await {
            Either::Left((value, _)) => Some(value),
            Either::Right(_) => None,
        };
    }
    Some(future.await)
}

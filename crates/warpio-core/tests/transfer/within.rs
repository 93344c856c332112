//! Futures with a limit of time, outside of tokio.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpio_core::within;

use crate::support::{LONG, block_on, poll};

#[test]
fn what_is_in_time_is_what_counts() {
    assert_eq!(block_on(within(LONG, async { 5 })), Some(5));
    assert_eq!(block_on(within(Duration::ZERO, async { 5 })), Some(5), "what is ready is in time");
    assert_eq!(block_on(within(Duration::MAX, async { 5 })), Some(5), "a limit that no clock can express");
}

#[test]
fn what_is_late_is_dropped() {
    struct Told(Arc<AtomicBool>);
    impl Drop for Told {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicBool::new(false));
    let told = Told(dropped.clone());
    let late = async move {
        let _told = told;
        std::future::pending::<()>().await;
    };
    assert_eq!(block_on(within(Duration::from_millis(2), late)), None);
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(block_on(within(Duration::ZERO, std::future::pending::<()>())), None);
}

#[test]
fn before_its_limit_it_waits() {
    let mut waiting = Box::pin(within(LONG, std::future::pending::<()>()));
    assert!(poll(&mut waiting).is_pending());
}

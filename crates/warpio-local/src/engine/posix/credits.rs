use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bounds the bytes that are on their way to a device at once. A few copies keep the link full; more of them would
/// only push the staging memory out of the processor's caches, and make a small copy wait behind them.
#[derive(Debug)]
pub(crate) struct Credits {
    free: Mutex<usize>,
    returned: Condvar,
}

/// A share of the [`Credits`], given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Credit {
    credits: Arc<Credits>,
    bytes: usize,
}

impl Credits {
    pub(crate) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { free: Mutex::new(bytes), returned: Condvar::new() })
    }

    /// Blocks until `bytes` are free. Whoever asks for more than there ever are waits for all of them.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize, all: usize) -> Credit {
        let bytes = bytes.min(all);
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free < bytes {
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= bytes;
        Credit { credits: self.clone(), bytes }
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        *self.credits.free.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.credits.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_missing_until_it_comes_back() {
        let credits = Credits::new(10);
        let first = credits.take(6, 10);
        let (other, waiter) = (credits.clone(), std::thread::current());
        let thread = std::thread::spawn(move || {
            waiter.unpark();
            drop(other.take(5, 10));
        });
        std::thread::park();
        assert_eq!(*credits.free.lock().unwrap(), 4);
        drop(first);
        thread.join().unwrap();
        assert_eq!(*credits.free.lock().unwrap(), 10);
    }

    #[test]
    fn more_than_there_is_means_all() {
        let credits = Credits::new(10);
        assert_eq!(credits.take(100, 10).bytes, 10);
        assert_eq!(*credits.free.lock().unwrap(), 10);
    }
}

//! The threads that network work runs on.

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use warpio_core::{Error, ErrorKind, Result};

/// Threads with a tokio runtime each, for network work alone: whatever the program's own runtime is busy with, and
/// however many threads it has, bodies are received at the full rate. Nothing moves from one thread to another, so that
/// a socket, its requests and their memory stay with one core.
#[derive(Debug)]
pub(crate) struct Net {
    threads: Vec<Thread>,
    next: AtomicUsize,
}

#[derive(Debug)]
struct Thread {
    handle: Handle,
    /// Tasks that were given to this thread and have not ended.
    tasks: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    join: Option<JoinHandle<()>>,
}

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The number of the network thread that this runs on.
pub(crate) fn current_thread() -> usize {
    CURRENT.get()
}

impl Net {
    pub(crate) fn start(threads: usize) -> Result<Self> {
        let threads = (0..threads.max(1)).map(Thread::start).collect::<Result<Vec<_>>>()?;
        Ok(Self { threads, next: AtomicUsize::new(0) })
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Runs `task` on the thread that has the fewest.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.threads.len();
        let order = self.threads[first..].iter().chain(&self.threads[..first]);
        let Some(thread) = order.min_by_key(|thread| thread.tasks.load(Ordering::Relaxed)) else { return };
        let guard = Counted::new(&thread.tasks);
        thread.handle.spawn(async move {
            let _guard = guard;
            task.await;
        });
    }

    /// Runs `task` on a network thread, and returns what it resolves to. It may be awaited anywhere.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let (tx, rx) = oneshot::channel();
        self.spawn(async move {
            let mut tx = tx;
            tokio::select! {
                result = task => drop(tx.send(result)),
                // Whoever asked is not interested any more.
                () = tx.closed() => {}
            }
        });
        rx.await.unwrap_or_else(|_| Err(Error::new(ErrorKind::Gone).with_message("the network threads have ended")))
    }
}

struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Thread {
    fn start(number: usize) -> Result<Self> {
        let no_thread = |error: std::io::Error| {
            Error::new(ErrorKind::ResourceLimit).with_message("cannot start a network thread").with_cause(error)
        };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            CURRENT.set(number);
            // An error means that the sender is gone, which is the same.
            let _ = runtime.block_on(stopped);
            // Names are looked up on threads that cannot be interrupted; nobody waits for those.
            runtime.shutdown_background();
        };
        let join = std::thread::Builder::new().name(format!("warpio-net-{number}")).spawn(run).map_err(no_thread)?;
        Ok(Self { handle, tasks: Arc::default(), stop: Some(stop), join: Some(join) })
    }
}

impl Drop for Net {
    /// Lets the threads end; their tasks are dropped. It does not wait for them: it may run on one of them.
    fn drop(&mut self) {
        for thread in &mut self.threads {
            drop(thread.stop.take());
            drop(thread.join.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_spread_over_the_threads_and_its_result_comes_back() {
        let net = Net::start(3).unwrap();
        let (release, held) = tokio::sync::watch::channel(false);
        let mut threads = Vec::new();
        for _ in 0..6 {
            let mut held = held.clone();
            let (tx, rx) = oneshot::channel();
            net.spawn(async move {
                let _ = tx.send(current_thread());
                let _ = held.wait_for(|released| *released).await;
            });
            threads.push(rx.await.unwrap());
        }
        threads.sort_unstable();
        assert_eq!(threads, [0, 0, 1, 1, 2, 2]);
        assert_eq!(current_thread(), usize::MAX);
        assert_eq!(net.run(async { Ok(7) }).await.unwrap(), 7);
        release.send_replace(true);
    }

    #[tokio::test]
    async fn work_ends_with_its_threads() {
        let net = Net::start(1).unwrap();
        let (started, has_started) = oneshot::channel();
        let (alive, ended) = oneshot::channel::<()>();
        net.spawn(async move {
            let _ = started.send(());
            let _alive = alive;
            std::future::pending::<()>().await;
        });
        has_started.await.unwrap();
        drop(net);
        assert!(ended.await.is_err(), "the task was dropped");
    }

    #[tokio::test]
    async fn work_that_nobody_waits_for_is_dropped() {
        let net = Net::start(1).unwrap();
        let (alive, ended) = oneshot::channel::<()>();
        let (started, has_started) = oneshot::channel();
        let work = net.run::<()>(async move {
            let _alive = alive;
            let _ = started.send(());
            std::future::pending().await
        });
        let mut work = Box::pin(work);
        tokio::select! {
            _ = &mut work => panic!("it never ends"),
            _ = has_started => {}
        }
        drop(work);
        assert!(ended.await.is_err());
    }
}

//! The thread that owns a runtime.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::{Context, Poll};

use super::bell::{Bell, Finished};
use super::operations::Operations;
use super::{fixed, setup};
use crate::engine::closing::leave_to_others;
use crate::engine::ring::{Outlook, Queue, RingOptions, Unavailable, Worker};

/// Makes a runtime, sends whether that went well, and serves `queue` until it is closed.
pub(super) fn run(queue: &Arc<Queue>, options: &RingOptions, started: &SyncSender<Result<(), Unavailable>>) {
    // Made before the runtime and dropped after it: whatever happens in there, nothing that the kernel may touch is
    // freed before the ring is gone.
    let worker = Rc::new(RefCell::new(None));
    // Twice the operations in flight, as a full submission queue makes tokio-uring submit, and panic if it cannot.
    let build = |depth: usize| setup::build((2 * depth as u32).next_power_of_two());
    let (runtime, depth) = match options.with_less_and_less(build) {
        Ok(made) => made,
        Err(error) => return drop(started.send(Err(error))),
    };
    setup::allow_kernel_threads(depth as u32);
    leave_to_others();
    let served = catch_unwind(AssertUnwindSafe(|| {
        runtime.block_on(async {
            let fixed = fixed::register(&options.fixed);
            let bell = Arc::new(Bell::default());
            let member = queue.join(bell.clone().into(), depth);
            *worker.borrow_mut() = Some(Worker::new(queue, member, depth, fixed));
            let mut task = Task::new(worker.clone(), bell);
            // Whoever started the thread waits for this.
            let _ = started.send(Ok(()));
            // A task of its own, as its wakers cost no system call on this thread.
            tokio_uring::spawn(std::future::poll_fn(move |cx| task.poll(cx))).await
        })
    }));
    // This cancels what is in flight and waits until it has ended. After `serve` there is nothing.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(runtime)));
    if matches!(served, Ok(Ok(()))) {
        return;
    }
    tracing::error!("a ring thread panicked");
    if let (Ok(()), Some(worker)) = (dropped, worker.borrow_mut().as_mut()) {
        // SAFETY: dropping the runtime has waited for every operation of its ring.
        unsafe { worker.kernel_is_done() };
    }
}

/// What takes segments and hands their operations to the ring.
struct Task {
    worker: Rc<RefCell<Option<Worker>>>,
    operations: Operations,
    finished: Arc<Finished>,
    tokens: Vec<u32>,
    bell: Arc<Bell>,
}

impl Task {
    fn new(worker: Rc<RefCell<Option<Worker>>>, bell: Arc<Bell>) -> Self {
        let finished = Finished::new(bell.clone());
        Self { worker, operations: Operations::new(finished.clone()), finished, tokens: Vec::new(), bell }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.bell.register(cx.waker());
        let mut worker = self.worker.borrow_mut();
        let Some(worker) = worker.as_mut() else { return Poll::Ready(()) };
        loop {
            self.finished.take(&mut self.tokens);
            for token in self.tokens.drain(..) {
                if let Some(result) = self.operations.result(token) {
                    worker.complete(token, result);
                }
            }
            match worker.turn(false) {
                Outlook::End => return Poll::Ready(()),
                Outlook::Idle => return Poll::Pending,
                Outlook::Busy | Outlook::Soon => {}
            }
            while let Some(op) = worker.next_op() {
                if let Some(result) = self.operations.submit(op) {
                    worker.complete(op.token, result);
                }
            }
        }
    }
}

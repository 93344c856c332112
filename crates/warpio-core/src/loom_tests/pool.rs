use loom::future::block_on;
use loom::thread;

use super::{model, poll};
use crate::pool::Queue;
use crate::{AsyncDeviceReadExt, Device, Error, ErrorKind, PoolConfig};

/// A queue that threads may borrow.
fn queue(free: usize) -> &'static Queue<usize> {
    let queue = Box::leak(Box::new(Queue::default()));
    (0..free).for_each(|item| queue.put(item));
    queue
}

#[test]
fn an_item_put_back_wakes_the_one_who_waits() {
    model(|| {
        let queue = queue(0);
        let putting = thread::spawn(|| queue.put(7));
        assert_eq!(block_on(queue.take()).unwrap(), 7);
        putting.join().unwrap();
        assert!(queue.try_take().is_none());
    });
}

#[test]
fn two_takers_share_what_two_threads_put_back() {
    model(|| {
        let queue = queue(0);
        let putting = thread::spawn(|| queue.put(1));
        let taking = thread::spawn(|| block_on(queue.take()).unwrap());
        queue.put(2);
        let mine = block_on(queue.take()).unwrap();
        assert_eq!(mine + taking.join().unwrap(), 3, "each item is lent once");
        putting.join().unwrap();
    });
}

#[test]
fn two_takers_pass_one_item_on() {
    model(|| {
        let queue = queue(1);
        let taking = thread::spawn(|| {
            let item = block_on(queue.take()).unwrap();
            queue.put(item);
        });
        let item = block_on(queue.take()).unwrap();
        queue.put(item);
        taking.join().unwrap();
        assert_eq!(queue.try_take(), Some(0));
    });
}

#[test]
fn an_item_granted_to_one_who_leaves_goes_to_the_next() {
    model(|| {
        let queue = queue(0);
        let mut first = queue.take();
        assert!(poll(&mut first).is_pending());
        let leaving = thread::spawn(move || drop(first));
        let putting = thread::spawn(|| queue.put(7));
        assert_eq!(block_on(queue.take()).unwrap(), 7);
        leaving.join().unwrap();
        putting.join().unwrap();
    });
}

#[test]
fn a_failure_reaches_the_one_who_waits() {
    model(|| {
        let queue = queue(0);
        let mut waiting = queue.take();
        assert!(poll(&mut waiting).is_pending());
        let failing = thread::spawn(|| queue.fail(&Error::new(ErrorKind::OutOfMemory)));
        let putting = thread::spawn(|| queue.put(7));
        match block_on(waiting) {
            Ok(item) => assert_eq!(item, 7),
            Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory),
        }
        failing.join().unwrap();
        putting.join().unwrap();
    });
}

/// A device whose pool has room for one large slot, of which it holds `slots`.
fn device(slots: usize) -> Device {
    let pool = PoolConfig { budget: 12 << 10, slot_len: 8192, small_slot_len: 4096, slab_len: 8192 };
    let device = Device::host_with(pool);
    device.staging().warm(slots);
    device
}

#[test]
fn an_acquire_that_meets_a_trim_gets_its_slot() {
    model(|| {
        let device = device(1);
        let pool = device.staging().clone();
        let trimming = thread::spawn(move || pool.trim());
        let slot = block_on(device.staging().acquire(8192)).unwrap();
        let released = trimming.join().unwrap();
        let stats = device.staging().stats();
        assert!(stats.allocated <= stats.budget && (released == 0 || released == 8192));
        drop(slot);
    });
}

#[test]
fn two_who_find_nothing_share_what_is_allocated() {
    model(|| {
        let device = device(0);
        let pool = device.staging().clone();
        let other = thread::spawn(move || drop(block_on(pool.acquire(8192)).unwrap()));
        drop(block_on(device.staging().acquire(8192)).unwrap());
        other.join().unwrap();
        assert_eq!(device.staging().stats().allocated, 8192);
    });
}

#[test]
fn a_chunk_that_comes_back_wakes_its_consumer() {
    model(|| {
        let source = crate::testing::MemorySource::new(vec![1, 2]);
        let mut chunks = source.into_chunks(1).depth(1).start();
        let first = block_on(chunks.try_next()).unwrap().unwrap();
        let dropping = thread::spawn(move || drop(first));
        let second = block_on(chunks.try_next()).unwrap().unwrap();
        assert_eq!(second.as_slice(), Some(&[2][..]));
        dropping.join().unwrap();
    });
}

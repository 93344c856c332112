//! What engines keep with memory, and memory that they lose.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use warpio_core::engine::Attachment;
use warpio_core::{Device, Error, ErrorKind};

use crate::support::{held, ready};

type Release = Box<dyn FnOnce() + Send>;

/// Tells when the memory is about to be released, and leaves the release to the test.
struct Kept(Mutex<Sender<Release>>);

impl Attachment for Kept {
    fn detach(self: Arc<Self>, release: Release) {
        self.0.lock().unwrap().send(release).unwrap();
    }
}

/// Foreign memory that tells when it is let go.
fn foreign(len: usize) -> (warpio_core::DeviceBytesMut, std::sync::mpsc::Receiver<()>) {
    struct Owner(Mutex<Sender<()>>, std::ptr::NonNull<[u8]>);
    // SAFETY: memory that only whoever drops its owner frees.
    unsafe impl Send for Owner {}
    // SAFETY: as above.
    unsafe impl Sync for Owner {}
    impl Drop for Owner {
        fn drop(&mut self) {
            let _ = self.0.lock().unwrap().send(());
            // SAFETY: it was made by a box, and whoever drops its owner is done with it.
            drop(unsafe { Box::from_raw(self.1.as_ptr()) });
        }
    }
    let memory = std::ptr::NonNull::from(Box::leak(vec![0u8; len].into_boxed_slice()));
    let (told, released) = channel();
    let owner = Owner(Mutex::new(told), memory);
    // SAFETY: the memory lives as long as its owner, and belongs to the buffer alone.
    let buffer = unsafe { warpio_core::DeviceBytesMut::from_raw_parts(&Device::host(), memory.cast(), len, owner) };
    (buffer, released)
}

#[test]
fn memory_is_released_when_what_is_kept_with_it_has_ended() {
    let (engine, starter) = held(&Device::host(), 100);
    let (buffer, released) = foreign(100);
    let transfer = starter.read(Arc::new(()), 0, buffer);
    let (told, detached) = channel();
    let segment = engine.take().remove(0).into_segment();
    let block = segment.memory_block().unwrap();
    assert_eq!((block.base(), block.len()), (segment.device_memory(), 100));
    let kept = block.attachment(7, || Arc::new(Kept(Mutex::new(told))));
    // Under its key it is made once; another key has its own.
    let again = block.attachment(7, || -> Arc<Kept> { unreachable!("it is there") });
    assert!(Arc::ptr_eq(&kept, &again));
    drop((block, kept, again));
    segment.finish(Ok(100));

    let buffer = ready(transfer).unwrap().buffer;
    assert!(detached.try_recv().is_err());
    drop(buffer);
    let release = detached.try_recv().expect("it is told");
    assert!(released.try_recv().is_err(), "and not done yet");
    release();
    released.try_recv().expect("now it is");
}

#[test]
fn every_attachment_ends_before_the_memory_is_released() {
    let (engine, starter) = held(&Device::host(), 100);
    let (buffer, released) = foreign(100);
    let transfer = starter.read(Arc::new(()), 0, buffer);
    let (told, detached) = channel();
    let segment = engine.take().remove(0).into_segment();
    for key in 0..3 {
        segment.memory_block().unwrap().attachment(key, || Arc::new(Kept(Mutex::new(told.clone()))));
    }
    segment.finish(Ok(100));
    drop(ready(transfer));
    for _ in 0..3 {
        assert!(released.try_recv().is_err());
        detached.try_recv().expect("one after the other")();
    }
    released.try_recv().unwrap();
}

/// Memory that nothing tells the end of stays for ever.
mod leaks_on_purpose {
    use super::*;

    #[test]
    fn a_release_that_is_never_called_for_keeps_the_memory() {
        let (engine, starter) = held(&Device::host(), 100);
        let (buffer, released) = foreign(100);
        let transfer = starter.read(Arc::new(()), 0, buffer);
        let (told, detached) = channel();
        let segment = engine.take().remove(0).into_segment();
        segment.memory_block().unwrap().attachment(0, || Arc::new(Kept(Mutex::new(told))));
        segment.finish(Ok(100));
        drop(ready(transfer));
        drop(detached.try_recv().unwrap());
        assert!(released.try_recv().is_err());
    }

    #[test]
    fn memory_that_an_engine_lost_is_never_used_again() {
        let (engine, starter) = held(&Device::host(), 50);
        let (buffer, released) = foreign(100);
        let transfer = starter.read(Arc::new(()), 0, buffer);
        let mut held = engine.take();
        held.remove(0).into_segment().abandon(Error::new(ErrorKind::Io).with_message("nobody knows"));
        held.remove(0).fill(1);
        let failed = ready(transfer).unwrap_err();
        assert_eq!(failed.error.kind(), ErrorKind::Io);
        assert!(failed.buffer.is_none());
        assert!(released.try_recv().is_err(), "it is leaked");
    }
}

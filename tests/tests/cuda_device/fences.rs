use std::future::Future;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use warpio_core::DeviceBytesMut;
use warpio_tests::mock_gpu::Control;

use crate::support::*;

/// A buffer with a copy into it that stands at the gate.
fn busy(gpu: &Gpu, mock: Control) -> DeviceBytesMut {
    let stream = gpu.device.new_stream().unwrap();
    let mut buffer = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[3; 4096]);
    buffer.after(&stream).unwrap();
    mock.ctl("wait held 1");
    buffer
}

fn freed(mock: Control) -> bool {
    mock.ctl("wait idle");
    mock.counters().device_allocations == 0
}

#[test]
fn memory_is_freed_behind_the_copy_into_it() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    drop(busy(&gpu, mock));
    assert_eq!((mock.calls("cuMemFreeAsync"), mock.counters().device_allocations), (0, 1));
    mock.ctl("release");
    until(|| freed(mock));
    assert_eq!(mock.counters().violations, 0);
}

#[test]
fn memory_is_freed_behind_the_last_piece_in_use() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let mut head = busy(&gpu, mock);
    let tail = head.split_off(2048);
    drop(head);
    drop(tail.freeze().slice(10..20));
    assert_eq!(mock.calls("cuMemFreeAsync"), 0);
    mock.ctl("release");
    until(|| freed(mock));
    assert_eq!(mock.counters().violations, 0);
}

#[test]
fn shared_memory_is_freed_behind_every_stream_it_was_used_on() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let bytes = gpu.device.alloc(4096).unwrap().freeze();
    let target = gpu.device.alloc(4096).unwrap();
    mock.ctl("hold");
    let streams = [gpu.device.new_stream().unwrap(), gpu.device.new_stream().unwrap()];
    for (n, stream) in streams.iter().enumerate() {
        let at = |address: u64| NonNull::new(address as usize as *mut u8).unwrap();
        let to = target.device_ptr() + 2048 * n as u64;
        // SAFETY: `target` outlives the copies, and `bytes` waits for them.
        unsafe { stream.backend().copy_on_device(at(to), at(bytes.device_ptr()), 2048).unwrap() };
        bytes.used_on(stream).unwrap();
    }
    mock.ctl("wait held 2");
    drop(bytes);
    mock.ctl("release 1");
    until(|| mock.counters().copies_completed == 1);
    assert_eq!(mock.calls("cuMemFreeAsync"), 0, "one of two uses is over");
    mock.ctl("release; wait idle");
    until(|| mock.calls("cuMemFreeAsync") == 1);
    assert_eq!(mock.counters().violations, 0);
}

struct Token(Arc<AtomicBool>);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn foreign_memory_is_given_back_behind_its_last_use() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let memory = gpu.device.alloc(4096).unwrap();
    let gone = Arc::new(AtomicBool::new(false));
    let ptr = NonNull::new(memory.device_ptr() as usize as *mut u8).unwrap();
    // SAFETY: `memory` lives longer, and is not used meanwhile.
    let mut buffer = unsafe { DeviceBytesMut::from_raw_parts(&gpu.device, ptr, 4096, Token(gone.clone())) };
    let stream = gpu.device.new_stream().unwrap();
    mock.ctl("hold");
    copy_in(&gpu.device, &stream, buffer.device_ptr(), &[3; 4096]);
    buffer.after(&stream).unwrap();
    drop(buffer);
    mock.ctl("wait held 1");
    assert!(!gone.load(Ordering::SeqCst));
    mock.ctl("release");
    until(|| gone.load(Ordering::SeqCst));
    assert_eq!(read_back(&memory.freeze()), [3; 4096]);
}

#[test]
fn a_slot_comes_back_behind_its_copy() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let buffer = busy(&gpu, mock);
    let lent = |device: &warpio_core::Device| {
        let stats = device.staging().stats();
        stats.allocated - stats.free
    };
    assert_eq!(lent(&gpu.device), 64 * KIB);
    mock.ctl("release");
    until(|| lent(&gpu.device) == 0);
    drop(buffer);
}

#[test]
fn a_read_waits_for_the_work_recorded_on_the_buffer() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let buffer = busy(&gpu, mock).freeze();
    let device = gpu.device.clone();
    let reader = std::thread::spawn(move || {
        let bytes = read_back(&buffer);
        (bytes, device)
    });
    assert_eq!(mock.counters().copies_submitted, 1, "the copy back is not even enqueued");
    mock.ctl("release");
    assert_eq!(reader.join().unwrap().0, [3; 4096]);
}

#[test]
fn a_read_dropped_halfway_keeps_buffer_and_slot_until_its_copy_has_ended() {
    let gpu = Gpu::new();
    let Some(mock) = gpu.mock() else { return };
    let bytes = upload(&gpu.device, &pattern(4096, 1)).freeze();
    mock.ctl("wait idle; hold");
    {
        let mut read = std::pin::pin!(bytes.to_host());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        until(|| {
            assert!(read.as_mut().poll(&mut context).is_pending());
            mock.counters().copies_held == 1
        });
    }
    drop(bytes);
    assert_eq!((mock.calls("cuMemFreeAsync"), mock.counters().device_allocations), (0, 1));
    mock.ctl("release");
    until(|| freed(mock));
    assert_eq!(mock.counters().violations, 0);
}

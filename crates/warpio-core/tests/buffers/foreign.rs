//! Memory that something else allocated: taken without a copy, and given back exactly once.

use bytes::{Bytes, BytesMut};
use warpio_core::{Device, DeviceBytes, DeviceBytesMut};

use crate::support::Drops;

#[test]
fn a_vector_becomes_a_buffer_without_a_copy() {
    let mut bytes = Vec::with_capacity(100);
    bytes.extend_from_slice(b"abc");
    let at = bytes.as_ptr() as u64;
    let buffer = DeviceBytesMut::from(bytes);
    assert_eq!((buffer.device_ptr(), buffer.len()), (at, 3));
    assert_eq!(buffer.as_slice(), Some(&b"abc"[..]));
    assert!(DeviceBytesMut::from(Vec::new()).is_empty());
}

#[test]
fn bytes_mut_becomes_a_buffer_without_a_copy() {
    let mut bytes = BytesMut::from(&b"abcdef"[..]);
    let tail = bytes.split_off(4);
    let at = bytes.as_ptr() as u64;
    let mut buffer = DeviceBytesMut::from(bytes);
    buffer.as_mut_slice().expect("host memory").fill(b'x');
    assert_eq!((buffer.device_ptr(), buffer.len()), (at, 4));
    assert_eq!(&tail[..], b"ef", "the other half is untouched");
}

#[test]
fn bytes_become_a_shared_buffer_and_come_back_without_a_copy() {
    let bytes = Bytes::from(b"abcdef".to_vec()).slice(1..4);
    let at = bytes.as_ptr();
    let data = DeviceBytes::from(bytes);
    assert_eq!(data.device_ptr(), at as u64);
    let back = Bytes::try_from(data.slice(1..)).expect("host memory");
    assert_eq!((back.as_ptr(), &back[..]), (at.wrapping_add(1), &b"cd"[..]));
}

#[test]
fn a_read_result_becomes_bytes_without_a_copy() {
    let buffer = Device::host().alloc(4096).unwrap();
    let at = buffer.device_ptr();
    let bytes = Bytes::try_from(buffer.freeze()).expect("host memory");
    assert_eq!((bytes.as_ptr() as u64, bytes.len()), (at, 4096));
}

#[test]
fn memory_of_bytes_never_becomes_writable() {
    // Another handle to the same `Bytes` reads it, and a static one cannot be written at all.
    let bytes = Bytes::from(b"shared".to_vec());
    let data = DeviceBytes::from(bytes.clone());
    assert!(data.try_into_mut().is_err(), "others hold the same bytes");
    assert!(DeviceBytes::from(Bytes::from_static(b"constant")).try_into_mut().is_err());
    assert_eq!(&bytes[..], b"shared");
}

#[test]
fn read_only_foreign_memory_never_becomes_writable() {
    static BYTES: [u8; 4] = [1, 2, 3, 4];
    let ptr = std::ptr::NonNull::from(&BYTES).cast();
    // SAFETY: a constant lives for ever and is written by nothing.
    let data = unsafe { DeviceBytes::from_raw_parts(&Device::host(), ptr, 4, ()) };
    let data = data.try_into_mut().expect_err("read-only");
    assert_eq!(data.as_slice(), Some(&[1, 2, 3, 4][..]));
}

#[test]
fn an_owner_is_dropped_once_and_only_behind_the_last_piece() {
    let drops = Drops::default();
    let mut head = drops.buffer(&Device::host(), 100);
    let tail = head.split_off(50);
    let shared = tail.freeze();
    let slice = shared.slice(10..20);
    let bytes = Bytes::try_from(slice).expect("host memory");
    drop(head);
    drop(shared);
    assert_eq!(drops.count(), 0, "`bytes` still shows the memory");
    assert_eq!(&bytes[..], [0; 10]);
    drop(bytes);
    assert_eq!(drops.count(), 1);
}

#[test]
fn an_owner_survives_thawing_and_joining() {
    let drops = Drops::default();
    let mut head = drops.buffer(&Device::host(), 8);
    let tail = head.split_off(4).freeze().try_into_mut().expect("alone");
    let whole = head.unsplit(tail).expect("neighbours");
    assert_eq!(drops.count(), 0);
    drop(whole);
    assert_eq!(drops.count(), 1);
}

#[test]
fn pieces_on_many_threads_release_the_memory_once() {
    let drops = Drops::default();
    let mut rest = drops.buffer(&Device::host(), 1024);
    let threads: Vec<_> = (0..16)
        .map(|i| {
            let mut piece = rest.split_to(64);
            std::thread::spawn(move || {
                piece.as_mut_slice().expect("host memory").fill(i);
                let shared = piece.freeze();
                drop(shared.clone());
                assert!(shared.as_slice().expect("host memory").iter().all(|&byte| byte == i));
            })
        })
        .collect();
    drop(rest);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(drops.count(), 1);
}

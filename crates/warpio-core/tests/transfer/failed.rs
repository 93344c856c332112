//! A failure, and how `?` turns it into other errors.

use std::error::Error as _;
use std::io;

use warpio_core::{Device, DeviceBytesMut, Error, ErrorKind, Failed, Moved, Transfer};

use crate::support::{block_on, ready};

fn denied() -> Error {
    let cause = io::Error::from_raw_os_error(13);
    Error::from(cause).or_context("read", "https://me:secret@host/file?token=1", 4096, 10)
}

fn transfer() -> Transfer {
    Transfer::failed(denied(), Some(Device::host().alloc(7).unwrap()))
}

#[test]
fn the_buffer_comes_back() {
    let failed = ready(transfer()).unwrap_err();
    assert_eq!(failed.buffer.map(|buffer| buffer.len()), Some(7));
}

#[test]
fn it_becomes_an_error() {
    fn read() -> Result<Moved<DeviceBytesMut>, Error> {
        Ok(block_on(transfer())?)
    }
    let error = read().unwrap_err();
    assert_eq!((error.kind(), error.offset(), error.os_error()), (ErrorKind::PermissionDenied, Some(4096), Some(13)));
}

#[test]
fn it_becomes_an_io_error_and_back() {
    fn read() -> io::Result<Moved<DeviceBytesMut>> {
        Ok(block_on(transfer())?)
    }
    let error = read().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert_eq!(Error::from(error).length(), Some(10));
}

#[test]
fn it_is_an_error_itself_that_says_where_and_why_but_no_secret() {
    let failed: Failed<DeviceBytesMut> = ready(transfer()).unwrap_err();
    let text = format!("{failed} {failed:?}");
    assert!(text.contains("host/file") && text.contains("offset 4096, 10 bytes"), "{text}");
    assert!(text.contains("buffer_returned: true"), "{text}");
    assert!(!text.contains("secret") && !text.contains("token"), "{text}");
    assert!(failed.source().is_some(), "the cause is kept");
}

//! Typed stand-ins for the pointers that C callers pass, so that the exported functions themselves stay safe code.

use std::ffi::{CStr, c_char};

use crate::codes::{Code, Result};

/// Where a function leaves a result.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Stores the result; a null pointer is an invalid argument.
    pub(crate) fn set(&self, value: T) -> Result {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the driver API asks callers for a writable place of this type, and null was ruled out.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Stores the result if the caller wants it: null means that it does not.
    pub(crate) fn set_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write(value) };
        }
    }

    /// The same place for a value of another type, as the called function defines it.
    pub(crate) fn cast<U>(&self) -> Out<U> {
        Out(self.0.cast())
    }
}

impl<T> From<*mut T> for Out<T> {
    fn from(place: *mut T) -> Self {
        Self(place)
    }
}

impl Out<c_char> {
    /// Copies a NUL-terminated text into a buffer of `len` bytes, cut to fit.
    pub(crate) fn set_text(&self, len: i32, text: &str) -> Result {
        let room = usize::try_from(len).unwrap_or(0);
        if self.0.is_null() || room == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let bytes = text.as_bytes();
        let kept = bytes.len().min(room - 1);
        // SAFETY: the caller gives a buffer of `room` bytes, and `kept + 1 <= room`.
        unsafe {
            self.0.cast::<u8>().copy_from(bytes.as_ptr(), kept);
            self.0.add(kept).write(0);
        }
        Ok(())
    }
}

/// What a function reads: one value, or the first of several.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> From<*const T> for In<T> {
    fn from(place: *const T) -> Self {
        Self(place)
    }
}

impl<T> In<T> {
    pub(crate) fn as_ptr(&self) -> *const T {
        self.0
    }

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// The same place for a value of another type, as the called function defines it.
    pub(crate) fn cast<U>(&self) -> In<U> {
        In(self.0.cast())
    }
}

impl<T: Copy> In<T> {
    /// The value; a null pointer is an invalid argument.
    pub(crate) fn get(&self) -> Result<T> {
        self.at(0)
    }

    /// The value at `index` of an array that the caller says is long enough.
    pub(crate) fn at(&self, index: usize) -> Result<T> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the driver API asks callers for `index + 1` readable values here, and null was ruled out.
        // Unaligned, since some callers pass packed structures.
        Ok(unsafe { self.0.add(index).read_unaligned() })
    }
}

impl<T> In<In<T>> {
    /// The pointer at `index` of an array that the caller says is long enough.
    pub(crate) fn pointer(&self, index: usize) -> Result<*const T> {
        self.cast::<*const T>().at(index)
    }
}

/// A NUL-terminated text.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// The text, with bytes outside of UTF-8 replaced; a null pointer is an invalid argument.
    pub(crate) fn get(&self) -> Result<String> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: the callers pass a NUL-terminated string, and null was ruled out.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}

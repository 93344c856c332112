//! A transfer that the kernel may do in parts, as a state machine without a descriptor: it says where the next call
//! begins and is told what the call returned. Threads and rings drive the same one.

use crate::alignment::DirectAlign;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;

/// How far a transfer of a fixed length has come.
///
/// ```
/// use std::ops::ControlFlow;
/// use warpio_local::sys::rw::Progress;
///
/// let mut read = Progress::read(10, None);
/// assert!(matches!(read.absorb(Ok(6)), ControlFlow::Continue(())));
/// assert_eq!(read.next(), 6);
/// // The file ends here.
/// assert!(matches!(read.absorb(Ok(0)), ControlFlow::Break(Ok(6))));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    len: usize,
    done: usize,
    align: Option<DirectAlign>,
    write: bool,
}

impl Progress {
    /// A read of `len` bytes; with `align`, one that may only be made at aligned positions.
    pub fn read(len: usize, align: Option<DirectAlign>) -> Self {
        Self { len, done: 0, align, write: false }
    }

    /// A write of `len` bytes; with `align`, one that may only be made at aligned positions.
    pub fn write(len: usize, align: Option<DirectAlign>) -> Self {
        Self { len, done: 0, align, write: true }
    }

    /// Where the next call begins, in bytes from the start; it ends at the transfer's end. For direct I/O this is the
    /// last position up to what is done at which both memory and offset are aligned.
    pub fn next(&self) -> usize {
        let unit = self.align.map_or(1, |align| align.unit() as usize);
        self.done - self.done % unit
    }

    /// How many bytes, from the first on, are transferred.
    pub fn done(&self) -> usize {
        self.done
    }

    /// Whether there is nothing left to do.
    pub fn is_complete(&self) -> bool {
        self.done >= self.len
    }

    /// Takes what a call at [`next`](Self::next) returned. Breaks with the bytes transferred (fewer than asked for mean
    /// the end of the file), or with the error that ended it.
    pub fn absorb(&mut self, answer: io::Result<usize>) -> ControlFlow<io::Result<usize>> {
        let n = match answer {
            Ok(n) => n,
            Err(error) if error.kind() == ErrorKind::Interrupted => return ControlFlow::Continue(()),
            Err(error) => return ControlFlow::Break(Err(error)),
        };
        let reached = self.next() + n;
        let advanced = reached > self.done;
        self.done = self.done.max(reached);
        if self.is_complete() {
            return ControlFlow::Break(Ok(self.done));
        }
        if self.write {
            // A call that takes nothing would go on for ever.
            return if advanced {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(Err(ErrorKind::WriteZero.into()))
            };
        }
        // The device moves whole blocks: only the end of the file can fall inside one. Where memory is aligned more
        // coarsely than offsets, blocks are read again, and one that gives no more the second time is the end too.
        let inside_block = self.align.is_some_and(|align| !reached.is_multiple_of(align.offset() as usize));
        if n == 0 || !advanced || inside_block {
            return ControlFlow::Break(Ok(self.done));
        }
        ControlFlow::Continue(())
    }
}

//! Turning calls that may do a part into transfers that do the whole. No descriptor in here: the call is a closure that
//! is told how many bytes are done, so that tests can script the kernel.

use super::{Progress, WriteError};
use crate::alignment::DirectAlign;
use std::io;
use std::ops::ControlFlow;

/// Reads until `len` bytes are there, or the file ends.
pub(super) fn read(len: usize, call: impl FnMut(usize) -> io::Result<usize>) -> io::Result<usize> {
    run(&mut Progress::read(len, None), call)
}

/// As [`read()`], never calling at a position that is not aligned.
pub(super) fn read_direct(
    len: usize,
    align: DirectAlign,
    call: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<usize> {
    run(&mut Progress::read(len, Some(align)), call)
}

/// Writes until `len` bytes are taken.
pub(super) fn write(len: usize, call: impl FnMut(usize) -> io::Result<usize>) -> Result<(), WriteError> {
    run_write(Progress::write(len, None), call)
}

/// As [`write()`], never calling at a position that is not aligned: a write cut inside a block repeats that block.
pub(super) fn write_direct(
    len: usize,
    align: DirectAlign,
    call: impl FnMut(usize) -> io::Result<usize>,
) -> Result<(), WriteError> {
    run_write(Progress::write(len, Some(align)), call)
}

fn run_write(mut progress: Progress, call: impl FnMut(usize) -> io::Result<usize>) -> Result<(), WriteError> {
    let result = run(&mut progress, call);
    result.map(drop).map_err(|source| WriteError::new(progress.done(), source))
}

fn run(progress: &mut Progress, mut call: impl FnMut(usize) -> io::Result<usize>) -> io::Result<usize> {
    while !progress.is_complete() {
        if let ControlFlow::Break(result) = progress.absorb(call(progress.next())) {
            return result;
        }
    }
    Ok(progress.done())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::io::ErrorKind;

    /// A kernel that answers from a list, noting where it was asked, and panics when asked once more.
    struct Script {
        answers: VecDeque<Result<usize, i32>>,
        asked: Vec<usize>,
    }

    impl Script {
        fn new(answers: impl IntoIterator<Item = Result<usize, i32>>) -> Self {
            Self { answers: answers.into_iter().collect(), asked: Vec::new() }
        }
        fn call(&mut self, at: usize) -> io::Result<usize> {
            self.asked.push(at);
            let answer = self.answers.pop_front().expect("one call too many");
            answer.map_err(io::Error::from_raw_os_error)
        }
    }

    fn align(memory: u32, offset: u32) -> DirectAlign {
        DirectAlign::new(memory, offset).unwrap()
    }

    #[test]
    fn short_reads_go_on_where_they_stopped() {
        let mut k = Script::new([Ok(3), Ok(4), Ok(3)]);
        assert_eq!(read(10, |at| k.call(at)).unwrap(), 10);
        assert_eq!(k.asked, [0, 3, 7]);
    }

    #[test]
    fn an_interrupted_read_is_asked_again() {
        let mut k = Script::new([Err(libc::EINTR), Ok(6), Err(libc::EINTR), Err(libc::EINTR), Ok(4)]);
        assert_eq!(read(10, |at| k.call(at)).unwrap(), 10);
        assert_eq!(k.asked, [0, 0, 6, 6, 6]);
    }

    #[test]
    fn a_read_ends_at_the_end_of_the_file() {
        let mut k = Script::new([Ok(6), Ok(0)]);
        assert_eq!(read(10, |at| k.call(at)).unwrap(), 6);
        assert_eq!(read(0, |_| panic!("nothing to read")).unwrap(), 0);
    }

    #[test]
    fn a_read_that_fails_half_way_is_an_error_not_a_short_read() {
        let mut k = Script::new([Ok(6), Err(libc::EIO)]);
        let error = read(10, |at| k.call(at)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
    }

    #[test]
    fn a_direct_read_that_stops_inside_a_block_met_the_end_of_the_file() {
        let mut k = Script::new([Ok(4096), Ok(700)]);
        assert_eq!(read_direct(16384, align(512, 4096), |at| k.call(at)).unwrap(), 4796);
        assert_eq!(k.asked, [0, 4096]);
    }

    #[test]
    fn a_direct_read_that_stops_between_blocks_goes_on() {
        let mut k = Script::new([Ok(4096), Err(libc::EINTR), Ok(8192), Ok(0)]);
        assert_eq!(read_direct(16384, align(512, 4096), |at| k.call(at)).unwrap(), 12288);
        assert_eq!(k.asked, [0, 4096, 4096, 12288]);
    }

    #[test]
    fn a_direct_read_goes_back_to_where_memory_is_aligned_too() {
        let mut k = Script::new([Ok(4096 + 512), Ok(4096)]);
        assert_eq!(read_direct(8192, align(4096, 512), |at| k.call(at)).unwrap(), 8192);
        assert_eq!(k.asked, [0, 4096]);
    }

    #[test]
    fn a_block_that_gives_no_more_the_second_time_is_the_end() {
        let mut k = Script::new([Ok(512), Ok(512)]);
        assert_eq!(read_direct(8192, align(4096, 512), |at| k.call(at)).unwrap(), 512);
        assert_eq!(k.asked, [0, 0]);
        let mut k = Script::new([Ok(512), Ok(1024), Ok(1024)]);
        assert_eq!(read_direct(8192, align(4096, 512), |at| k.call(at)).unwrap(), 1024);
    }

    #[test]
    fn a_file_that_shrinks_under_a_repeated_block_keeps_what_was_read() {
        let mut k = Script::new([Ok(4096 + 512), Ok(0)]);
        assert_eq!(read_direct(8192, align(4096, 512), |at| k.call(at)).unwrap(), 4608);
    }

    #[test]
    fn short_writes_go_on_where_they_stopped() {
        let mut k = Script::new([Ok(3), Err(libc::EINTR), Ok(7)]);
        write(10, |at| k.call(at)).unwrap();
        assert_eq!(k.asked, [0, 3, 3]);
    }

    #[test]
    fn a_full_disk_tells_how_much_was_taken() {
        for errno in [libc::ENOSPC, libc::EIO, libc::EDQUOT] {
            let mut k = Script::new([Ok(3), Ok(2), Err(errno)]);
            let error = write(10, |at| k.call(at)).unwrap_err();
            assert_eq!((error.written, error.source.raw_os_error()), (5, Some(errno)));
        }
    }

    #[test]
    fn a_write_that_takes_nothing_is_an_error() {
        let mut k = Script::new([Ok(3), Ok(0)]);
        let error = write(10, |at| k.call(at)).unwrap_err();
        assert_eq!((error.written, error.source.kind()), (3, ErrorKind::WriteZero));
        let mut k = Script::new([Ok(0)]);
        let error = write_direct(4096, align(512, 4096), |at| k.call(at)).unwrap_err();
        assert_eq!((error.written, error.source.kind()), (0, ErrorKind::WriteZero));
    }

    #[test]
    fn a_direct_write_cut_inside_a_block_repeats_the_block() {
        let mut k = Script::new([Ok(4096 + 100), Ok(4096)]);
        write_direct(8192, align(512, 4096), |at| k.call(at)).unwrap();
        assert_eq!(k.asked, [0, 4096]);
    }

    #[test]
    fn a_direct_write_that_stops_inside_its_first_block_hears_the_reason() {
        let mut k = Script::new([Ok(100), Err(libc::ENOSPC)]);
        let error = write_direct(8192, align(512, 4096), |at| k.call(at)).unwrap_err();
        assert_eq!((error.written, error.source.raw_os_error()), (100, Some(libc::ENOSPC)));
        assert_eq!(k.asked, [0, 0]);
    }

    #[test]
    fn a_direct_write_that_cannot_advance_fails_rather_than_spin() {
        let mut k = Script::new([Ok(100), Ok(100)]);
        let error = write_direct(8192, align(512, 4096), |at| k.call(at)).unwrap_err();
        assert_eq!((error.written, error.source.kind()), (100, ErrorKind::WriteZero));
    }

    proptest! {
        /// However the kernel cuts them, reads fill exactly what the file holds of the request.
        #[test]
        fn any_cutting_reads_the_same(
            len in 0usize..5000, file in 0usize..5000, cuts in prop::collection::vec(1usize..900, 1..40),
        ) {
            let mut cuts = cuts.into_iter().cycle();
            let n = read(len, |at| Ok(cuts.next().unwrap().min(len - at).min(file.saturating_sub(at)))).unwrap();
            prop_assert_eq!(n, len.min(file));
        }

        #[test]
        fn direct_calls_are_aligned_whatever_the_cuts(
            blocks in 1usize..64, file in 0usize..70_000, memory in 0u32..13, offset in 0u32..10,
            cuts in prop::collection::vec(1usize..20, 1..40),
        ) {
            let a = align(1 << memory, 1 << offset);
            let (unit, block) = (a.unit() as usize, a.offset() as usize);
            let len = blocks * 512usize.max(unit);
            let mut cuts = cuts.into_iter().cycle();
            let mut asked = Vec::new();
            let n = read_direct(len, a, |at| {
                asked.push(at);
                // At least one unit, so that each call advances; then anywhere between blocks.
                let cut = unit + cuts.next().unwrap() * block;
                Ok(cut.min(len - at).min(file.saturating_sub(at)))
            }).unwrap();
            prop_assert_eq!(n, len.min(file));
            prop_assert!(asked.iter().all(|at| at % unit == 0), "{asked:?}");
        }
    }
}

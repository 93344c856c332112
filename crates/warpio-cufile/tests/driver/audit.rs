//! The mock's audit: it must end the process where the real library would suffer silently, or its silence in the other
//! tests would mean nothing.

use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use warpio_cufile::sys::{BatchHandle, Descriptor, Handle, IoEvent, IoParams, OpError};

use crate::support::{KIB, Rig, in_child, text};

const LEN: usize = 64 * KIB;

/// What misuse needs: an open driver, a registered file and memory.
struct Bare {
    rig: Rig,
    _driver: warpio_cufile::Driver,
    file: std::fs::File,
    handle: Handle,
    memory: Option<warpio_core::DeviceBytesMut>,
}

impl Bare {
    fn new() -> Option<Self> {
        let rig = Rig::new("mode gds")?;
        let file = std::fs::File::open(rig.file(LEN)).unwrap();
        let driver = rig.driver();
        let mut handle = std::ptr::null_mut();
        let mut descriptor = Descriptor::of(file.as_raw_fd());
        // SAFETY: places for the results, and an open descriptor.
        let status = unsafe { (rig.library.cuFileHandleRegister)(&mut handle, &mut descriptor) };
        assert_eq!(status.err, OpError::SUCCESS);
        let memory = Some(rig.device.alloc(LEN).unwrap());
        Some(Self { rig, _driver: driver, file, handle, memory })
    }

    fn base(&mut self) -> *mut std::ffi::c_void {
        self.memory.as_mut().map_or(std::ptr::null_mut(), |memory| memory.as_mut_ptr().cast())
    }

    fn batch(&self) -> BatchHandle {
        let mut batch = std::ptr::null_mut();
        // SAFETY: a place for the result.
        let status = unsafe { (self.rig.library.cuFileBatchIOSetUp)(&mut batch, 8) };
        assert_eq!(status.err, OpError::SUCCESS);
        batch
    }

    fn entry(&mut self, size: usize) -> IoParams {
        IoParams {
            mode: IoParams::BATCH,
            base: self.base(),
            file_offset: 0,
            base_offset: 0,
            size,
            handle: self.handle,
            opcode: IoParams::READ,
            cookie: std::ptr::null_mut(),
        }
    }

    fn submit(&self, batch: BatchHandle, mut entry: IoParams) -> OpError {
        // SAFETY: one entry; what it names is misused on purpose, and the mock looks after it.
        unsafe { (self.rig.library.cuFileBatchIOSubmit)(batch, 1, &mut entry, 0) }.err
    }

    fn free(&mut self) {
        drop(self.memory.take());
        warpio_cuda::wait_for_releases();
        crate::support::until(|| self.rig.gpu().counters().device_allocations == 0);
    }
}

/// The misuse ended the child, and the mock said why.
#[track_caller]
fn assert_aborted(output: &Output, why: &str) {
    let said = text(output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(said.contains(why), "{said}");
}

/// A test whose child commits a misuse.
macro_rules! misuse {
    ($($name:ident, $why:literal, |$bare:ident| $body:block)+) => {
        $(#[test]
        fn $name() {
            if warpio_tests::mock_gpu::is_real() {
                return;
            }
            let test = concat!("audit::", stringify!($name));
            match in_child(test) {
                Some(output) => assert_aborted(&output, $why),
                None => {
                    let Some(mut bare) = Bare::new() else { return };
                    let misuse = |$bare: &mut Bare| $body;
                    misuse(&mut bare);
                }
            }
        })+
    };
}

misuse! {
    memory_freed_under_an_entry, "memory was freed under an entry", |bare| {
        let (batch, entry) = (bare.batch(), bare.entry(LEN));
        bare.rig.mock.ctl("hold");
        bare.submit(batch, entry);
        bare.free();
        bare.rig.mock.ctl("complete; wait idle");
    }

    memory_freed_before_a_call, "memory that is not there", |bare| {
        let base = bare.base();
        bare.free();
        // SAFETY: misuse, which the mock notices before it touches anything.
        bare.rig.device_context(|| unsafe { (bare.rig.library.cuFileRead)(bare.handle, base, LEN, 0, 0) });
    }

    a_file_closed_before_it_is_deregistered, "closed before it was deregistered", |bare| {
        let library = bare.rig.library;
        drop(std::mem::replace(&mut bare.file, std::fs::File::open("/proc/self/exe").unwrap()));
        // SAFETY: a handle that was registered.
        unsafe { (library.cuFileHandleDeregister)(bare.handle) };
    }

    a_file_deregistered_under_an_entry, "deregistered under an operation", |bare| {
        let (batch, entry) = (bare.batch(), bare.entry(LEN));
        bare.rig.mock.ctl("hold");
        bare.submit(batch, entry);
        // SAFETY: misuse, which the mock notices.
        unsafe { (bare.rig.library.cuFileHandleDeregister)(bare.handle) };
    }

    memory_freed_before_it_is_deregistered, "freed before it was deregistered", |bare| {
        let (library, base, device) = (bare.rig.library, bare.base() as usize, bare.rig.device.clone());
        let base = base as *const std::ffi::c_void;
        // SAFETY: memory of the length that is passed.
        let register = || unsafe { (library.cuFileBufRegister)(base, LEN, 0) };
        assert_eq!(warpio_cuda::CudaDeviceExt::in_context(&device, register).unwrap().err, OpError::SUCCESS);
        bare.free();
        // SAFETY: misuse, which the mock notices.
        let _ = unsafe { (library.cuFileBufDeregister)(base) };
    }

    an_entry_without_bytes, "never gets an event", |bare| {
        let (batch, entry) = (bare.batch(), bare.entry(0));
        bare.submit(batch, entry);
    }

    a_batch_used_again_after_a_failed_submission, "used again although a submission to it had failed", |bare| {
        let (batch, entry) = (bare.batch(), bare.entry(LEN));
        let bad = IoParams { handle: std::ptr::null_mut(), ..entry };
        assert_ne!(bare.submit(batch, bad), OpError::SUCCESS);
        bare.submit(batch, entry);
    }

    a_batch_used_after_it_was_destroyed, "used that was destroyed", |bare| {
        let (batch, entry) = (bare.batch(), bare.entry(LEN));
        // SAFETY: set up above.
        unsafe { (bare.rig.library.cuFileBatchIODestroy)(batch) };
        bare.submit(batch, entry);
    }

    an_operation_that_does_not_exist, "an operation that does not exist", |bare| {
        let (batch, entry) = (bare.batch(), bare.entry(LEN));
        bare.submit(batch, IoParams { opcode: 7, ..entry });
    }

    a_call_without_a_context, "without a current context", |bare| {
        let (handle, base, library) = (bare.handle as usize, bare.base() as usize, bare.rig.library);
        // SAFETY: memory of the length that is passed.
        let read = move || unsafe { (library.cuFileRead)(handle as *mut _, base as *mut _, LEN, 0, 0) };
        std::thread::spawn(read).join().unwrap();
    }

    a_driver_closed_over_a_file, "closed over 1 files", |bare| {
        // SAFETY: opened once.
        let _ = unsafe { (bare.rig.library.cuFileDriverClose_v2)() };
    }

    parameters_freed_before_the_stream_gets_there, "parameters of a stream were freed or overwritten", |bare| {
        let stream = bare.rig.device.new_stream().unwrap();
        let raw = warpio_cuda::raw_stream(&stream).unwrap().cast();
        let base = bare.base();
        bare.rig.gpu().ctl("delay_us 200000 seed 1");
        let mut params = Box::new((LEN, 0i64, 0i64, -7isize));
        let (size, offset, at, moved) = (&raw mut params.0, &raw mut params.1, &raw mut params.2, &raw mut params.3);
        let read = bare.rig.library.cuFileReadAsync;
        // SAFETY: misuse: the parameters are overwritten below, as their next owner would.
        let status = bare.rig.device_context(|| unsafe { read(bare.handle, base, size, offset, at, moved, raw) });
        assert_eq!(status.err, OpError::SUCCESS);
        params.3 = 1234;
        stream.record().unwrap().synchronize().unwrap();
    }
}

/// What the batch API keeps silent about is silence here too.
#[test]
fn cancelling_sends_no_events_and_touches_nothing() {
    let Some(mut bare) = Bare::new() else { return };
    let (batch, entry) = (bare.batch(), bare.entry(LEN));
    bare.rig.mock.ctl("hold");
    assert_eq!(bare.submit(batch, entry), OpError::SUCCESS);
    let library = bare.rig.library;
    let mut events = [IoEvent::NONE; 8];
    let mut count = 8;
    // SAFETY: a batch, places for events and their number.
    unsafe {
        assert_eq!((library.cuFileBatchIOCancel)(batch).err, OpError::SUCCESS);
        bare.rig.mock.ctl("complete; wait idle");
        let status = (library.cuFileBatchIOGetStatus)(batch, 1, &mut count, events.as_mut_ptr(), std::ptr::null_mut());
        assert_eq!((status.err, count), (OpError::SUCCESS, 0));
        (library.cuFileBatchIODestroy)(batch);
        (library.cuFileHandleDeregister)(bare.handle);
    }
    assert_eq!(bare.rig.mock.counters().bytes_read, 0);
}

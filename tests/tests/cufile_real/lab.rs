//! What scenarios work with: a library, a current context, memory and files.

use std::ffi::c_void;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::time::Duration;

use warpio_core::{Device, DeviceBytesMut, DeviceStream, Slot};
use warpio_cuda::{CudaDeviceExt, CudaOptions, cuda_device};
use warpio_cufile::Library;
use warpio_cufile::sys::{BatchHandle, Descriptor, Handle, IoEvent, IoParams, Status};
use warpio_tests::mock_gpu;

use crate::process::{folder, library_of_this_process};

pub(crate) const KIB: usize = 1 << 10;

pub(crate) struct Lab {
    pub(crate) library: &'static Library,
    pub(crate) device: Device,
    dir: tempfile::TempDir,
}

/// A status as text: the code, and that of CUDA if there is one.
pub(crate) fn code(status: Status) -> String {
    match status.cu_err {
        0 => status.err.0.to_string(),
        cuda => format!("{}/{cuda}", status.err.0),
    }
}

impl Lab {
    /// With a current context, and the driver not open yet.
    pub(crate) fn closed() -> Self {
        // The software GPU, unless a real one is asked for.
        let _ = mock_gpu::load();
        let device = cuda_device(0, CudaOptions::default()).unwrap();
        device.adopt_thread().unwrap();
        let library = Library::open(library_of_this_process()).unwrap();
        // Files in memory: those of a local file system are refused where there is no /run/udev.
        let dir = tempfile::tempdir_in(folder()).unwrap();
        Self { library, device, dir }
    }

    /// With the driver open.
    pub(crate) fn open() -> Self {
        let lab = Self::closed();
        // SAFETY: a context is current.
        assert_eq!(code(unsafe { (lab.library.cuFileDriverOpen)() }), "0");
        lab
    }

    /// A file of `len` bytes that depend on their offsets.
    pub(crate) fn path(&self, len: usize) -> PathBuf {
        let path = self.dir.path().join(format!("{len}.bin"));
        if !path.exists() {
            std::fs::write(&path, bytes(len)).unwrap();
        }
        path
    }

    pub(crate) fn read_only(&self, len: usize) -> File {
        File::open(self.path(len)).unwrap()
    }

    pub(crate) fn read_write(&self, len: usize) -> File {
        File::options().read(true).write(true).open(self.path(len)).unwrap()
    }

    pub(crate) fn write_only(&self, len: usize, flags: i32) -> File {
        File::options().write(true).custom_flags(flags).open(self.path(len)).unwrap()
    }

    pub(crate) fn folder(&self) -> File {
        File::open(self.dir.path()).unwrap()
    }

    pub(crate) fn try_register(&self, fd: RawFd) -> (Status, Handle) {
        let (mut handle, mut descriptor) = (std::ptr::null_mut(), Descriptor::of(fd));
        // SAFETY: places for the result and the descriptor.
        let status = unsafe { (self.library.cuFileHandleRegister)(&mut handle, &mut descriptor) };
        (status, handle)
    }

    pub(crate) fn register(&self, file: &File) -> Handle {
        let (status, handle) = self.try_register(file.as_raw_fd());
        assert_eq!(code(status), "0");
        handle
    }

    pub(crate) fn memory(&self, len: usize) -> Memory {
        let mut buffer = self.device.alloc(len).unwrap();
        let (base, device) = (buffer.as_mut_ptr().cast(), self.device.clone());
        let memory = Memory { base, len, device, _buffer: buffer };
        memory.fill(0xEE);
        memory
    }

    pub(crate) fn read(&self, handle: Handle, base: *mut c_void, len: usize, offset: i64, at: i64) -> String {
        set_errno(0);
        // SAFETY: what is wrong with the arguments is what scenarios are about.
        result(unsafe { (self.library.cuFileRead)(handle, base, len, offset, at) })
    }

    pub(crate) fn write(&self, handle: Handle, base: *const c_void, len: usize, offset: i64, at: i64) -> String {
        set_errno(0);
        // SAFETY: as above.
        result(unsafe { (self.library.cuFileWrite)(handle, base, len, offset, at) })
    }

    pub(crate) fn pin(&self, base: *const c_void, len: usize) -> String {
        // SAFETY: as above.
        code(unsafe { (self.library.cuFileBufRegister)(base, len, 0) })
    }

    pub(crate) fn unpin(&self, base: *const c_void) -> String {
        // SAFETY: as above.
        code(unsafe { (self.library.cuFileBufDeregister)(base) })
    }

    pub(crate) fn set_up(&self, capacity: u32) -> (String, BatchHandle) {
        let mut batch = std::ptr::null_mut();
        // SAFETY: a place for the result.
        let status = unsafe { (self.library.cuFileBatchIOSetUp)(&mut batch, capacity) };
        (code(status), batch)
    }

    pub(crate) fn submit(&self, batch: BatchHandle, entries: &mut [IoParams]) -> String {
        self.submit_first(batch, entries, entries.len())
    }

    /// Submits the first entries only. The real library looks at one even if there are to be none.
    pub(crate) fn submit_first(&self, batch: BatchHandle, entries: &mut [IoParams], count: usize) -> String {
        // SAFETY: the entries outlive the scenario's batch.
        code(unsafe { (self.library.cuFileBatchIOSubmit)(batch, count as u32, entries.as_mut_ptr(), 0) })
    }

    /// Asks once: the code, and the events as cookie, status and result.
    pub(crate) fn status(
        &self,
        batch: BatchHandle,
        least: u32,
        room: u32,
        patience: Duration,
    ) -> (String, Vec<(usize, u32, i64)>) {
        let mut events = vec![IoEvent::NONE; room.max(1) as usize];
        let mut count = room;
        let mut time = libc::timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        // SAFETY: places for so many events.
        let status =
            unsafe { (self.library.cuFileBatchIOGetStatus)(batch, least, &mut count, events.as_mut_ptr(), &mut time) };
        let told = events.iter().take(if status.err.0 == 0 { count as usize } else { 0 });
        (code(status), told.map(|event| (event.cookie as usize, event.status.0, event.ret as i64)).collect())
    }

    /// Asks until so many events have come, or none for long.
    pub(crate) fn reap(&self, batch: BatchHandle, wanted: usize) -> Vec<(usize, u32, i64)> {
        let mut events = Vec::new();
        for _ in 0..400 {
            let (_, more) = self.status(batch, 1, wanted as u32, Duration::from_millis(50));
            events.extend(more);
            if events.len() >= wanted {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        events.sort_unstable();
        events
    }
}

/// Memory of the GPU.
pub(crate) struct Memory {
    pub(crate) base: *mut c_void,
    len: usize,
    device: Device,
    _buffer: DeviceBytesMut,
}

impl Memory {
    /// What is in it now.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        self.pieces(|stream, at, slot, len| {
            // SAFETY: within both, which live until the stream is synchronised.
            unsafe { stream.backend().copy_to_host(slot.as_ptr(), at, len).unwrap() };
            stream.record().unwrap().synchronize().unwrap();
            bytes.extend_from_slice(&slot.as_slice()[..len]);
        });
        bytes
    }

    pub(crate) fn fill(&self, byte: u8) {
        self.pieces(|stream, at, slot, len| {
            slot.as_mut_slice()[..len].fill(byte);
            // SAFETY: as above.
            unsafe { stream.backend().copy_to_device(at, slot.as_ptr(), len).unwrap() };
            stream.record().unwrap().synchronize().unwrap();
        });
    }

    fn pieces(&self, mut each: impl FnMut(&DeviceStream, NonNull<u8>, &mut Slot, usize)) {
        let (stream, most) = (self.device.new_stream().unwrap(), self.device.staging().slot_len());
        for at in (0..self.len).step_by(most) {
            let len = most.min(self.len - at);
            let mut slot = self.device.staging().acquire_blocking(len).unwrap();
            let address = NonNull::new(self.base.wrapping_byte_add(at).cast()).unwrap();
            each(&stream, address, &mut slot, len);
        }
    }

    /// Whether `len` bytes at `at` are those of the file from `offset` on.
    pub(crate) fn has(&self, at: usize, offset: usize, len: usize) -> &'static str {
        if self.bytes()[at..at + len] == bytes(offset + len)[offset..] { "right bytes" } else { "wrong bytes" }
    }

    /// Whether nothing was written.
    pub(crate) fn is_untouched(&self) -> &'static str {
        if self.bytes().iter().all(|&byte| byte == 0xEE) { "untouched" } else { "written" }
    }
}

/// The bytes of every file.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

pub(crate) fn entry(handle: Handle, base: *mut c_void, size: usize, offset: i64, at: i64, cookie: usize) -> IoParams {
    IoParams {
        mode: IoParams::BATCH,
        base,
        file_offset: offset,
        base_offset: at,
        size,
        handle,
        opcode: IoParams::READ,
        cookie: cookie as *mut c_void,
    }
}

fn set_errno(value: i32) {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = value };
}

fn result(result: isize) -> String {
    // SAFETY: this thread's own.
    let errno = unsafe { *libc::__errno_location() };
    if result < 0 { format!("{result} errno {errno}") } else { result.to_string() }
}

//! What the tests share.

use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use cudarc::driver::sys::{CUcontext, cuCtxGetCurrent};
use futures::executor::block_on;
use warpio_core::{Device, DeviceEvent, DeviceStream, PoolConfig, Result};
use warpio_cuda::{CudaOptions, cuda_device, wait_for_releases};
use warpio_tests::mock_gpu::{self, Control};

pub(crate) const KIB: usize = 1 << 10;
pub(crate) const MIB: usize = 1 << 20;

/// How long a test waits for what has to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Pools small enough to be filled by a test.
pub(crate) fn options() -> CudaOptions {
    let pool = PoolConfig { budget: 4 * MIB, slot_len: MIB, small_slot_len: 64 * KIB, slab_len: MIB };
    CudaOptions { pool, ..CudaOptions::default() }
}

/// The GPU, and a device on it.
pub(crate) struct Gpu {
    pub(crate) device: Device,
    session: Session,
}

impl Gpu {
    /// The first device, set up for tests.
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    pub(crate) fn with(options: CudaOptions) -> Self {
        let session = session();
        Self { device: cuda_device(0, options).unwrap(), session }
    }

    pub(crate) fn of(session: Session, device: Device) -> Self {
        Self { device, session }
    }

    /// The GPU without the device.
    pub(crate) fn into_session(self) -> Session {
        self.session
    }

    /// The software GPU's controls, or `None` where a real GPU cannot do what the test asks for.
    pub(crate) fn mock(&self) -> Option<Control> {
        mock_of(&self.session)
    }

    /// The controls for a test that says less on a real GPU, but says something.
    pub(crate) fn control(&self) -> Option<Control> {
        self.session.control()
    }
}

/// The GPU for one test.
pub(crate) struct Session(mock_gpu::Session);

impl Session {
    pub(crate) fn control(&self) -> Option<Control> {
        self.0.control()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(mock) = self.control() {
            // A broken context works again after the reset that follows: by then its streams must have dropped their
            // work. Not `ctl`, as the test may be panicking.
            let _ = mock.try_ctl("release; wait idle");
        }
    }
}

/// The GPU alone, when everything of earlier tests is gone.
pub(crate) fn session() -> Session {
    let session = Session(mock_gpu::session());
    if let Some(mock) = session.control() {
        until(|| {
            wait_for_releases();
            mock.counters().contexts == 0
        });
        mock.ctl("reset");
    }
    session
}

/// The software GPU's controls, or `None` and a word about it.
pub(crate) fn mock_of(session: &Session) -> Option<Control> {
    let mock = session.control();
    if mock.is_none() {
        let test = std::thread::current().name().unwrap_or_default().to_owned();
        eprintln!("SKIPPED on a real GPU: {test}");
    }
    mock
}

/// Waits for something that nobody announces.
#[track_caller]
pub(crate) fn until(mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < end, "waited in vain");
        std::thread::yield_now();
    }
}

/// The outcome of a watch, when it comes.
pub(crate) fn watch(device: &Device, event: DeviceEvent) -> Receiver<Result<()>> {
    let (told, outcome) = channel();
    device.backend().watch(event, Box::new(move |result| told.send(result).unwrap_or_default()));
    outcome
}

#[track_caller]
pub(crate) fn outcome<T>(of: &Receiver<T>) -> T {
    of.recv_timeout(PATIENCE).expect("it never came")
}

/// Bytes that differ from place to place.
pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed).collect()
}

/// What is on the device.
pub(crate) fn read_back(bytes: &warpio_core::DeviceBytes) -> Vec<u8> {
    block_on(bytes.to_host()).unwrap().to_vec()
}

pub(crate) fn upload(device: &Device, bytes: &[u8]) -> warpio_core::DeviceBytesMut {
    block_on(device.upload(bytes)).unwrap()
}

/// Enqueues a copy of a pinned slot's first bytes to the device. The slot is held until the copy has ended.
pub(crate) fn copy_in(device: &Device, stream: &DeviceStream, to: u64, bytes: &[u8]) {
    let mut slot = device.staging().acquire_blocking(bytes.len()).unwrap();
    slot.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
    let to = NonNull::new(to as usize as *mut u8).unwrap();
    // SAFETY: the slot is held below, and tests keep their buffers.
    unsafe { stream.backend().copy_to_device(to, slot.as_ptr(), bytes.len()).unwrap() };
    slot.hold_until(device, stream).unwrap();
}

/// What is current on this thread.
pub(crate) fn current() -> CUcontext {
    let mut context = null_mut();
    // SAFETY: a valid place for the result.
    unsafe { cuCtxGetCurrent(&mut context) };
    context
}

/// cudarc's stream, and the same as one of warpio.
pub(crate) fn cudarc_stream(device: &Device) -> (Arc<cudarc::driver::CudaStream>, warpio_cuda::CudaStream) {
    let stream = warpio_cuda::CudaStream::new(device).unwrap();
    (Arc::clone(&stream), stream)
}

//! Measures how soon a thread learns that a small copy to the device has ended: `bridge [ITERATIONS] [PAUSE_US]`.
//!
//! One line of JSON per way, with times in microseconds from before the copy is enqueued until the thread that waits
//! for it runs again:
//!
//! * `reactor`: what this crate does. Its thread asks the event, pacing itself, and wakes the waiter.
//! * `event`: a thread that does nothing but ask the event (`cuEventQuery`) wakes the waiter.
//! * `flag`: a thread that does nothing but look at mapped memory, which the stream writes (`cuStreamWriteValue32`),
//!   wakes the waiter.
//! * `host-function`: the driver calls a function (`cuLaunchHostFunc`) that wakes the waiter.
//! * `inline`: the waiter asks the event itself, and need not be woken. What the others come to beyond this is the
//!   cost of handing over.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

use cudarc::driver::sys::{self, CUstream};
use warpio_core::{Device, DeviceBytesMut, DeviceEvent, DeviceStream, Error, ErrorKind, Result, Slot};
use warpio_cuda::{CudaDeviceExt, CudaOptions, cuda_device, cudarc, raw_stream};

const LEN: usize = 4096;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let iterations = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let pause = Duration::from_micros(arguments.next().map_or(Ok(0), |text| text.parse())?);
    let copier = Copier::new(cuda_device(0, CudaOptions::default())?)?;
    copier.device.cuda_context()?.bind_to_thread()?;
    let measure = |name: &str, way: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        for _ in 0..iterations / 10 {
            way()?;
        }
        let mut times = Vec::with_capacity(iterations);
        for _ in 0..iterations {
            let start = Instant::now();
            way()?;
            times.push(start.elapsed());
            let end = Instant::now();
            while end.elapsed() < pause {
                std::hint::spin_loop();
            }
        }
        report(name, pause, &mut times);
        Ok(())
    };
    measure("inline", &mut || copier.copy_and_record()?.synchronize())?;
    measure("reactor", &mut || reactor(&copier))?;
    let mut event = PolledEvent::start();
    measure("event", &mut || event.wait(&copier))?;
    drop(event);
    let mut flag = PolledFlag::start(&copier)?;
    measure("flag", &mut || flag.wait(&copier))?;
    drop(flag);
    measure("host-function", &mut || host_function(&copier))?;
    Ok(())
}

fn report(name: &str, pause: Duration, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).map_or(0.0, |time| time.as_secs_f64() * 1e6);
    println!(
        r#"{{"way":"{name}","bytes":{LEN},"pause_us":{},"iterations":{},"min_us":{:.2},"median_us":{:.2},"p99_us":{:.2}}}"#,
        pause.as_micros(),
        times.len(),
        at(0.0),
        at(0.5),
        at(0.99)
    );
}

/// Copies the same bytes again and again.
struct Copier {
    device: Device,
    stream: DeviceStream,
    slot: Slot,
    buffer: DeviceBytesMut,
}

impl Copier {
    fn new(device: Device) -> Result<Self> {
        let slot = device.staging().acquire_blocking(LEN)?;
        Ok(Self { stream: device.new_stream()?, buffer: device.alloc(LEN)?, slot, device })
    }

    fn copy(&self) -> Result<()> {
        let to =
            NonNull::new(self.buffer.device_ptr() as usize as *mut u8).ok_or_else(|| Error::new(ErrorKind::Device))?;
        // SAFETY: slot and buffer have this length, live as long as the program, and nothing else uses them.
        unsafe { self.stream.backend().copy_to_device(to, self.slot.as_ptr(), LEN) }
    }

    fn copy_and_record(&self) -> Result<DeviceEvent> {
        self.copy()?;
        self.stream.record()
    }

    fn raw(&self) -> CUstream {
        raw_stream(&self.stream).unwrap_or(null_mut())
    }
}

/// A thread that waits, and what it waits for.
struct Waiter {
    thread: Thread,
    done: AtomicBool,
}

impl Waiter {
    fn new() -> Arc<Self> {
        Arc::new(Self { thread: std::thread::current(), done: AtomicBool::new(false) })
    }

    fn wake(&self) {
        self.done.store(true, Ordering::Release);
        self.thread.unpark();
    }

    fn wait(&self) {
        while !self.done.load(Ordering::Acquire) {
            std::thread::park();
        }
    }
}

fn reactor(copier: &Copier) -> Result<()> {
    let waiter = Waiter::new();
    let woken = waiter.clone();
    let event = copier.copy_and_record()?;
    copier.device.backend().watch(event, Box::new(move |_| woken.wake()));
    waiter.wait();
    Ok(())
}

fn host_function(copier: &Copier) -> Result<()> {
    unsafe extern "C" fn call(waiter: *mut c_void) {
        // SAFETY: made below, for one call.
        unsafe { Arc::from_raw(waiter.cast::<Waiter>()) }.wake();
    }
    let waiter = Waiter::new();
    copier.copy()?;
    let data = Arc::into_raw(waiter.clone()).cast_mut().cast();
    // SAFETY: the function takes what it is passed, once.
    check(unsafe { sys::cuLaunchHostFunc(copier.raw(), Some(call), data) })?;
    waiter.wait();
    Ok(())
}

/// What a polling thread looks at, if anything.
type Watched<T> = Arc<Mutex<Option<(T, Arc<Waiter>)>>>;

/// A thread that polls without a pause.
struct Poller<T> {
    watched: Watched<T>,
    end: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl<T: Send + 'static> Poller<T> {
    fn start(is_done: impl Fn(&T) -> bool + Send + 'static) -> Self {
        let (watched, end): (Watched<T>, _) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let (looks_at, ends) = (watched.clone(), end.clone());
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let Some((what, waiter)) = looks_at.lock().ok().and_then(|mut watched| watched.take()) else {
                    std::hint::spin_loop();
                    continue;
                };
                while !is_done(&what) {
                    std::hint::spin_loop();
                }
                waiter.wake();
            }
        });
        Self { watched, end, thread: Some(thread) }
    }

    fn wait(&self, what: T) {
        let waiter = Waiter::new();
        if let Ok(mut watched) = self.watched.lock() {
            *watched = Some((what, waiter.clone()));
        }
        waiter.wait();
    }
}

impl<T> Drop for Poller<T> {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct PolledEvent(Poller<DeviceEvent>);

impl PolledEvent {
    fn start() -> Self {
        Self(Poller::start(|event: &DeviceEvent| !matches!(event.is_done(), Ok(false))))
    }

    fn wait(&mut self, copier: &Copier) -> Result<()> {
        self.0.wait(copier.copy_and_record()?);
        Ok(())
    }
}

struct PolledFlag {
    poller: Poller<u32>,
    on_device: u64,
    next: u32,
}

impl PolledFlag {
    fn start(copier: &Copier) -> Result<Self> {
        // Pinned and never released, so that it outlives every poll.
        let slot: &'static Slot = Box::leak(Box::new(copier.device.staging().acquire_blocking(LEN)?));
        // SAFETY: aligned, initialised, and used as this type alone.
        let flag: &'static AtomicU32 = unsafe { slot.as_ptr().cast().as_ref() };
        let mut on_device = 0;
        // SAFETY: a valid place for the result, and pinned memory.
        check(unsafe { sys::cuMemHostGetDevicePointer_v2(&mut on_device, slot.as_ptr().as_ptr().cast(), 0) })?;
        let poller = Poller::start(move |value: &u32| flag.load(Ordering::Acquire) == *value);
        Ok(Self { poller, on_device, next: 1 })
    }

    fn wait(&mut self, copier: &Copier) -> Result<()> {
        let value = self.next;
        self.next = self.next.wrapping_add(1);
        copier.copy()?;
        // SAFETY: the flag's address on the device.
        check(unsafe { sys::cuStreamWriteValue32_v2(copier.raw(), self.on_device, value, 0) })?;
        self.poller.wait(value);
        Ok(())
    }
}

fn check(result: sys::CUresult) -> Result<()> {
    match result {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(Error::new(ErrorKind::Device).with_message(format!("{code:?}"))),
    }
}

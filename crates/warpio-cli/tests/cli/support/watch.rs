//! Waiting for what the program does to a directory.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify;

/// Long after anything has gone wrong.
const PATIENCE: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// Watches a directory from here on.
pub(crate) struct Watch(OwnedFd);

impl Watch {
    pub(crate) fn on(dir: &Path) -> Self {
        let fd = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&fd, dir, inotify::WatchFlags::CREATE | inotify::WatchFlags::MODIFY).unwrap();
        Self(fd)
    }

    /// Waits until a file was made there and written to.
    #[track_caller]
    pub(crate) fn wait_for_writing(&self) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.0, &mut buffer);
        loop {
            if events.is_buffer_empty() {
                let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&PATIENCE)).unwrap();
                assert_ne!(ready, 0, "nothing was written");
            }
            if events.next().unwrap().events().contains(inotify::ReadFlags::MODIFY) {
                return;
            }
        }
    }
}

//! The scenarios, in the order of the record.

mod batch;
mod buffer;
mod call;
mod driver;
mod engine;
mod file;
mod stream;

/// Some calls, and what came of them as text.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> String,
}

macro_rules! scenarios {
    ($($module:ident::$function:ident => $name:literal,)+) => {
        pub(crate) const ALL: &[Scenario] = &[$(Scenario { name: $name, run: $module::$function }),+];
    };
}

scenarios! {
    driver::properties_before_opening => "properties before opening",
    driver::open_and_close => "open, open, close, close, close",
    driver::read_behind_the_last_close => "read behind the last close",
    driver::setters_of_an_open_driver => "setters of an open driver",
    driver::parameters_before_and_after => "parameter before opening; set when open",
    driver::statistics => "statistics: before start; level 3 after one read",
    driver::peer_flags => "ways past host memory: NVMe; a storage that is none",
    file::modes => "register: read-only, read-write, write-only, O_DIRECT, O_APPEND",
    file::kinds => "register: folder, pipe, /dev/null, fd -1",
    file::twice => "register one descriptor twice",
    file::deregistered => "deregister twice, then read",
    file::closed_first => "close before deregistering, reuse the number: read; register",
    buffer::twice => "register memory: once, again, an inner part",
    buffer::nothing => "register memory: null, no bytes, deregister unknown",
    buffer::no_context => "register memory without a context",
    buffer::beyond => "read beyond registered memory: over its end, before its base",
    buffer::base_and_offset => "read into registered memory, by base and offset",
    call::whole => "read 1 MiB",
    call::ends => "read: over the end, at it, behind it, no bytes",
    call::unaligned => "read with unaligned offset, size and memory",
    call::wrong => "read: null memory, null handle, negative offset",
    call::wrong_mode => "read write-only, write read-only",
    call::written => "write 64 KiB, and 100 bytes at 5",
    call::no_context => "read on a thread without a context",
    call::threads => "16 threads, 50 reads each, one handle",
    batch::capacities => "set up: 0, 1, 128, 129 entries",
    batch::submit_counts => "submit: no entries, more than set up",
    batch::eight => "8 reads: events; bytes",
    batch::ends => "entries over the end and at it",
    batch::no_bytes => "an entry without bytes beside one of 4 KiB",
    batch::wrong_counts => "status: least above room, least above capacity, drained",
    batch::overfull => "8 in flight of 8, 4 more: submit; events afterwards",
    batch::wrong_entry => "a write to a read-only file among 4: submit; events afterwards",
    batch::cancelled => "cancel 4 in flight: cancel; events afterwards",
    batch::destroyed => "submit to a destroyed batch",
    batch::bad_operation => "an operation that does not exist, then one that does",
    batch::again => "one batch used 20 times",
    batch::two_submissions => "two submissions before any event",
    batch::written => "4 writes: events; bytes",
    stream::read => "stream: read 256 KiB",
    stream::end => "stream: read over the end of the file, and behind it",
    stream::written => "stream: write 64 KiB",
    stream::wrong_mode => "stream: read a write-only file: call; result",
    stream::wrong_handle => "stream: read with a handle that is none: call; result",
    stream::registered => "stream: register twice, deregister twice, flags 16",
    stream::many => "stream: 8 reads at once, by the buffer's base and offsets",
    stream::many_addresses => "stream: 8 reads at once, each by its address",
    stream::one_by_one => "stream: 8 reads by base and offset, one after another",
    engine::calls => "warpio's engine: reads and writes by calls",
    engine::batches => "warpio's engine: reads and writes by batches",
    engine::streams => "warpio's engine: reads and writes on streams",
    engine::crowd_of_calls => "warpio's engine: 128 reads of 1 MiB at once by calls",
    engine::crowd_of_entries => "warpio's engine: 128 reads of 1 MiB at once by batches",
    engine::crowd_of_operations => "warpio's engine: 128 reads of 1 MiB at once on streams",
}

//! Two mistakes that AddressSanitizer must report, so that its silence about the tests means something.

use std::alloc::{Layout, alloc, dealloc};
use std::hint::black_box;

fn main() {
    let layout = Layout::new::<[u8; 64]>();
    match std::env::args().nth(1).as_deref() {
        Some("use-after-free") => {
            // SAFETY: the layout is not empty, and the block is freed with it. The read after that is the mistake that
            // this program exists to make: under AddressSanitizer it ends the process.
            let byte = unsafe {
                let block = alloc(layout);
                dealloc(block, layout);
                black_box(block).read_volatile()
            };
            black_box(byte);
        }
        Some("leak") => {
            // SAFETY: the layout is not empty.
            let block = unsafe { alloc(layout) };
            black_box(block);
        }
        _ => {}
    }
}

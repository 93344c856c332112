//! A software cuFile: a `libcufile.so.0` for tests, over the software GPU of `mock-cuda`.
//!
//! It reads and writes files for real, into the memory behind the software GPU's addresses, and behaves as the real
//! library was seen to behave: its codes, its silences, its traps. Faults happen on demand, and it ends the process
//! when it is misused in a way that the real library would suffer silently. `README.md` says what is modelled, and lists
//! the control commands.
//!
//! What every version since 1.11 has is in `mock`; the `mock-cufile-old` package is made of it alone. `later` has the
//! rest.
#![allow(non_snake_case, reason = "the API's names are its interface")]

mod later;
mod mock;

/// What `cuFileGetVersion` answers: 1.20.
const VERSION: i32 = 1200;

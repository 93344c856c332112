//! Local files for the warpio I/O runtime: opening them, reading and writing them at an offset, the page cache above
//! them and the machine below.
//!
//! `unsafe` is confined to [`sys`]. What needs no system call ([`alignment`], [`page_cache::PageMap`], the parsers of
//! [`machine`]) is plain functions, so that their tests are exact.

pub mod alignment;
pub mod atomic_file;
pub mod engine;
pub mod file;
pub mod machine;
pub mod mmap;
pub mod open;
pub mod page_cache;
pub mod sys;

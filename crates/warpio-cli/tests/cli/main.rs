//! The built program, from outside: results, JSON, exit codes, errors in one line, interruption.

mod support;

mod bench;
mod bench_many;
mod bench_rand;
mod cache;
mod cp;
mod cufile;
mod fio;
mod full_disk;
mod gpu;
mod info;
mod interrupt;
mod limits;
mod output;
mod read;
mod remote;
mod settings;
mod terminal;
mod usage;

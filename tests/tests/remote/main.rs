//! Remote sources and sinks, against servers on loopback.

mod contract;
mod faults;
mod hdfs;
mod nginx;
mod reading;
mod stores;
mod support;
mod writing;

//! Remote sources and sinks, against servers on loopback.

mod contract;
mod credentials;
mod facade;
mod faults;
mod gcs;
mod hdfs;
mod nginx;
mod reading;
mod requests;
mod secrets;
mod stores;
mod support;
mod writing;

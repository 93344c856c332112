//! Remote sources and sinks, against servers on loopback.

mod contract;
mod faults;
mod reading;
mod support;

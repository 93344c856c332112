//! Servers on loopback that sources and sinks are tested with. None shares code with the client.
//!
//! Doubles ([`fault`], [`s3`], [`hdfs`]) run in the test itself and are always there. Real servers ([`nginx`],
//! [`azurite`], [`moto`]) are programs that must be installed; where one is not, its tests are skipped, and say so.

pub mod azurite;
pub mod fault;
pub mod hdfs;
pub mod moto;
pub mod nginx;
mod process;
pub mod s3;

pub use process::{find, missing};

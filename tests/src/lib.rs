//! The workspace's tests, and what they share.

pub mod mock;
pub mod mock_cufile;
pub mod mock_gpu;
pub mod ranges;
pub mod servers;

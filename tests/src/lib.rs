//! The workspace's tests.

//! The workspace's examples.

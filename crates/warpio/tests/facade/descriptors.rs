//! descriptors

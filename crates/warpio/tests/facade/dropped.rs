//! dropped

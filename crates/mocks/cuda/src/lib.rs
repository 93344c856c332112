//! Software GPU.

//! warpio.

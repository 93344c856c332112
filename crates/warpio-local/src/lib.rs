//! warpio-local.

//! warpio-core.

//! warpio-cuda.

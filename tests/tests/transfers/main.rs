//! Files to GPU memory and back through the whole of warpio, on the software GPU or, with `WARPIO_TEST_CUDA=real`, on
//! the machine's own.

mod maps;
mod random;
mod ranges;
mod streams;
mod support;
mod trouble;

//! Runtimes with GPUDirect Storage, over the software GPU and the software cuFile.

mod modes;
mod paths;
mod ranges;
mod support;
mod writes;

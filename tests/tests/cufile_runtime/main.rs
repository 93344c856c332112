//! Runtimes with GPUDirect Storage, over the software GPU and the software cuFile.

mod modes;
mod paths;
mod support;
mod writes;

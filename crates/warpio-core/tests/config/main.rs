//! Settings: how they are written, where they come from, and what is said about wrong ones.

mod modes;
mod pool;
mod settings;
mod sizes;

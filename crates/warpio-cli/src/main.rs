//! The `warpio` program.
fn main() {}

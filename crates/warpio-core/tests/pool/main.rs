//! The bounded pool of staging memory: who gets a slot, when, and what happens where there is none.

#[path = "../support/mod.rs"]
mod support;

mod backend;
mod budget;
mod fairness;
mod growth;
mod leaks;
mod near;
mod slots;
mod trim;

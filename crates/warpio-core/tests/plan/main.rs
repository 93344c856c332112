//! Where transfers are cut and joined, as properties.
#![allow(clippy::single_range_in_vec_init, reason = "a list of runs may hold only one")]

mod pack;
mod split;

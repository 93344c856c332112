//! The software cuFile as version 1.11: the same, without the functions that came later.
#![allow(non_snake_case, reason = "the API's names are its interface")]
#![allow(dead_code, reason = "what only newer versions use")]

#[path = "../../cufile/src/mock/mod.rs"]
mod mock;

/// What `cuFileGetVersion` answers: 1.11.
const VERSION: i32 = 1110;

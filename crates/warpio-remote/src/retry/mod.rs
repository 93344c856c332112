//! Whether and when a request is sent again: no clock and no socket here.

mod after;
mod budget;
mod policy;

pub(crate) use after::retry_after;
pub(crate) use budget::Budget;
pub(crate) use policy::{Attempts, Decision, Outlook, Policy};

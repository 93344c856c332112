//! Settings: what they are, where their values come from, and how they are written.
//!
//! `Runtime::builder()` beats `WARPIO_*` in the environment, which beats the defaults of the machine.

mod bytes;
mod duration;
mod http;
mod keys;
mod modes;
mod setting;
mod spec;

pub use bytes::{format_bytes, parse_bytes};
pub use duration::{format_duration, parse_duration};
pub use http::HttpConfig;
pub use keys::{Config, Key, MachineDefaults, Row};
pub use modes::{CompatMode, CuFileApi, DirectIo, EngineChoice, Switch};
pub use setting::{Origin, Setting};
pub use spec::DeviceSpec;

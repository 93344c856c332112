//! Servers on loopback that sources and sinks are tested with. None shares code with the client.

pub mod fault;

//! HTTP/1.1, as far as stores speak it, with bodies that are read from the socket straight to where they belong.
//!
//! A library's client hands bodies out in buffers of its own, and every byte is copied once more. Here the caller's
//! memory goes down to `recv(2)`. What can be decided without a socket is in [`head`], [`framing`] and [`target`].

mod body;
mod client;
mod connection;
mod dial;
mod fault;
mod framing;
mod head;
mod io;
mod pool;
mod proxy;
mod redirect;
mod target;
mod tls;

pub(crate) use body::Body;
pub(crate) use client::{Client, Reply, Request};
pub(crate) use fault::{Fault, FaultKind};
pub(crate) use target::{HttpUrl, decode_text, encode_path};

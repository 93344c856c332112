use std::time::Duration;

use super::duration::{format_duration, parse_duration};
use super::keys::{Key, Row, parse_number};
use super::setting::Setting;
use crate::{Error, ErrorKind, Result};

/// The settings of remote sources and sinks that the environment has a say in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// How often a request is sent at most, until it succeeds.
    pub attempts: Setting<u32>,
    /// Statuses after which a request is sent again.
    pub statuses: Setting<Vec<u16>>,
    /// From the name of a server to a connection that can be used.
    pub connect_timeout: Setting<Duration>,
    /// A connection that carries nothing for so long is given up.
    pub stall_timeout: Setting<Duration>,
    /// A request, its body and its repetitions together.
    pub total_timeout: Setting<Option<Duration>>,
    /// The most connections to one server.
    pub connections: Setting<usize>,
    /// Threads for network work.
    pub threads: Setting<Option<usize>>,
}

const ATTEMPTS: Key = Key {
    name: "http_attempts",
    variable: "WARPIO_HTTP_ATTEMPTS",
    reason: "5: the last is sent about three seconds after the first; progress starts the count anew",
    kvikio: Some("KVIKIO_HTTP_MAX_ATTEMPTS"),
};
const STATUSES: Key = Key {
    name: "http_statuses",
    variable: "WARPIO_HTTP_STATUSES",
    reason: "those that say that it may pass",
    kvikio: Some("KVIKIO_HTTP_STATUS_CODES"),
};
const CONNECT_TIMEOUT: Key = Key {
    name: "http_connect_timeout",
    variable: "WARPIO_HTTP_CONNECT_TIMEOUT",
    reason: "10s: a lost packet or two are made up for, a server that is not there is soon given up",
    kvikio: None,
};
const STALL_TIMEOUT: Key = Key {
    name: "http_stall_timeout",
    variable: "WARPIO_HTTP_STALL_TIMEOUT",
    reason: "30s without a byte: stores think for some seconds at most",
    kvikio: Some("KVIKIO_HTTP_TIMEOUT"),
};
const TOTAL_TIMEOUT: Key = Key {
    name: "http_total_timeout",
    variable: "WARPIO_HTTP_TOTAL_TIMEOUT",
    reason: "none: how long a part takes depends on the line, and a transfer can have a deadline of its own",
    kvikio: None,
};
const CONNECTIONS: Key = Key {
    name: "http_connections",
    variable: "WARPIO_HTTP_CONNECTIONS",
    reason: "64: fewer are used where more bring nothing",
    kvikio: None,
};
const THREADS: Key = Key {
    name: "http_threads",
    variable: "WARPIO_HTTP_THREADS",
    reason: "one per core that the process may use, twelve at most: they fill a PCIe 5 link",
    kvikio: None,
};

pub(super) const KEYS: [Key; 7] =
    [ATTEMPTS, STATUSES, CONNECT_TIMEOUT, STALL_TIMEOUT, TOTAL_TIMEOUT, CONNECTIONS, THREADS];

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            attempts: Setting::default_value(5),
            statuses: Setting::default_value(vec![408, 429, 500, 502, 503, 504]),
            connect_timeout: Setting::default_value(Duration::from_secs(10)),
            stall_timeout: Setting::default_value(Duration::from_secs(30)),
            total_timeout: Setting::default_value(None),
            connections: Setting::default_value(64),
            threads: Setting::default_value(None),
        }
    }
}

impl HttpConfig {
    /// Takes a variable. Whether it is one of these.
    pub(super) fn apply(&mut self, variable: &str, value: &str) -> Result<bool> {
        match variable {
            _ if variable == ATTEMPTS.variable => self.attempts.set_from_environment(parse_number(value)?),
            _ if variable == STATUSES.variable => self.statuses.set_from_environment(parse_statuses(value)?),
            _ if variable == CONNECT_TIMEOUT.variable => {
                self.connect_timeout.set_from_environment(parse_duration(value)?);
            }
            _ if variable == STALL_TIMEOUT.variable => self.stall_timeout.set_from_environment(parse_duration(value)?),
            _ if variable == TOTAL_TIMEOUT.variable => {
                self.total_timeout.set_from_environment(unless("none", value, parse_duration)?);
            }
            _ if variable == CONNECTIONS.variable => self.connections.set_from_environment(parse_number(value)?),
            _ if variable == THREADS.variable => {
                self.threads.set_from_environment(unless("auto", value, parse_number)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn validate(&self) -> Result<()> {
        let check = |ok: bool, row: Row, want: &str| match ok {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::InvalidConfig)
                .with_message(format!("{} ({}) is {}, but must be {want}", row.key.name, row.key.variable, row.value))),
        };
        let [attempts, statuses, connect, stall, total, connections, threads] = self.rows();
        let few = |n: usize| (1..=1024).contains(&n);
        let some = |time: Duration| time > Duration::ZERO;
        check((1..=1000).contains(self.attempts.get()), attempts, "between 1 and 1000")?;
        let errors = self.statuses.get().iter().all(|status| (400..=599).contains(status));
        check(errors, statuses, "statuses between 400 and 599")?;
        check(some(*self.connect_timeout.get()), connect, "longer than nothing")?;
        check(some(*self.stall_timeout.get()), stall, "longer than nothing")?;
        check(self.total_timeout.get().is_none_or(some), total, "longer than nothing, or none")?;
        check(few(*self.connections.get()), connections, "between 1 and 1024")?;
        check(self.threads.get().is_none_or(few), threads, "between 1 and 1024, or auto")
    }

    pub(super) fn rows(&self) -> [Row; 7] {
        let row = |key, value, origin| Row { key, value, origin };
        let statuses: Vec<_> = self.statuses.get().iter().map(u16::to_string).collect();
        let time = |key, setting: &Setting<Duration>| row(key, format_duration(*setting.get()), setting.origin());
        let total = self.total_timeout.get().map_or("none".to_owned(), format_duration);
        let threads = self.threads.get().map_or("auto".to_owned(), |threads| threads.to_string());
        [
            row(ATTEMPTS, self.attempts.get().to_string(), self.attempts.origin()),
            row(STATUSES, statuses.join(","), self.statuses.origin()),
            time(CONNECT_TIMEOUT, &self.connect_timeout),
            time(STALL_TIMEOUT, &self.stall_timeout),
            row(TOTAL_TIMEOUT, total, self.total_timeout.origin()),
            row(CONNECTIONS, self.connections.get().to_string(), self.connections.origin()),
            row(THREADS, threads, self.threads.origin()),
        ]
    }
}

fn unless<T>(word: &str, text: &str, parse: impl FnOnce(&str) -> Result<T>) -> Result<Option<T>> {
    match text.trim().eq_ignore_ascii_case(word) {
        true => Ok(None),
        false => parse(text).map(Some),
    }
}

/// Numbers with commas between them; none at all is a list, too.
fn parse_statuses(text: &str) -> Result<Vec<u16>> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(parse_number).collect()
}

//! The engine that serves files.

use serde_json::{Value, json};
use warpio::config::CompatMode;
use warpio::machine::Machine;
use warpio::{DeviceSpec, Runtime};

use super::table::Table;

/// The engine for what the page cache does not serve.
pub(super) struct Engine {
    /// Its name, or why there is none with these settings.
    pub(super) name: Result<&'static str, String>,
    /// Why it is not io_uring, if it is not.
    why_no_io_uring: Option<String>,
}

impl Engine {
    /// Starts it: what a container allows is known only when it is tried.
    pub(super) fn probe() -> Self {
        // The same engine serves files whichever device they are read to, and host memory is always there.
        // GPUDirect Storage is looked at by itself.
        match Runtime::builder().device(DeviceSpec::Host).compat_mode(CompatMode::On).build() {
            Ok(rt) => Self { name: Ok(rt.engine()), why_no_io_uring: rt.why_no_io_uring().map(str::to_owned) },
            Err(error) => Self { name: Err(error.to_string()), why_no_io_uring: None },
        }
    }

    pub(super) fn io_uring_json(&self, machine: &Machine) -> Value {
        json!({
            "allowed": machine.io_uring_allowed(),
            "policy": machine.io_uring.to_string(),
            "filtered": machine.privileges.filtered,
            "unused_because": self.why_no_io_uring,
        })
    }

    pub(super) fn rows(&self, machine: &Machine, table: &mut Table) {
        let verdict = if machine.io_uring_allowed() { "" } else { "; not for this process" };
        let filter = if machine.privileges.filtered { "; a seccomp filter may refuse it" } else { "" };
        let unused = self.why_no_io_uring.as_ref().map_or(String::new(), |why| format!("; not used: {why}"));
        table.row(["io_uring", &format!("{}{verdict}{filter}{unused}", machine.io_uring)]);
        match &self.name {
            Ok(name) => table.row(["engine", name]),
            Err(why) => table.row(["engine", &format!("none: {why}")]),
        }
    }
}

//! moto: S3 as the authors of a well-used Python library understand it.

use std::process::Command;

use tempfile::TempDir;

use super::process::{Process, find, free_address, missing};

/// A running moto. Every key is accepted.
#[derive(Debug)]
pub struct Moto {
    _process: Process,
    _folder: TempDir,
    endpoint: String,
}

impl Moto {
    /// Starts it, or says that it is not there.
    ///
    /// # Panics
    /// If it is there and does not start.
    pub fn start() -> Option<Self> {
        let Some(program) = find("moto_server", "WARPIO_TEST_MOTO") else {
            missing(
                "moto_server",
                "pip install 'moto[server]', and name it in WARPIO_TEST_MOTO if it is not on the path",
            );
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let address = free_address();
        let mut command = Command::new(program);
        command.arg("-H").arg("127.0.0.1").arg("-p").arg(address.port().to_string());
        let process = Process::start("moto", &mut command, address, folder.path());
        Some(Self { _process: process, _folder: folder, endpoint: format!("http://{address}") })
    }

    /// Its URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

//! Azurite: Azure Blob Storage by its makers, without the cloud.

use std::process::Command;

use tempfile::TempDir;

use super::process::{Process, find, free_address, missing};

/// A running Azurite, with the one account that everybody knows.
#[derive(Debug)]
pub struct Azurite {
    _process: Process,
    _folder: TempDir,
    endpoint: String,
}

impl Azurite {
    /// The account's name.
    pub const ACCOUNT: &str = "devstoreaccount1";
    /// Its key, which is no secret.
    pub const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

    /// Starts it, or says that it is not there.
    ///
    /// # Panics
    /// If it is there and does not start.
    pub fn start() -> Option<Self> {
        let Some(program) = find("azurite-blob", "WARPIO_TEST_AZURITE") else {
            let how = "npm install azurite, and name its azurite-blob in WARPIO_TEST_AZURITE if it is not on the path";
            missing("azurite-blob", how);
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let address = free_address();
        let mut command = Command::new(program);
        command.args(["--blobHost", "127.0.0.1", "--blobPort", &address.port().to_string()]);
        // The library asks for a newer interface than it knows.
        command.args(["--skipApiVersionCheck", "--silent", "--disableTelemetry", "--location"]).arg(folder.path());
        let process = Process::start("azurite", &mut command, address, folder.path());
        let endpoint = format!("http://{address}/{}", Self::ACCOUNT);
        Some(Self { _process: process, _folder: folder, endpoint })
    }

    /// The URL of its account.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

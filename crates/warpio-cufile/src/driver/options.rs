use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use warpio_core::{Error, Result};

use super::parameters::{BoolParameter, Parameter, SizeParameter, TextParameter};
use super::settings::Setting;
use crate::guard::Surroundings;

/// How the driver is opened. What is not set is left to `cufile.json` and the library's defaults.
///
/// ```
/// use warpio_cufile::{BoolParameter, DriverOptions, Setting};
///
/// let options = DriverOptions::new()
///     .setting(Setting::MaxDirectIoSize(16 << 20))
///     .bool_parameter(BoolParameter::UsePciP2pdma, true);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before Driver::open"]
pub struct DriverOptions {
    pub(super) limit: Duration,
    pub(super) surroundings: Option<Surroundings>,
    pub(super) settings: Vec<Setting>,
    pub(super) parameters: Vec<Parameter>,
    pub(super) log_dir: Option<PathBuf>,
    pub(super) wrong: Option<Error>,
}

/// Opening took half a second on a server with one GPU; with many, it takes some.
const LIMIT: Duration = Duration::from_secs(20);

impl Default for DriverOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl DriverOptions {
    /// The library's own settings, and 20 seconds to open.
    pub fn new() -> Self {
        Self {
            limit: LIMIT,
            surroundings: None,
            settings: Vec::new(),
            parameters: Vec::new(),
            log_dir: None,
            wrong: None,
        }
    }

    /// How long opening may take. A thread that hangs longer is left behind.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// What is known of the machine, instead of [what is found](Surroundings::probe).
    pub fn surroundings(mut self, surroundings: Surroundings) -> Self {
        self.surroundings = Some(surroundings);
        self
    }

    /// A setting that every version has.
    pub fn setting(mut self, setting: Setting) -> Self {
        if let Err(error) = setting.check() {
            self.wrong.get_or_insert(error);
        }
        self.settings.push(setting);
        self
    }

    /// A number, for 1.14 and newer.
    pub fn size_parameter(mut self, parameter: SizeParameter, value: usize) -> Self {
        self.parameters.push(Parameter::Size(parameter, value));
        self
    }

    /// A switch, for 1.14 and newer.
    pub fn bool_parameter(mut self, parameter: BoolParameter, value: bool) -> Self {
        self.parameters.push(Parameter::Bool(parameter, value));
        self
    }

    /// A text, for 1.14 and newer.
    pub fn text_parameter(mut self, parameter: TextParameter, value: &str) -> Self {
        match CString::new(value) {
            Ok(value) => self.parameters.push(Parameter::Text(parameter, value)),
            Err(_) => {
                let error = Error::invalid_input(format!("the parameter {parameter:?} has a NUL in it"));
                self.wrong.get_or_insert(error);
            }
        }
        self
    }

    /// Where the library writes `cufile.log`. Without this, its variables and its configuration decide; where they are
    /// silent too, it goes to the folder for temporary files, because the library's own choice is whatever folder the
    /// program was started in.
    pub fn log_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(folder.into());
        self
    }

    /// The folder for the log, if it is ours to choose.
    pub(super) fn log_parameter(&self, surroundings: &Surroundings) -> Option<Parameter> {
        let said = || std::env::var_os("CUFILE_LOGFILE_PATH").is_some() || surroundings.configuration.is_some();
        let folder = match &self.log_dir {
            Some(folder) => folder.clone(),
            None if said() => return None,
            None => std::env::temp_dir(),
        };
        let folder = CString::new(folder.as_os_str().as_bytes()).ok()?;
        Some(Parameter::Text(TextParameter::LogDir, folder))
    }

    pub(super) fn check(&self) -> Result<()> {
        self.wrong.clone().map_or(Ok(()), Err)
    }
}

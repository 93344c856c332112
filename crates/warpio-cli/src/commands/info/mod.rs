//! `warpio info`: what there is, and what is set.

mod cufile;
mod devices;
mod engine;
mod location;
mod machine;
mod table;

use std::fmt;

use serde_json::{Value, json};
use warpio::Runtime;
use warpio::config::Row;
use warpio::machine::Machine;

use self::cufile::CuFile;
use self::devices::Devices;
use self::engine::Engine;
use self::location::Location;
use self::table::Table;
use crate::args::InfoArgs;
use crate::failure::Failure;
use crate::output::{Output, Report};

pub(crate) fn run(args: &InfoArgs, output: &Output) -> Result<(), Failure> {
    let config = Runtime::builder().config()?;
    let location = args.path.as_deref().map(Location::probe).transpose()?;
    let engine = Engine::probe();
    let (devices, settings) = (Devices::probe(&config), config.rows());
    let cufile = CuFile::probe(&config, devices.chosen.as_ref().ok());
    output.print(&Info { machine: Machine::probe(), engine, devices, cufile, settings, location })
}

struct Info {
    machine: Machine,
    engine: Engine,
    devices: Devices,
    cufile: CuFile,
    settings: Vec<Row>,
    location: Option<Location>,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

impl Report for Info {
    fn json(&self) -> Value {
        let mut object = machine::json(&self.machine);
        object.insert("version".to_owned(), json!(VERSION));
        object.insert("engine".to_owned(), json!(self.engine.name.as_ref().ok()));
        object.insert("io_uring".to_owned(), self.engine.io_uring_json(&self.machine));
        object.insert("device".to_owned(), json!(self.devices.chosen_name()));
        object.insert("devices".to_owned(), self.devices.json());
        object.insert("cuda".to_owned(), self.devices.cuda_json());
        object.insert("cufile".to_owned(), self.cufile.json());
        object.insert("config".to_owned(), self.settings.iter().map(setting).collect());
        if let Some(location) = &self.location {
            object.insert("path".to_owned(), location.json());
        }
        Value::Object(object)
    }
}

fn setting(row: &Row) -> Value {
    json!({
        "key": row.key.name,
        "variable": row.key.variable,
        "value": row.value,
        "origin": row.origin.to_string(),
        "reason": row.key.reason,
        "kvikio": row.key.kvikio,
    })
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut about = Table::new();
        about.row(["warpio", VERSION]);
        machine::rows(&self.machine, &mut about);
        self.engine.rows(&self.machine, &mut about);
        self.devices.rows(&mut about);
        self.cufile.rows(&mut about);
        writeln!(f, "{about}")?;

        if let Some(location) = &self.location {
            let mut about = Table::new();
            location.rows(&mut about);
            writeln!(f, "\n{about}")?;
        }

        let mut settings = Table::new();
        settings.row(["SETTING", "VALUE", "FROM", "VARIABLE", "WHY THIS DEFAULT"]);
        for Row { key, value, origin } in &self.settings {
            settings.row([key.name, value, &origin.to_string(), key.variable, key.reason]);
        }
        write!(f, "\n{settings}")
    }
}

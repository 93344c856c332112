//! The record: the table of scenarios in `docs/cufile.md`.

use std::path::{Path, PathBuf};

/// Where the page is on a machine on which the tests were not built.
const RECORD: &str = "WARPIO_TEST_RECORD";

pub(crate) struct Record(Vec<Row>);

struct Row {
    name: String,
    /// The real library over the software GPU.
    real: String,
    mock: String,
    /// The real library on a GPU.
    gpu: String,
}

impl Record {
    pub(crate) fn read() -> Self {
        let here = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cufile.md");
        let page = std::env::var_os(RECORD).map_or_else(here, PathBuf::from);
        let page = std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let rows = page
            .lines()
            .skip_while(|line| !line.starts_with("| scenario |"))
            .skip(2)
            .take_while(|line| line.starts_with('|'))
            .map(Row::parse);
        Self(rows.collect())
    }

    pub(crate) fn of(&self, name: &str, column: &str) -> Option<&str> {
        let row = self.0.iter().find(|row| row.name == name)?;
        Some(match column {
            "real" => &row.real,
            "mock" => &row.mock,
            _ => &row.gpu,
        })
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|row| row.name.as_str()).collect()
    }

    pub(crate) fn differences(&self) -> Vec<&str> {
        self.0.iter().filter(|row| row.real != NOT_HERE && row.real != row.mock).map(|row| row.name.as_str()).collect()
    }
}

/// What stands for an outcome that cannot be: the library's stream API needs kernels, which the software GPU does not
/// have.
pub(crate) const NOT_HERE: &str = "needs a GPU";

impl Row {
    /// `| name | mock | real | gpu |`, where those that answer as the mock does are `same`.
    fn parse(line: &str) -> Self {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        let [name, mock, real, gpu] = cells.try_into().unwrap_or_else(|_| panic!("four cells: {line}"));
        let outcome = |cell: String| if cell == "same" { mock.clone() } else { cell };
        Self { name, real: outcome(real), gpu: outcome(gpu), mock }
    }
}

//! The record: the table of scenarios in `docs/cufile.md`.

use std::path::Path;

pub(crate) struct Record(Vec<Row>);

struct Row {
    name: String,
    real: String,
    mock: String,
}

impl Record {
    pub(crate) fn read() -> Self {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cufile.md");
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
        Some(if column == "real" { &row.real } else { &row.mock })
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.0.iter().map(|row| row.name.as_str()).collect()
    }

    pub(crate) fn differences(&self) -> Vec<&str> {
        self.0.iter().filter(|row| row.real != row.mock).map(|row| row.name.as_str()).collect()
    }
}

impl Row {
    /// `| name | real | mock |`, where a mock that answers the same is `same`.
    fn parse(line: &str) -> Self {
        let cells: Vec<_> =
            line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect();
        let [name, real, mock] = cells.try_into().unwrap_or_else(|_| panic!("three cells: {line}"));
        let mock = if mock == "same" { real.clone() } else { mock };
        Self { name, real, mock }
    }
}

use std::fmt;

/// Rows of text, printed in columns.
pub(super) struct Table(Vec<Vec<String>>);

impl Table {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.0.push(cells.into_iter().map(Into::into).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width =
            |column: usize| self.0.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
        for (n, row) in self.0.iter().enumerate() {
            if n > 0 {
                writeln!(f)?;
            }
            for (column, cell) in row.iter().enumerate() {
                match column + 1 < row.len() {
                    true => write!(f, "{cell:<width$}  ", width = width(column).unwrap_or(0))?,
                    false => f.write_str(cell)?,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_the_last_is_not_padded() {
        let mut table = Table::new();
        table.row(["a", "b", "c"]);
        table.row(["lönger", "", "x"]);
        assert_eq!(table.to_string(), "a       b  c\nlönger     x");
        assert_eq!(Table::new().to_string(), "");
    }
}

//! Rows of JSON, one a line.

use serde_json::{Map, Value, json};

use crate::clock::{Cost, median};

/// Prints one row.
pub fn emit(row: Value) {
    println!("{row}");
}

/// The rounds of one job that moves the same bytes each time.
#[derive(Clone, Debug, Default)]
pub struct Rounds {
    costs: Vec<Cost>,
}

impl Rounds {
    /// Adds a round.
    pub fn add(&mut self, cost: Cost) {
        self.costs.push(cost);
    }

    /// Adds the rounds of `more`.
    pub fn extend(&mut self, more: Self) {
        self.costs.extend(more.costs);
    }

    /// The best round's speed, in GB/s.
    pub fn best_gb_per_s(&self, bytes: u64) -> f64 {
        self.gb_per_s(bytes).into_iter().fold(0.0, f64::max)
    }

    /// The speed of each round, in GB/s.
    pub fn gb_per_s(&self, bytes: u64) -> Vec<f64> {
        self.costs.iter().map(|cost| bytes as f64 / cost.seconds / 1e9).collect()
    }

    /// The median round's speed, in GB/s.
    pub fn median_gb_per_s(&self, bytes: u64) -> f64 {
        median(&mut self.gb_per_s(bytes))
    }

    /// The processor seconds per GB of the best round.
    pub fn best_cpu_s_per_gb(&self, bytes: u64) -> f64 {
        let best = self.costs.iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        best.map_or(f64::NAN, |cost| cost.cpu_seconds / (bytes as f64 / 1e9))
    }

    /// The processor seconds per GB of the median round.
    pub fn median_cpu_s_per_gb(&self, bytes: u64) -> f64 {
        median(&mut self.costs.iter().map(|cost| cost.cpu_seconds / (bytes as f64 / 1e9)).collect::<Vec<_>>())
    }

    /// A row about `job`: best and median speed in GB/s, and the processor seconds per GB of the median round and of
    /// the best one.
    pub fn row(&self, job: &str, bytes: u64, extra: Value) -> Value {
        let mut row = Map::new();
        row.insert("job".into(), json!(job));
        row.insert("bytes".into(), json!(bytes));
        row.insert("rounds".into(), json!(self.costs.len()));
        row.insert("gb_per_s".into(), json!(round(self.best_gb_per_s(bytes))));
        row.insert("median_gb_per_s".into(), json!(round(self.median_gb_per_s(bytes))));
        row.insert("cpu_s_per_gb".into(), json!(round(self.best_cpu_s_per_gb(bytes))));
        row.insert("median_cpu_s_per_gb".into(), json!(round(self.median_cpu_s_per_gb(bytes))));
        if let Value::Object(extra) = extra {
            row.extend(extra);
        }
        Value::Object(row)
    }
}

/// The median of the ratios of each turn: of what changes from turn to turn for both, little is left in it. NaN for none.
pub fn median_of_turns(ours: &[f64], theirs: &[f64]) -> f64 {
    median(&mut ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>())
}

/// Four digits are more than any of these measurements has.
pub fn round(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

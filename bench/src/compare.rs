//! Several ways to do the same work, in turn: the native one, and the others as parts of its speed.

use crate::figure::{Figure, Judged};
use crate::tools::{attempt, median, progress, succeeds};
use std::collections::BTreeMap;

/// A way to do the work: what precedes the command, and the directory that it works on.
pub struct Way {
    /// The column of the table.
    pub column: &'static str,
    /// Words before the command.
    pub before: String,
    /// The directory.
    pub directory: String,
}

impl Way {
    /// The command line for `program WORKLOAD DIRECTORY FORM`.
    fn line(&self, program: &str, workload: &str, form: &str) -> String {
        format!(
            "{} {program} {workload} {} {form}",
            self.before, self.directory
        )
    }

    /// Whether it works on this machine at all; says so if not.
    pub fn works(&self) -> bool {
        let works = succeeds(&format!(
            "{} sh -c 'echo x > {1}/probe && rm {1}/probe'",
            self.before, self.directory
        ));
        if !works {
            eprintln!("not measured, does not work here: {}", self.before);
        }
        works
    }
}

/// What was measured under one name.
pub struct Row {
    /// The name.
    pub name: String,
    /// The native figures, one for each round.
    pub native: Vec<f64>,
    /// For each way but the native one: its column and its figures.
    pub others: Vec<(&'static str, Vec<f64>)>,
}

impl Row {
    /// The figures of this row: `judged` says what is asked of a column.
    pub fn figures(
        &self,
        group: &'static str,
        what: &str,
        unit: &'static str,
        judged: impl Fn(&str) -> Judged,
    ) -> Vec<Figure> {
        let native = median(self.native.clone());
        self.others
            .iter()
            .map(|(column, values)| {
                let mut speeds: Vec<f64> = self
                    .native
                    .iter()
                    .zip(values)
                    .map(|(native, ours)| native / ours)
                    .collect();
                speeds.sort_by(f64::total_cmp);
                let at = |part: f64| speeds[((speeds.len() - 1) as f64 * part).round() as usize];
                let (ours, spread) = match judged(column) {
                    Judged::Figure(_) | Judged::Stated => (median(values.clone()), None),
                    _ => (native / at(0.5), Some((at(0.25), at(0.75)))),
                };
                let figure = Figure::new(group, what, Some(native), ours, unit, judged(column));
                Figure {
                    spread,
                    ..figure.column(column)
                }
            })
            .collect()
    }
}

/// Runs `program WORKLOAD DIRECTORY FORM` in every way, `rounds` times in turn, each round from
/// another way on. A way that fails is left out, and its failure printed; without the native way
/// there is nothing.
pub fn compare(ways: &[Way], program: &str, workload: &str, form: &str, rounds: usize) -> Vec<Row> {
    let mut taken: Vec<Option<BTreeMap<String, Vec<f64>>>> =
        vec![Some(BTreeMap::new()); ways.len()];
    let mut order: Vec<String> = Vec::new();
    for round in 0..rounds {
        for step in 0..ways.len() {
            let number = (round + step) % ways.len();
            let Some(values) = &mut taken[number] else {
                continue;
            };
            progress(&format!(
                "{workload} {form}: {}, {} of {rounds}",
                ways[number].column,
                round + 1
            ));
            match attempt(&ways[number].line(program, workload, form)) {
                Ok(said) => {
                    for line in said.lines() {
                        let (name, value) = line.split_once(' ').expect("a name and a number");
                        if !order.iter().any(|known| known == name) {
                            order.push(name.to_owned());
                        }
                        let value = value.parse().expect("a number");
                        values.entry(name.to_owned()).or_default().push(value);
                    }
                }
                Err(failure) => {
                    eprintln!("left out: {failure}");
                    taken[number] = None;
                }
            }
        }
    }
    progress("");
    let Some(native) = taken[0].take() else {
        return Vec::new();
    };
    let others = |name: &str| {
        ways.iter()
            .zip(&taken)
            .filter_map(|(way, values)| Some((way.column, values.as_ref()?[name].clone())))
            .collect()
    };
    order
        .into_iter()
        .map(|name| Row {
            native: native[&name].clone(),
            others: others(&name),
            name,
        })
        .collect()
}

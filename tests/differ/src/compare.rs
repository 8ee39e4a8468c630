//! Two runs of one program, line by line.

use crate::accept::{
    ends, is_shifted_number, lists_alike, refused_alike, shifts_numbers, stores_clear_set_id,
    times_alike, without_accepted, without_set_id,
};
use crate::mount::Mount;
use crate::program::Program;
use crate::world::Finished;
use std::fmt::Write;

/// The first line in which two runs differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Operation of the step, `=` in the listing at the end, or `end` where only the way it ended
    /// differs.
    pub operation: String,
    /// The line natively.
    pub native: String,
    /// The line of the mount under test.
    pub ours: String,
}

impl Difference {
    /// What two failures with the same cause have in common, as far as can be seen: operation and
    /// results without numbers.
    pub fn signature(&self) -> String {
        let shape = |line: &str| -> String {
            line.split(' ')
                .skip(1)
                .filter(|word| !word.starts_with('='))
                .map(|word| {
                    word.chars()
                        .filter(|letter| !letter.is_ascii_digit())
                        .take(12)
                        .collect::<String>()
                })
                .take(3)
                .collect::<Vec<_>>()
                .join(" ")
        };
        if self.operation == "=" {
            return "= listing at the end".to_owned();
        }
        format!(
            "{} [{}] [{}]",
            self.operation,
            shape(&self.native),
            shape(&self.ours)
        )
    }
}

/// The first difference, or none.
pub fn compare(
    program: &Program,
    native: &Finished,
    ours: &Finished,
    mount: &Mount,
) -> Option<Difference> {
    let listed = |tree| {
        if *mount != Mount::Native && mount.in_tree() {
            tree
        } else {
            ""
        }
    };
    let shifted = shifts_numbers(program, mount);
    let cleared = stores_clear_set_id(program, mount);
    let mut left = native
        .output
        .lines()
        .chain(listed(native.tree.as_str()).lines());
    let mut right = ours
        .output
        .lines()
        .chain(listed(ours.tree.as_str()).lines());
    loop {
        let (a, b) = match (left.next(), right.next()) {
            (None, None) => break,
            (a, b) => (a.unwrap_or("(nothing)"), b.unwrap_or("(nothing)")),
        };
        let shown = |line: &str| {
            let line = without_accepted(line, mount);
            let words = line.split(' ');
            let words = words.filter(|word| !shifted || !word.starts_with("fd="));
            let words = words.map(|word| match cleared {
                true => without_set_id(word, ""),
                false => word.to_owned(),
            });
            words.collect::<Vec<_>>().join(" ")
        };
        if shown(a) != shown(b) {
            let number = |line: &str| -> Option<usize> { line.split(' ').next()?.parse().ok() };
            let step = number(a)
                .or(number(b))
                .and_then(|number| program.steps.get(number));
            let alike = |step| {
                lists_alike(program, step, mount, (a, b))
                    || refused_alike(step, mount, (a, b))
                    || times_alike(step, mount, (a, b))
            };
            if step.is_some_and(alike) {
                continue;
            }
            let is_shifted = step.is_some_and(|step| is_shifted_number(step, (a, b)));
            if shifted && is_shifted || step.is_some_and(|step| ends(program, step, mount, b)) {
                return None;
            }
            let operation = step.map_or("=", |step| step.operation());
            return Some(Difference {
                operation: operation.to_owned(),
                native: a.to_owned(),
                ours: b.to_owned(),
            });
        }
    }
    (native.status != ours.status).then(|| Difference {
        operation: "end".to_owned(),
        native: native.status.clone(),
        ours: ours.status.clone(),
    })
}

/// Classes are numbered in the order in which files are seen, so that one step more or less shifts
/// them all.
fn without_identity(line: &str) -> String {
    line.split(' ')
        .filter(|word| !word.starts_with("id="))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The program with both results below each step, for people; lines that differ are marked.
pub fn report(program: &Program, native: &Finished, ours: &Finished, mount: &Mount) -> String {
    let mut text = String::new();
    let rest = |line: &str| line.split_once(' ').map_or("", |(_, rest)| rest).to_owned();
    let find = |finished: &Finished, number: usize| -> Option<String> {
        finished
            .output
            .lines()
            .find(|line| line.split(' ').next() == Some(number.to_string().as_str()))
            .map(str::to_owned)
    };
    for (number, step) in program.steps.iter().enumerate() {
        let a = find(native, number).unwrap_or_default();
        let b = find(ours, number).unwrap_or_default();
        if without_accepted(&a, mount) == without_accepted(&b, mount) {
            let _ = writeln!(text, "  {step:<50} -> {}", rest(&a));
        } else {
            let _ = writeln!(
                text,
                "! {step}\n      native: {}\n      ours:   {}",
                rest(&a),
                rest(&b)
            );
        }
    }
    let others = |finished: &Finished| -> Vec<String> {
        let listed = if *mount != Mount::Native && mount.in_tree() {
            finished.tree.as_str()
        } else {
            ""
        };
        finished
            .output
            .lines()
            .chain(listed.lines())
            .filter(|line| !line.starts_with(|first: char| first.is_ascii_digit()))
            .map(|line| without_identity(&without_accepted(line, mount)))
            .collect()
    };
    let (a, b) = (others(native), others(ours));
    for line in a.iter().filter(|line| !b.contains(line)) {
        let _ = writeln!(text, "! native only: {line}");
    }
    for line in b.iter().filter(|line| !a.contains(line)) {
        let _ = writeln!(text, "! ours only:   {line}");
    }
    if native.status != ours.status {
        let _ = writeln!(
            text,
            "! native: {}\n! ours:   {}",
            native.status, ours.status
        );
    }
    if !ours.errors.is_empty() {
        let _ = writeln!(text, "standard error: {}", ours.errors.trim_end());
    }
    text
}

//! `culvert doctor`: what works on this machine, and how a program would be intercepted.

mod advice;
mod code;
pub mod json;
mod kernel;
mod libraries;
mod library;
mod machine;
mod program;
mod servers;

use crate::failure::Failure;
use std::ffi::OsString;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Works, with a limit.
    Limited,
    /// `culvert run` cannot work like this.
    Bad,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Limited => "limited",
            Self::Bad => "BAD",
        }
    }
}

/// One check of the machine.
#[derive(Debug)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What follows from it; empty when nothing does.
    pub consequence: String,
}

fn good(name: &'static str, found: impl Into<String>) -> Check {
    Check {
        name,
        verdict: Verdict::Good,
        found: found.into(),
        consequence: String::new(),
    }
}

fn limited(name: &'static str, found: impl Into<String>, consequence: &str) -> Check {
    Check {
        verdict: Verdict::Limited,
        consequence: consequence.into(),
        ..good(name, found)
    }
}

fn bad(name: &'static str, found: impl Into<String>, consequence: &str) -> Check {
    Check {
        verdict: Verdict::Bad,
        ..limited(name, found, consequence)
    }
}

/// Prints the report; the exit status: 0, or 1 when `culvert run` would not work.
pub fn doctor(command: &[OsString], json: bool) -> Result<u8, Failure> {
    // One that is not trusted is ignored by what is started here, too; this says so.
    crate::inherited::inherited()?;
    if let Some(library) = command
        .first()
        .map_or(Ok(None), |name| library::examine(name))?
    {
        let report = json::Value::Object(vec![("library", library.to_json())]);
        let text = if json {
            format!("{report}\n")
        } else {
            library.to_string()
        };
        crate::print(&text)?;
        return Ok(0);
    }
    let program = match command.first() {
        Some(name) => Some(program::examine(name)?),
        None => None,
    };
    let mut checks = machine::checks();
    checks.extend(code::checks());
    checks.extend(kernel::checks());
    checks.extend(servers::servers());
    let bad = checks.iter().any(|check| check.verdict == Verdict::Bad)
        || program
            .as_ref()
            .is_some_and(|program| program.refusal.is_some());
    let text = if json {
        let machine = checks.iter().map(Check::to_json).collect();
        let mut report = vec![("machine", json::Value::List(machine))];
        report.extend(
            program
                .as_ref()
                .map(|program| ("program", program.to_json())),
        );
        format!("{}\n", json::Value::Object(report))
    } else {
        match &program {
            None => table(&checks),
            Some(program) => {
                let odd: Vec<Check> = checks
                    .into_iter()
                    .filter(|check| check.verdict == Verdict::Bad)
                    .collect();
                format!("{program}{}", table(&odd))
            }
        }
    };
    crate::print(&text)?;
    Ok(u8::from(bad))
}

impl Check {
    fn to_json(&self) -> json::Value {
        json::Value::Object(vec![
            ("name", self.name.into()),
            ("verdict", self.verdict.word().to_lowercase().into()),
            ("found", self.found.as_str().into()),
            ("consequence", self.consequence.as_str().into()),
        ])
    }
}

/// A line for each check, and under it what follows.
fn table(checks: &[Check]) -> String {
    let width = checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        text.push_str(&format!(
            "{:<8} {:<width$}  {}\n",
            check.verdict.word(),
            check.name,
            check.found
        ));
        if !check.consequence.is_empty() {
            text.push_str(&format!("         {:<width$}  {}\n", "", check.consequence));
        }
    }
    text
}

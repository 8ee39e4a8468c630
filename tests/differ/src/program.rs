//! Programs and their text.

use std::fmt;
use std::str::FromStr;

/// One step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Who does it.
    pub actor: u8,
    /// The operation and what it works on.
    pub words: Vec<String>,
}

impl Step {
    /// The step of `actor` that `text` describes.
    pub fn new(actor: u8, text: &str) -> Self {
        Self {
            actor,
            words: text.split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// The operation.
    pub fn operation(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.actor, self.words.join(" "))
    }
}

/// A program: what is done, by whom, in which order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    /// Comment lines at its head, without the `#`.
    pub comments: Vec<String>,
    /// Whether the clock ticks between steps, so that file times can be compared.
    pub ticks: bool,
    /// Whether it is run as an ordinary user where the tests run as root.
    pub nobody: bool,
    /// The steps in their order.
    pub steps: Vec<Step>,
}

impl fmt::Display for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for comment in &self.comments {
            writeln!(formatter, "#{comment}")?;
        }
        if self.ticks {
            writeln!(formatter, "#! ticks")?;
        }
        if self.nobody {
            writeln!(formatter, "#! user nobody")?;
        }
        for step in &self.steps {
            writeln!(formatter, "{step}")?;
        }
        Ok(())
    }
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut program = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            match line.strip_prefix('#') {
                Some("! ticks") => program.ticks = true,
                Some("! user nobody") => program.nobody = true,
                Some(comment) => program.comments.push(comment.to_owned()),
                None if line.is_empty() => {}
                None => {
                    let (actor, rest) = line.split_once(' ').unwrap_or((line, ""));
                    let actor = actor
                        .parse()
                        .ok()
                        .filter(|actor| *actor < 8)
                        .ok_or_else(|| {
                            format!("line {}: an actor is a number below 8: {line}", index + 1)
                        })?;
                    let step = Step::new(actor, rest);
                    if step.words.is_empty() {
                        return Err(format!("line {}: no operation: {line}", index + 1));
                    }
                    program.steps.push(step);
                }
            }
        }
        Ok(program)
    }
}

//! The layer `fault`: a file system that fails, waits, does half of what it was asked, or takes its
//! process with it, by rules.
//!
//! ```text
//! rule (text) -> Rule: which operations, on which paths, which of them, what then
//! operation -> FaultFs, FaultFile -> Rules::meet -> effect, or on to what lies below
//! ```
//!
//! Without a rule that names an operation nothing is changed in it: no path is looked up, nothing
//! counted.

mod counters;
mod effect;
mod file;
mod filesystem;
mod operation;
mod rule;
mod rules;
#[cfg(test)]
mod tests;

pub use crate::glob::matches;
use crate::option_table::option_table;
use crate::{DriverInfo, Environment, invalid_option};
use alloc::{boxed::Box, format, string::ToString, vec::Vec};
use counters::Counters;
use culvert::{Error, FileSystem, Layered, Result, mount::Options};
use filesystem::FaultFs;
use rule::Rule;
use rules::Rules;

/// What `culvert drivers fault` shows.
pub const INFO: DriverInfo = DriverInfo {
    name: "fault",
    summary: "errors, delays, short reads and writes, crashes: a layer for testing programs",
    options: option_table![
        (
            "rule",
            "WORD+WORD...",
            "operations (read, write, lookup, ..., any), path=GLOB, offset=BYTES; \
                after=N, every=N, times=N, probability=P; \
                      errno=NAME, delay=TIME, until=FIFO, short=BYTES|random, \
                      action=crash|panic|abort|loop; may be given again"
        ),
        (
            "seed",
            "N",
            "of the generator behind probability and short=random (default 0)"
        ),
        (
            "count",
            "process|run",
            "whether each process counts its own operations (default) or all of a run \
                count together"
        ),
    ],
};

/// As many rules as one layer may have: a set of them is a word.
const RULES_MAX: usize = 64;

/// The options of one layer, checked.
#[derive(Default)]
struct Parsed {
    rules: Vec<Rule>,
    seed: u64,
    count: Count,
}

/// Who counts together.
#[derive(Clone, Default, PartialEq, Eq)]
enum Count {
    /// Each process, from the moment it first uses the mount.
    #[default]
    Process,
    /// All processes of the run; where is not known yet.
    Run,
    /// In this file.
    File(Vec<u8>),
}

fn parse(options: &Options) -> Result<Parsed> {
    let mut parsed = Parsed::default();
    for (name, value) in options {
        let wrong = |why: &str| invalid_option(&format!("fault.{name}"), value, why);
        match name.as_str() {
            "rule" if parsed.rules.len() == RULES_MAX => return Err(wrong("64 rules are enough")),
            "rule" => parsed
                .rules
                .push(Rule::parse(value).map_err(|why| wrong(&why))?),
            "seed" => {
                parsed.seed = rule::number(value).ok_or_else(|| wrong("a number is needed"))?;
            }
            _ => {
                parsed.count = match &value[..] {
                    b"process" => Count::Process,
                    b"run" => Count::Run,
                    [b'/', ..] => Count::File(value.clone()),
                    _ => return Err(wrong("process or run is needed")),
                }
            }
        }
    }
    Ok(parsed)
}

/// Checks the options in the launcher. A count of the whole run gets its file, whose path travels
/// in place of the word.
pub fn prepare(mut options: Options, environment: &Environment<'_>) -> Result<Options> {
    let parsed = parse(&options)?;
    let wrong = |value: &[u8], why: &str| invalid_option("fault.count", value, why);
    match parsed.count {
        Count::Process => {}
        Count::File(path) => return Err(wrong(&path, "process or run is needed")),
        Count::Run => {
            let directory = environment
                .run_directory
                .ok_or_else(|| wrong(b"run", "there is no run directory"))?;
            let path = counters::create(directory, parsed.rules.len())
                .map_err(|error| wrong(b"run", &error.to_string()))?;
            options.retain(|(name, _)| name != "count");
            options.push(("count".into(), path));
        }
    }
    Ok(options)
}

/// Whether there is no rule.
pub fn touches_nothing(options: &Options) -> bool {
    options.iter().all(|(name, _)| name != "rule")
}

/// Puts the layer over `below`.
pub fn open(
    options: &Options,
    environment: &Environment<'_>,
    below: Box<dyn FileSystem>,
) -> Result<Box<dyn FileSystem>> {
    let parsed = parse(options)?;
    let counters = match parsed.count {
        Count::Process | Count::Run => Counters::own(parsed.rules.len()),
        Count::File(path) => Counters::shared(&path, parsed.rules.len())
            .map_err(|errno| Error::from(errno).within("the counters"))?,
    };
    let rules = Rules::new(parsed.rules, parsed.seed, counters, environment.interrupted);
    Ok(Box::new(Layered(FaultFs::new(
        below,
        rules,
        environment.keeper,
    ))))
}

//! The words of `culvert extend`.

use super::Command;
use crate::extend::Extend;
use crate::failure::Failure;
use lexopt::Arg::{Long, Short};
use std::path::PathBuf;

/// What `culvert extend --help` says.
pub const HELP: &str = "\
Usage: culvert extend [--allow FILE] [--programs N] [--memory MIB]

Loads extensions (-o extend=) for kernel mounts of ordinary users, who may not
by themselves. It is root's, wants the module culvert-fuse-ext, listens at
/run/culvert/extend, and stays in the foreground. The mount must be the user's,
nosuid and nodev, and the object a ready part or one of the list.

      --allow FILE   the list (/etc/culvert/extensions): lines of sha256sum(1),
                     root's, read at each request
      --programs N   mounts with extensions that a user has at once (16)
      --memory MIB   memory that tables of a user take together (256)

  sha256sum mine.o >> /etc/culvert/extensions
  culvert extend
";

/// Reads what follows `extend`.
pub fn extend(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let bad =
        |error: lexopt::Error| Failure::new(error.to_string()).advice("try: culvert extend --help");
    let mut wanted = Extend::default();
    while let Some(argument) = parser.next().map_err(bad)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(HELP.into())),
            Long("allow") => wanted.list = PathBuf::from(parser.value().map_err(bad)?),
            Long("programs") => {
                wanted.limits.programs = number(parser, "--programs", 65_536)? as usize;
            }
            Long("memory") => wanted.limits.memory = number(parser, "--memory", 1 << 20)? << 20,
            other => return Err(bad(other.unexpected())),
        }
    }
    Ok(Command::Extend(wanted))
}

fn number(parser: &mut lexopt::Parser, name: &str, most: u64) -> Result<u64, Failure> {
    let wrong = |text: String| Failure::new(text).advice("try: culvert extend --help");
    let text = parser.value().map_err(|error| wrong(error.to_string()))?;
    let number = text.to_str().and_then(|text| text.parse().ok());
    number
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| wrong(format!("{name} wants a number from 1 to {most}")))
}

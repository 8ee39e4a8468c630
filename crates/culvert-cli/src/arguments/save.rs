//! The words of `culvert save`.

use super::Command;
use crate::failure::Failure;
use crate::save::{After, Save};
use lexopt::Arg::{Long, Short, Value};

/// What `culvert save --help` says.
pub const HELP: &str = "\
Usage: culvert save DIRECTORY ARCHIVE

Makes an archive of what is in DIRECTORY, a mount of the run or of the kernel's
or any other: a tar, by tar(1), or a zip. An archive that is there is replaced
by one of its kind when the new one is complete; else the name says which: .tar,
.tar.gz, .tar.zst, .tar.xz, .tar.bz2, .tar.lz, .tar.lzma, .tar.Z, .zip. Whoever
is killed leaves the old or the new one.

An archive with the option save is saved when the command has ended:

  culvert run -v site.tar.gz:/tmp/site:save -- vi /tmp/site/index.html
";

/// Reads what follows `save`.
pub fn save(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let bad =
        |error: lexopt::Error| Failure::new(error.to_string()).advice("try: culvert save --help");
    let mut words = Vec::new();
    while let Some(argument) = parser.next().map_err(bad)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(HELP.into())),
            Value(word) if words.len() < 2 => words.push(word),
            other => return Err(bad(other.unexpected())),
        }
    }
    let mut words = words.into_iter();
    match (words.next(), words.next()) {
        (Some(directory), Some(archive)) => Ok(Command::Save(Save {
            directory: directory.into(),
            archive: archive.into(),
        })),
        _ => Err(Failure::new("a directory and an archive are needed")
            .advice("try: culvert save --help")),
    }
}

/// Reads what follows [`crate::save::AFTER`].
pub fn after(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let words = parser.raw_args();
    let words = words.map_err(|error| Failure::new(error.to_string()))?;
    let mut words = words.collect::<Vec<_>>().into_iter();
    let (directory, archive, kept) = (words.next(), words.next(), words.next());
    let command: Vec<_> = words.collect();
    match (directory, archive, kept) {
        (Some(directory), Some(archive), Some(kept)) if !command.is_empty() => {
            Ok(Command::SaveAfter(After {
                save: Save {
                    directory: directory.into(),
                    archive: archive.into(),
                },
                kept: kept.into(),
                command,
            }))
        }
        _ => Err(Failure::new(
            "a directory, an archive, a link and a command are needed",
        )),
    }
}

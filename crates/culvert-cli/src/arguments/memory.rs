//! The words of `culvert memory`.

use super::Command;
use crate::failure::Failure;
use crate::memory::Memory;
use lexopt::Arg::{Long, Short, Value};

/// What `culvert memory --help` says.
pub const HELP: &str = "\
Usage: culvert memory regions
       culvert memory regions MEMORY [PATH]

Says where the bytes of file systems in memory lie. MEMORY is memory:NAME, or
the path of a shared file, which the first form lists for all of yours.

  regions  print which bytes of the file PATH, a path within the file system,
           lie in which file, and where there: offset, length, offset in the
           file, file. Without PATH, the files that the file system consists of

A program asks for its own files by the functions of culvert/memory.h, which
also give the addresses.

  culvert memory regions memory:build /out/checkpoint.7
";

/// Reads what follows `memory`.
pub fn memory(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let bad =
        |error: lexopt::Error| Failure::new(error.to_string()).advice("try: culvert memory --help");
    let mut words = Vec::new();
    while let Some(argument) = parser.next().map_err(bad)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(HELP.into())),
            Value(word) if words.len() < 3 => words.push(word),
            other => return Err(bad(other.unexpected())),
        }
    }
    let mut words = words.into_iter();
    let said = match words.next() {
        Some(word) if word == "regions" => None,
        Some(word) => Some(format!("memory has no command \"{}\"", word.display())),
        None => Some("no command was given".into()),
    };
    if let Some(text) = said {
        return Err(Failure::new(text).advice("try: culvert memory --help"));
    }
    Ok(Command::Memory(Memory {
        memory: words.next(),
        path: words.next(),
    }))
}

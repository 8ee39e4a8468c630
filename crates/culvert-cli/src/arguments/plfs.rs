//! The words of `culvert plfs`.

use super::Command;
use crate::failure::Failure;
use crate::plfs::{Plfs, What};
use lexopt::Arg::{Long, Short, Value};
use std::path::PathBuf;

/// What `culvert plfs --help` says.
pub const HELP: &str = "\
Usage: culvert plfs map [--plot FILE] CONTAINER
       culvert plfs query [--at OFFSET] CONTAINER
       culvert plfs flatten|recover|check|version CONTAINER
       culvert plfs ls DIRECTORY

Looks at PLFS containers: files of the type plfs, which are directories on a
back end. CONTAINER is such a directory, DIRECTORY one that holds them.

  map      print which bytes of the file are where
      --plot FILE  draw its writes instead, over time and offset (SVG)
  query    print where its bytes lie
      --at OFFSET  of the byte at OFFSET
  flatten  write its index in one piece, for PLFS to read
  check    look at every record; exit status 1 if something is damaged
  recover  put in order what killed writers have left
  ls       list files, with their sizes
  version  print which PLFS made it

  culvert plfs map --plot writes.svg /scratch/plfs/checkpoint
";

/// Reads what follows `plfs`.
pub fn plfs(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let bad =
        |error: lexopt::Error| Failure::new(error.to_string()).advice("try: culvert plfs --help");
    let missing = |what: &str| {
        Failure::new(format!("no {what} was given")).advice("try: culvert plfs --help")
    };
    let (mut what, mut path, mut picture, mut offset) = (None, None, None, None);
    while let Some(argument) = parser.next().map_err(bad)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(HELP.into())),
            Long("plot") => picture = Some(PathBuf::from(parser.value().map_err(bad)?)),
            Long("at") => {
                let text = parser.value().map_err(bad)?;
                let number = text.to_str().and_then(|text| text.parse().ok());
                offset = Some(number.ok_or_else(|| {
                    Failure::new("--at wants an offset in bytes").advice("try: culvert plfs --help")
                })?);
            }
            Value(word) if what.is_none() => what = Some(word),
            Value(word) if path.is_none() => path = Some(PathBuf::from(word)),
            other => return Err(bad(other.unexpected())),
        }
    }
    let word = what.ok_or_else(|| missing("command"))?;
    let what = match word.to_str() {
        Some("map") => What::Map(picture.take()),
        Some("query") => What::Query(offset.take()),
        Some("flatten") => What::Flatten,
        Some("recover") => What::Recover,
        Some("check") => What::Check,
        Some("ls") => What::List,
        Some("version") => What::Version,
        _ => {
            let text = format!("plfs has no command \"{}\"", word.display());
            return Err(Failure::new(text).advice("try: culvert plfs --help"));
        }
    };
    if picture.is_some() || offset.is_some() {
        let text = "--plot is for map, --at for query";
        return Err(Failure::new(text).advice("try: culvert plfs --help"));
    }
    let path = path.ok_or_else(|| missing("container"))?;
    Ok(Command::Plfs(Plfs { what, path }))
}

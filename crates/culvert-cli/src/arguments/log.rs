//! The words of `culvert log`.

use super::Command;
use crate::failure::Failure;
use crate::logs::{Job, Read};
use lexopt::Arg::{Long, Short, Value};
use std::ffi::OsString;

/// What `culvert log --help` says.
pub const HELP: &str = "\
Usage: culvert log [-f] [--now] [--plot FILE] LOG

Says what a log of the layer log holds in all: how many operations of each
kind, how many failed, how long they took, bytes by file, programs. It waits
for the programs that still write to LOG.

  -f, --follow     print the lines of LOG as they come, until its programs end
      --now        do not wait: what there is now
      --plot FILE  also draw it: operations by the second, latencies (SVG)

  culvert run --mount type=passthrough,source=/data,target=/mnt,layer=log,log.file=/tmp/l -- ls /mnt
  culvert log /tmp/l
";

/// Reads what follows `log`.
pub fn log(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let bad =
        |error: lexopt::Error| Failure::new(error.to_string()).advice("try: culvert log --help");
    let (mut file, mut follow, mut now, mut plot) = (None, false, false, None);
    while let Some(argument) = parser.next().map_err(bad)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(HELP.into())),
            Long("follow") | Short('f') => follow = true,
            Long("now") => now = true,
            Long("plot") => plot = Some(parser.value().map_err(bad)?.into()),
            Value(word) if file.is_none() => file = Some(word.into()),
            other => return Err(bad(other.unexpected())),
        }
    }
    let file =
        file.ok_or_else(|| Failure::new("no log was given").advice("try: culvert log --help"))?;
    Ok(Command::Log(Read {
        file,
        follow,
        now,
        plot,
    }))
}

/// Reads what follows the word of a writer.
pub fn writer(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let words: Vec<OsString> = parser
        .raw_args()
        .map_err(|error| Failure::new(error.to_string()))?
        .collect();
    Job::parse(words)
        .map(Command::WriteLog)
        .ok_or_else(|| Failure::new("not the words of a writer"))
}

//! The words of `culvert config`.

use super::{Command, bad, shown};
use crate::{config::Config, failure::Failure};
use lexopt::Arg::{Long, Short};

const HELP: &str = "\
Usage: culvert config [--cflags] [--libs]
       culvert config --pkg-config culvert|fuse|fuse3

Says what a compiler is told so that a source for libfuse is compiled against
Culvert's headers, and what a linker is told so that a program of it finds the
library. A shared object needs no --libs:

  cc -shared -fPIC $(culvert config --cflags) hello.c -o hello.so
  culvert run --mount type=./hello.so,target=/mnt -- ls /mnt

  --cflags         the compiler's words
  --libs           the linker's words
  --pkg-config NAME
                   the file that pkg-config(1) reads about NAME; fuse and fuse3
                   are for sources that look for libfuse by these names
";

/// The words behind `config`.
pub fn config(parser: &mut lexopt::Parser) -> Result<Command, Failure> {
    let wrong = |error: lexopt::Error| bad(&error, "config");
    let mut config = Config::default();
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Long("help") | Short('h') => return Ok(Command::Print(HELP.into())),
            Long("cflags") => config.cflags = true,
            Long("libs") => config.libs = true,
            Long("pkg-config") => {
                config.pkg_config = Some(shown(&parser.value().map_err(wrong)?));
            }
            other => return Err(wrong(other.unexpected())),
        }
    }
    match config.cflags || config.libs || config.pkg_config.is_some() {
        true => Ok(Command::Config(config)),
        false => Err(Failure::new("nothing was asked for").advice("try: culvert config --help")),
    }
}

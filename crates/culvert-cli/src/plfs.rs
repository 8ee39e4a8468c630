//! `culvert plfs`: what is in PLFS containers.

use crate::failure::{Failure, reason, shown};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is wanted.
#[derive(Debug)]
pub enum What {
    /// Which bytes are where; a picture of the writes.
    Map(Option<PathBuf>),
    /// Where bytes lie; those at an offset.
    Query(Option<u64>),
    /// The index in one piece.
    Flatten,
    /// Order.
    Recover,
    /// Whether it is whole.
    Check,
    /// The files in a directory.
    List,
    /// Who made it.
    Version,
}

/// `culvert plfs`.
#[derive(Debug)]
pub struct Plfs {
    /// What is wanted.
    pub what: What,
    /// Of which container, or directory.
    pub path: PathBuf,
}

/// Between two lines about how far it has come.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does it.
pub fn plfs(wanted: &Plfs) -> Result<u8, Failure> {
    let failed = |error: io::Error| match error.kind() {
        // Who reads has had enough.
        io::ErrorKind::BrokenPipe => None,
        _ => Some(Failure::new(format!(
            "{}: {}",
            shown(&wanted.path),
            reason(&error)
        ))),
    };
    match act(wanted) {
        Ok(status) => Ok(status),
        Err(error) => failed(error).map_or(Ok(0), Err),
    }
}

fn act(wanted: &Plfs) -> io::Result<u8> {
    let (path, mut out) = (&wanted.path, BufWriter::new(io::stdout().lock()));
    let (terminal, mut last) = (io::stderr().is_terminal(), Instant::now());
    let mut progress = |done: u64, all: u64| {
        if terminal && last.elapsed() >= PATIENCE {
            last = Instant::now();
            eprintln!("culvert: {done} of {all} records");
        }
    };
    let mut status = 0;
    match &wanted.what {
        What::Map(None) => culvert_plfs::map(path, &mut out, &mut progress)?,
        What::Map(Some(picture)) => {
            std::fs::write(picture, culvert_plfs::plot(path, &mut progress)?)?;
        }
        What::Query(offset) => culvert_plfs::query(path, *offset, &mut out, &mut progress)?,
        What::Flatten => {
            let count = culvert_plfs::flatten(path, &mut progress)?;
            writeln!(out, "{count} ranges")?;
        }
        What::Recover => {
            for line in culvert_plfs::recover(path, &mut progress)? {
                writeln!(out, "{line}")?;
            }
        }
        What::Check => {
            let found = culvert_plfs::check(path, &mut progress)?;
            for line in found.damage.iter().chain(&found.traces) {
                writeln!(out, "{line}")?;
            }
            writeln!(
                out,
                "{} records, {} damaged",
                found.records,
                found.damage.len()
            )?;
            status = u8::from(!found.damage.is_empty());
        }
        What::List => culvert_plfs::list(path, &mut out)?,
        What::Version => out.write_all(culvert_plfs::version(path)?.as_bytes())?,
    }
    out.flush()?;
    Ok(status)
}

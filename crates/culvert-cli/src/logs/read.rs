//! `culvert log`: a log as it grows, or what it says in all.

use crate::failure::{Failure, reason, shown};
use culvert_log::{Summary, follow, plot};
use rustix::fs::{FlockOperation, flock};
use std::{
    fs::{self, File},
    io::{self, BufReader, IsTerminal},
    path::PathBuf,
};

/// What is wanted of a log.
#[derive(Debug)]
pub struct Read {
    /// The log.
    pub file: PathBuf,
    /// Its lines as they come.
    pub follow: bool,
    /// The summary now, though programs still run.
    pub now: bool,
    /// Where a picture goes.
    pub plot: Option<PathBuf>,
}

/// Prints it.
pub fn read(wanted: &Read) -> Result<u8, Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("{}: {}", shown(&wanted.file), reason(&error)));
    let file = File::open(&wanted.file).map_err(failed)?;
    if wanted.follow {
        let lock = file.try_clone().map_err(failed)?;
        let mut out = io::stdout().lock();
        let over = || is_over(&lock);
        return match follow(BufReader::new(&file), &mut out, over) {
            // Who reads has had enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
            Err(error) => Err(failed(error)),
            Ok(()) => Ok(0),
        };
    }
    if !wanted.now && !is_over(&file) {
        if io::stderr().is_terminal() {
            eprintln!("culvert: programs still write to it; waiting (--now does not wait)");
        }
        let _ = flock(&file, FlockOperation::LockExclusive);
        let _ = flock(&file, FlockOperation::Unlock);
    }
    let summary = Summary::read(BufReader::new(&file)).map_err(failed)?;
    if summary.is_empty() {
        return Err(Failure::new(format!(
            "{} has no line of a log in JSON",
            shown(&wanted.file)
        ))
        .advice("summaries are made of logs with log.format=json, the default"));
    }
    if let Some(picture) = &wanted.plot {
        fs::write(picture, plot(&summary))
            .map_err(|error| Failure::new(format!("{}: {}", shown(picture), reason(&error))))?;
    }
    crate::print(&summary.text())
}

/// Whether nobody writes to the log any more: each writer holds a lock on it.
fn is_over(file: &File) -> bool {
    let over = flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
    let _ = flock(file, FlockOperation::Unlock);
    over
}

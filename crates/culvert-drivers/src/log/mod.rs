//! The layer `log`: tells another process of each operation, and changes nothing.
//!
//! ```text
//! operation -> LogFs, LogFile -> Record -> ring or FIFO of the run directory -> what writes the log
//! ```
//!
//! The program pays for making the record and for copying it to shared memory. Which lines come of
//! it, in which format, and where paths come from, is that process's business (`culvert run-log`):
//! a record names nodes, and the names by which they were found.

mod file;
mod filesystem;
mod pipe;
pub mod record;
mod recorder;
pub mod ring;

use crate::option_table::option_table;
use crate::{DriverInfo, Environment, invalid_option};
use alloc::{boxed::Box, string::ToString, sync::Arc, vec::Vec};
use culvert::{
    Errno, Error, FileSystem, Layered, Result,
    mount::{Mount, Options},
};
use filesystem::LogFs;
use pipe::Pipe;
pub use pipe::ring_path;

/// What `culvert drivers log` shows.
pub const INFO: DriverInfo = DriverInfo {
    name: "log",
    summary: "a log of each operation: who, what, how long; see culvert-log(1)",
    options: option_table![
        (
            "file",
            "FILE",
            "the file that lines are added to, an absolute path (needed)"
        ),
        (
            "format",
            "json|loggedfs",
            "a JSON object a line (default), or the lines of LoggedFS"
        ),
        (
            "config",
            "FILE",
            "which operations: a configuration of LoggedFS (XML); all without it"
        ),
        (
            "data",
            "yes|no",
            "whether reads and writes are logged, too (default yes)"
        ),
        (
            "idle",
            "",
            "the configuration wants nothing: found out for each run, refused from users"
        ),
        (
            "pipe",
            "FIFO",
            "where records go: made for each run, refused from users"
        ),
    ],
};

/// How the FIFO's path travels; nobody may say it.
const PIPE: &str = "pipe";

/// How it travels that the configuration wants nothing; nobody may say it.
const IDLE: &str = "idle";

/// Notes in `mount`, which was prepared, and in its branches, which of their logs' configurations
/// want `nothing`: there is no layer then.
pub fn note_idle(mount: &mut Mount, nothing: &dyn Fn(&[u8]) -> bool) {
    for branch in &mut mount.branches {
        note_idle(branch, nothing);
    }
    let options = core::mem::take(&mut mount.options);
    for (name, value) in options {
        let idle = name == "log.config" && nothing(&value);
        mount.options.push((name, value));
        if idle {
            let name = alloc::format!("log.{IDLE}");
            mount.options.push((name, Vec::new()));
        }
    }
}

/// A log that a mount wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The FIFO that its records come by.
    pub pipe: Vec<u8>,
    /// The file that lines are added to.
    pub file: Vec<u8>,
    /// Lines of LoggedFS, not JSON.
    pub loggedfs: bool,
    /// A configuration of LoggedFS.
    pub config: Option<Vec<u8>>,
    /// Where the mount is.
    pub target: Vec<u8>,
}

/// The logs that `mount`, which was prepared, wants: one for each layer `log` of it and of its
/// branches.
pub fn wanted(mount: &Mount) -> Vec<Wanted> {
    let mut all: Vec<Wanted> = Vec::new();
    for (name, value) in &mount.options {
        match (name.as_str(), all.last_mut()) {
            ("layer", _) if value == b"log" => all.push(Wanted {
                pipe: Vec::new(),
                file: Vec::new(),
                loggedfs: false,
                config: None,
                target: mount.target.clone(),
            }),
            ("log.pipe", Some(last)) => last.pipe.clone_from(value),
            ("log.file", Some(last)) => last.file.clone_from(value),
            ("log.config", Some(last)) => last.config = Some(value.clone()),
            ("log.format", Some(last)) => last.loggedfs = value == b"loggedfs",
            _ => {}
        }
    }
    all.extend(mount.branches.iter().flat_map(wanted));
    all
}

fn value<'o>(options: &'o Options, wanted: &str) -> Option<&'o [u8]> {
    let found = options.iter().rev().find(|(name, _)| name == wanted);
    found.map(|(_, value)| &value[..])
}

/// Whether `options` want reads and writes, too.
fn wants_data(options: &Options) -> Result<bool> {
    match value(options, "data") {
        None | Some(b"yes") => Ok(true),
        Some(b"no") => Ok(false),
        Some(other) => Err(invalid_option("log.data", other, "yes or no is needed")),
    }
}

/// Checks the options in the launcher, and makes the FIFO, whose path travels with them.
pub fn prepare(mut options: Options, environment: &Environment<'_>) -> Result<Options> {
    let missing = || Error::because(Errno::EINVAL, "layer log needs log.file=FILE");
    for (name, needed) in [("file", true), ("config", false)] {
        match value(&options, name) {
            Some([b'/', ..]) => {}
            Some(other) => {
                let name = alloc::format!("log.{name}");
                return Err(invalid_option(&name, other, "an absolute path is needed"));
            }
            None if needed => return Err(missing()),
            None => {}
        }
    }
    if let Some(other) = value(&options, "format")
        && !matches!(other, b"json" | b"loggedfs")
    {
        return Err(invalid_option(
            "log.format",
            other,
            "json or loggedfs is needed",
        ));
    }
    wants_data(&options)?;
    for own in [PIPE, IDLE] {
        if let Some(other) = value(&options, own) {
            let name = alloc::format!("log.{own}");
            return Err(invalid_option(&name, other, "it is made for each run"));
        }
    }
    let directory = environment
        .run_directory
        .ok_or_else(|| Error::because(Errno::EINVAL, "there is no run directory"))?;
    let path = pipe::create(directory).map_err(|errno| {
        Error::because(errno, errno.to_string()).within("the pipe of layer log")
    })?;
    options.push((PIPE.into(), path));
    Ok(options)
}

/// Whether nothing is to be logged.
pub fn touches_nothing(options: &Options) -> bool {
    value(options, IDLE).is_some()
}

/// Puts the layer over `below`.
pub fn open(
    options: &Options,
    environment: &Environment<'_>,
    below: Box<dyn FileSystem>,
) -> Result<Box<dyn FileSystem>> {
    let path = value(options, PIPE).unwrap_or_default();
    let pipe = Pipe::open(path, environment.keeper)
        .map_err(|errno| Error::from(errno).within("the pipe of layer log"))?;
    pipe.introduce(below.root());
    let layer = LogFs::new(
        below,
        Arc::new(pipe),
        environment.caller,
        wants_data(options)?,
    );
    Ok(Box::new(Layered(layer)))
}

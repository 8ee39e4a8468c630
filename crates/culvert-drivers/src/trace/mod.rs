//! The layer `trace`: writes down each call of the driver API, a line each, and changes nothing.
//!
//! ```text
//! 1234 lookup             process 1234 has called FileSystem::lookup
//! 1234 file 7 read_at     ... File::read_at of open file 7
//! 1234 file 7 closed      ... has dropped it
//! ```
//!
//! Open files are numbered. A number goes on in the next program (`File::save`), so one sees there
//! what became of a file.

mod file;
mod filesystem;
mod log;

use crate::option_table::option_table;
use crate::{DriverInfo, Environment, invalid_option};
use alloc::boxed::Box;
use culvert::{Errno, Error, FileSystem, Layered, Result, mount::Options};
use log::Log;

/// What `culvert drivers trace` shows.
pub const INFO: DriverInfo = DriverInfo {
    name: "trace",
    summary: "writes down each call of the driver: a layer for authors of drivers",
    options: option_table![(
        "to",
        "FILE",
        "the file that lines are added to, an absolute path (needed)"
    )],
};

fn to(options: &Options) -> Result<&[u8]> {
    let found = options.iter().rev().find(|(name, _)| name == "to");
    match found.map(|(_, value)| &value[..]) {
        Some(path @ [b'/', ..]) if !path.contains(&0) => Ok(path),
        Some(other) => Err(invalid_option(
            "trace.to",
            other,
            "an absolute path is needed",
        )),
        None => Err(Error::because(
            Errno::EINVAL,
            "layer trace needs trace.to=FILE",
        )),
    }
}

/// Checks the options in the launcher, and that the file can be written.
pub fn prepare(options: Options, _: &Environment<'_>) -> Result<Options> {
    drop(Log::open(to(&options)?, crate::Keeper::default())?);
    Ok(options)
}

/// Puts the layer over `below`.
pub fn open(
    options: &Options,
    environment: &Environment<'_>,
    below: Box<dyn FileSystem>,
) -> Result<Box<dyn FileSystem>> {
    let log = Log::open(to(options)?, environment.keeper)?;
    Ok(Box::new(Layered(filesystem::TracedFs::new(below, log))))
}

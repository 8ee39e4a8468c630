//! The layer `casefold`: names are found in whatever case, and stay as they were written.
//!
//! ```text
//! name -> CasefoldFs: the name as it is, by the driver below
//!            else -> Listings: the directory, by folded name (fold) -> that name, by the driver below
//! ```

mod assigned;
mod filesystem;
mod fold;
mod listings;

pub use filesystem::CasefoldFs;
pub use fold::Folding;

use crate::option_table::option_table;
use crate::{
    DriverInfo, Environment, archive::host::terminated, invalid_option, name_changes::NameChanges,
};
use alloc::{boxed::Box, format, vec::Vec};
use culvert::{Errno, FileSystem, Layered, Result, mount::Options};
use culvert_sys::{flags::OFlags, fs};

/// What `culvert drivers casefold` shows.
pub const INFO: DriverInfo = DriverInfo {
    name: "casefold",
    summary: "names are found in whatever case, and stay as they were written (Unicode, as ext4)",
    options: option_table![
        (
            "strict",
            "",
            "names that are not UTF-8 are refused (EINVAL)"
        ),
        (
            "lock",
            "FILE",
            "what the processes of a run change names by: made for each, refused from \
                users"
        ),
    ],
};

/// How the path of the lock travels; nobody may say it.
pub(crate) const LOCK: &str = "lock";

/// Makes the file by whose lock the processes of a run change names, and returns its path as an
/// option; none where there is no run. It is the layer's own: layers of one kind stack.
pub(crate) fn lock(environment: &Environment<'_>) -> Result<Option<(&'static str, Vec<u8>)>> {
    let Some(directory) = environment.run_directory else {
        return Ok(None);
    };
    let mut number = 0;
    loop {
        let path = [directory, format!("/casefold.{number}").as_bytes()].concat();
        let flags = OFlags::RDWR | OFlags::CREAT | OFlags::EXCL | OFlags::CLOEXEC;
        match fs::open(&terminated(&path)?, flags, 0o600) {
            Ok(_) => return Ok(Some((LOCK, path))),
            Err(Errno::EEXIST) => number += 1,
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// The right to change names that `options` tell of.
pub(crate) fn names(options: &Options, environment: &Environment<'_>) -> NameChanges {
    let mut all = options.iter().rev();
    let path = all
        .find(|(name, _)| name == LOCK)
        .map(|(_, path)| &path[..]);
    NameChanges::new(path.filter(|_| !environment.alone), environment.keeper)
}

/// Checks the options in the launcher, and makes the lock.
pub fn prepare(mut options: Options, environment: &Environment<'_>) -> Result<Options> {
    for (name, value) in &options {
        if name == LOCK {
            return Err(invalid_option(
                "casefold.lock",
                value,
                "it is made for each run",
            ));
        }
        if !value.is_empty() {
            let name = format!("casefold.{name}");
            return Err(invalid_option(&name, value, "it takes no value"));
        }
    }
    if let Some((name, path)) = lock(environment)? {
        options.push((name.into(), path));
    }
    Ok(options)
}

/// Puts the layer over `below`.
pub fn open(
    options: &Options,
    environment: &Environment<'_>,
    below: Box<dyn FileSystem>,
) -> Result<Box<dyn FileSystem>> {
    let strict = options.iter().any(|(name, _)| name == "strict");
    let names = names(options, environment);
    let layer = CasefoldFs::new(below, Folding::Unicode, strict, names);
    Ok(Box::new(Layered(layer)))
}

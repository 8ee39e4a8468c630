//! The layer `avfs`: files are looked into by names with a `#`, as AVFS has it.
//!
//! ```text
//! x.tgz#/y.zip#/z -> AvfsFs: "x.tgz#" is not there -> names: x.tgz, by content (handlers)
//!                    opened by the driver below -> Within: an archive with its index
//!                    "y.zip#" is not in it -> names: y.zip, a member, opened -> Within ...
//! ```
//!
//! Real names come first. A file that is looked into has a number, the same in all processes of the
//! run (`table`), which is part of the nodes in it.

mod entering;
mod file;
mod filesystem;
mod handlers;
mod inside;
mod names;
mod opened;
mod table;
mod within;

use crate::archive::{Options as Archive, host};
use crate::option_table::option_table;
use crate::{DriverInfo, Environment, invalid_option};
use alloc::{boxed::Box, format, vec::Vec};
use culvert::{
    Errno, Error, FileSystem, Layered, Result,
    mount::{Mount, Options},
};
use culvert_sys::fs;
use filesystem::AvfsFs;
use table::Table;
use within::Rules;

/// How the place of the table and that of indexes travel; nobody may say it.
const TABLE: &str = "table";
const INDEXES: &str = "indexes";

/// Most bytes of a file in a file where nothing is said: 64 GiB.
const MOST: u64 = 64 << 30;

/// What `culvert drivers avfs` shows.
pub const INFO: DriverInfo = DriverInfo {
    name: "avfs",
    summary: "archives and compressed files are looked into by names with a # (x.tgz#/y.zip#/z), \
        as AVFS has it",
    options: option_table![
        (
            "limit",
            "BYTES",
            "most bytes of a file that lies in another, also decompressed (default: 64 \
                GiB)"
        ),
        (
            "table",
            "PATH",
            "what the processes of a run number files by: made for each, refused from \
                users"
        ),
        (
            "indexes",
            "PATH",
            "where indexes are kept: found for each run, refused from users"
        ),
    ],
};

fn limit(value: &[u8]) -> Result<u64> {
    let text = core::str::from_utf8(value).ok();
    let bytes = text.and_then(|text| text.parse().ok());
    bytes.ok_or_else(|| invalid_option("avfs.limit", value, "a number of bytes is needed"))
}

/// Checks the options in the launcher, and makes the table.
pub fn prepare(mut options: Options, environment: &Environment<'_>) -> Result<Options> {
    for (name, value) in &options {
        match name.as_str() {
            "limit" => drop(limit(value)?),
            name => {
                let name = format!("avfs.{name}");
                return Err(invalid_option(&name, value, "it is made for each run"));
            }
        }
    }
    if let Some(directory) = environment.cache_directory.or(environment.run_directory) {
        options.push((INDEXES.into(), directory.to_vec()));
    }
    let Some(directory) = environment.run_directory else {
        return Ok(options);
    };
    for number in 0.. {
        let path = [directory, format!("/avfs.{number}").as_bytes()].concat();
        match fs::mkdir(&host::terminated(&path)?, 0o700) {
            Ok(()) => {
                options.push((TABLE.into(), path));
                break;
            }
            Err(Errno::EEXIST) => {}
            Err(errno) => return Err(Error::from(errno).within("the table of layer avfs")),
        }
    }
    Ok(options)
}

/// Puts the layer over `below`.
pub fn open(
    options: &Options,
    environment: &Environment<'_>,
    below: Box<dyn FileSystem>,
) -> Result<Box<dyn FileSystem>> {
    let mut rules = Rules {
        indexes: None,
        most: MOST,
        owners: owners()?,
    };
    let mut directory = None;
    for (name, value) in options {
        match name.as_str() {
            "limit" => rules.most = limit(value)?,
            INDEXES => rules.indexes = Some(value.clone()),
            _ => directory = Some(&value[..]),
        }
    }
    let table = Table::new(directory);
    let layer = AvfsFs::new(below, rules, table, environment.keeper);
    Ok(Box::new(Layered(layer)))
}

/// Who owns what lies in archives: as `tar -x`, root sees the archive's owners, everybody else
/// their own.
fn owners() -> Result<Archive> {
    let mut options = Vec::new();
    let (user, group) = (host::effective_user(), host::effective_group());
    if user != 0 {
        options.push(("uid".into(), format!("{user}").into_bytes()));
        options.push(("gid".into(), format!("{group}").into_bytes()));
    }
    Archive::parse(&Mount {
        driver: INFO.name.into(),
        source: Vec::new(),
        target: Vec::new(),
        options,
        branches: Vec::new(),
    })
}

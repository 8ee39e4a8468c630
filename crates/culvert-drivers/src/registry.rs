//! Drivers by name, and their options.

use crate::archive::{host, warning::printable};
use crate::{Environment, Prepared, Progress, archive, passthrough};
use alloc::{boxed::Box, format, string::String, vec::Vec};
use culvert::{Errno, Error, FileSystem, Result, mount::Mount};

/// An option of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionInfo {
    /// Its name.
    pub name: &'static str,
    /// What its value looks like; empty when it takes none.
    pub value: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
}

/// A driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// Its name, as in `-t NAME`.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [OptionInfo],
}

/// A driver and the two moments of its mounts.
struct Driver {
    info: DriverInfo,
    prepare: fn(&Mount, &Environment<'_>, &mut dyn FnMut(Progress)) -> Result<Prepared>,
    open: fn(&Mount, &Environment<'_>) -> Result<Box<dyn FileSystem>>,
}

const DRIVERS: &[Driver] = &[
    Driver {
        info: DriverInfo {
            name: "passthrough",
            summary: "a directory, as it is",
            options: passthrough::OPTIONS,
        },
        prepare: passthrough::prepare,
        open: passthrough::open,
    },
    Driver {
        info: DriverInfo {
            name: "archive",
            summary: "tar, tar.gz, tar.zst, tar.xz, tar.bz2 and zip archives, read in place (read-only)",
            options: archive::OPTIONS,
        },
        prepare: archive::prepare,
        open: archive::open,
    },
];

/// All drivers.
pub fn list() -> impl Iterator<Item = &'static DriverInfo> + Clone {
    DRIVERS.iter().map(|driver| &driver.info)
}

/// The driver called `name`; `ENODEV` with the names that there are, as mount(2) for a type that is not known.
pub fn find(name: &str) -> Result<&'static DriverInfo> {
    Ok(&driver(name)?.info)
}

fn driver(name: &str) -> Result<&'static Driver> {
    let found = DRIVERS.iter().find(|driver| driver.info.name == name);
    found.ok_or_else(|| {
        let names = list().map(|driver| driver.name);
        Error::because(
            Errno::ENODEV,
            format!(
                "there is no driver \"{}\"{}",
                printable(name.as_bytes()),
                alternatives(name, names)
            ),
        )
    })
}

/// The driver for `source`, by its content: a directory is [`passthrough`]'s. `EINVAL` with what it is instead.
pub fn detect(source: &[u8]) -> Result<&'static DriverInfo> {
    if host::status_of(source)?.is_directory() {
        return find("passthrough");
    }
    archive::detect(source)?;
    find("archive")
}

/// Checks `mount` and makes it ready, in the launcher; `progress` is told how far the costly part is.
pub fn prepare(
    mount: &Mount,
    environment: &Environment<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    (driver(&mount.driver)?.prepare)(mount, environment, progress)
}

/// The file system of a mount that [`prepare`] returned. Cheap: a few system calls.
pub fn open(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    (driver(&mount.driver)?.open)(mount, environment)
}

/// Refuses options that `known` does not have, with those that it has.
pub(crate) fn check_names(known: &[OptionInfo], mount: &Mount) -> Result<()> {
    for (name, _) in &mount.options {
        if !known.iter().any(|option| option.name == name) {
            let names = known.iter().map(|option| option.name);
            return Err(Error::because(
                Errno::EINVAL,
                format!(
                    "driver {} has no option \"{}\"{}",
                    mount.driver,
                    printable(name.as_bytes()),
                    alternatives(name, names)
                ),
            ));
        }
    }
    Ok(())
}

/// The error for a bad value of an option.
pub(crate) fn invalid_option(name: &str, value: &[u8], why: &str) -> Error {
    Error::because(
        Errno::EINVAL,
        format!("option {name}={}: {why}", printable(value)),
    )
}

/// "; did you mean X?" or the list of `names`.
fn alternatives<'a>(wanted: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let nearest = names
        .clone()
        .map(|name| (distance(wanted.as_bytes(), name.as_bytes()), name))
        .min();
    let list = names.collect::<Vec<_>>().join(", ");
    match nearest {
        Some((edits, name)) if edits * 3 <= wanted.len() => {
            format!("; did you mean {name}? There are: {list}")
        }
        _ => format!("; there are: {list}"),
    }
}

/// Edits that turn one word into the other (Levenshtein).
fn distance(left: &[u8], right: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (at, byte) in left.iter().enumerate() {
        let mut diagonal = core::mem::replace(&mut row[0], at + 1);
        for column in 0..right.len() {
            let substituted = diagonal + usize::from(*byte != right[column]);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn near_misses_are_suggested() {
        assert_eq!(distance(b"kitten", b"sitting"), 3);
        assert_eq!(
            find("archiv").unwrap_err().to_string(),
            "there is no driver \"archiv\"; did you mean archive? There are: passthrough, archive"
        );
        assert_eq!(find("nfs").unwrap_err().errno(), Errno::ENODEV);
        assert!(find("archive").is_ok());
    }
}

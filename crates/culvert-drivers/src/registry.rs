//! Drivers by name, and their options.

use crate::archive::{host, warning::printable};
use crate::words::alternatives;
use crate::{
    Attribute, Declared, Environment, InUse, OptionTable, Prepared, Progress, Source, Warnings,
    archive, bind, fuse, memory, object, overlay, passthrough, plfs, sdcard, union,
};
use alloc::{boxed::Box, format, string::String};
use culvert::{
    Errno, Error, FileSystem, Result,
    mount::{Mount, Options, is_library},
};

/// A driver, or a layer over drivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// Its name, as in `-t NAME` or, of a layer, in option `layer=NAME`.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// Its options.
    pub options: OptionTable,
}

type Prepare = fn(&Mount, &Environment<'_>, &mut dyn FnMut(Progress)) -> Result<Prepared>;
/// A driver with branches opens each by [`open_branch`].
type Open = fn(&Mount, &Environment<'_>) -> Result<Box<dyn FileSystem>>;

/// A driver and the two moments of its mounts.
struct Driver {
    info: DriverInfo,
    declared: Declared,
    /// The branches of the mount are prepared already.
    prepare: Prepare,
    open: Open,
}

const DRIVERS: &[Driver] = &[
    Driver {
        info: DriverInfo {
            name: "passthrough",
            summary: "a directory, as it is",
            options: passthrough::OPTIONS,
        },
        declared: passthrough::DECLARED,
        prepare: passthrough::prepare,
        open: passthrough::open,
    },
    Driver {
        info: DriverInfo {
            name: "archive",
            summary: "a tar, zip, 7z, cpio, deb, rpm or ISO image, compressed or not, read in \
                place (read-only)",
            options: archive::OPTIONS,
        },
        declared: archive::DECLARED,
        prepare: archive::prepare,
        open: archive::open,
    },
    Driver {
        info: DriverInfo {
            name: "memory",
            summary: "a file system in shared memory, for all processes of a run, or with a name \
                for several runs",
            options: memory::OPTIONS,
        },
        declared: memory::DECLARED,
        prepare: memory::prepare,
        open: memory::open,
    },
    Driver {
        info: DriverInfo {
            name: "union",
            summary: "several file systems as one, new files on one of them by a policy, as \
                mergerfs",
            options: union::OPTIONS,
        },
        declared: union::DECLARED,
        prepare: |mount, environment, progress| {
            let prepared = union::prepare(mount, environment, progress)?;
            union::finish(&prepared.mount, environment, &BRANCHES);
            Ok(prepared)
        },
        open: |mount, environment| union::open(mount, environment, &BRANCHES),
    },
    Driver {
        info: DriverInfo {
            name: "overlay",
            summary: "lower layers that stay as they are below one that takes the changes, in \
                overlayfs's format",
            options: overlay::OPTIONS,
        },
        declared: overlay::DECLARED,
        prepare: |mount, environment, progress| {
            overlay::prepare(mount, (environment, progress), &LAYERS)
        },
        open: |mount, environment| overlay::open(mount, environment, &LAYERS),
    },
    Driver {
        info: DriverInfo {
            name: "bind",
            summary: "a directory with other owners, modes and rules of what may be done, as \
                bindfs",
            options: bind::DRIVER_OPTIONS,
        },
        declared: bind::DECLARED,
        prepare: bind::prepare_driver,
        open: bind::open_driver,
    },
    Driver {
        info: sdcard::INFO,
        declared: sdcard::DECLARED,
        prepare: sdcard::prepare_mount,
        open: sdcard::open_mount,
    },
    Driver {
        info: DriverInfo {
            name: "fuse",
            summary: "the file system of a FUSE server, without a kernel mount",
            options: fuse::OPTIONS,
        },
        declared: fuse::DECLARED,
        prepare: fuse::prepare,
        open: fuse::open,
    },
    Driver {
        info: DriverInfo {
            name: "plfs",
            summary: "PLFS containers: files that many processes write at once, each into a log \
                of its own",
            options: plfs::OPTIONS,
        },
        declared: plfs::DECLARED,
        prepare: plfs::prepare,
        open: plfs::open,
    },
    #[cfg(test)]
    tests::LAST,
];

/// All drivers.
pub fn list() -> impl Iterator<Item = &'static DriverInfo> + Clone {
    DRIVERS.iter().map(|driver| &driver.info)
}

/// The driver called `name`; `ENODEV` with the names that there are, as mount(2) for a type that is
/// not known.
pub fn find(name: &str) -> Result<&'static DriverInfo> {
    Ok(&driver(name)?.info)
}

fn driver(name: &str) -> Result<&'static Driver> {
    let found = DRIVERS.iter().find(|driver| driver.info.name == name);
    found.ok_or_else(|| unknown("driver", name.as_bytes(), list()))
}

/// The error for a `name` that no driver or layer (`what`) has, of those that there are.
pub(crate) fn unknown(
    what: &str,
    name: &[u8],
    all: impl Iterator<Item = &'static DriverInfo> + Clone,
) -> Error {
    let shown = format!("{}", printable(name));
    let more = alternatives(&shown, all.map(|info| info.name));
    Error::because(
        Errno::ENODEV,
        format!("there is no {what} \"{shown}\"{more}"),
    )
}

/// Whether option `name`, which has a dot, is the business of the driver called `driver`: it has
/// one that begins with the same word.
pub(crate) fn has_kin(driver: &str, name: &str) -> bool {
    let word = |name: &str| name.split_once('.').map(|(word, _)| word.len());
    let prefix = &name[..word(name).map_or(name.len(), |end| end + 1)];
    let known = |info: &DriverInfo| info.options.iter().any(|one| one.name.starts_with(prefix));
    word(name).is_some() && find(driver).is_ok_and(known)
}

/// What the driver of `mount` declares; none where there is no such driver.
pub fn declared(mount: &Mount) -> Option<&'static Declared> {
    declared_by(&mount.driver)
}

/// The same of the driver called `name`.
pub fn declared_by(name: &str) -> Option<&'static Declared> {
    let found = DRIVERS.iter().find(|driver| driver.info.name == name);
    found.map(|driver| &driver.declared)
}

/// The driver for a `source` without a type: one that knows the name, or what the path leads to. Of
/// a file that none knows, the first driver of files is to say what is wrong with it.
pub fn detect(source: &[u8]) -> Result<&'static DriverInfo> {
    let first = |serves: &dyn Fn(&Driver) -> bool| DRIVERS.iter().find(|driver| serves(driver));
    let recognised = |driver: &Driver| (driver.declared.recognises)(source);
    let is_named = |driver: &Driver| driver.declared.source == Source::Name && recognised(driver);
    if let Some(named) = first(&is_named) {
        return Ok(&named.info);
    }
    let status = host::status_of(source)?;
    let fits = |driver: &Driver| match driver.declared.source {
        Source::Directory => status.is_directory(),
        Source::File(_) => !status.is_directory(),
        Source::Path => true,
        Source::Name | Source::Branches | Source::Options { .. } => false,
    };
    // To look into a FIFO or a device would change it.
    let looks_in = |driver: &Driver| fits(driver) && !status.is_special() && recognised(driver);
    let found = first(&looks_in).or_else(|| first(&fits));
    let found = found.ok_or_else(|| Error::because(Errno::EINVAL, "no driver serves it"))?;
    Ok(&found.info)
}

/// The driver of `mount`: `EINVAL` where it does not serve as many sources.
fn driver_of(mount: &Mount) -> Result<&'static Driver> {
    let driver = driver(&mount.driver)?;
    let name = driver.info.name;
    let why = match (driver.declared.source, mount.branches.len()) {
        (Source::Options { branches, .. }, 0) => {
            // The last one is what every such mount has: an overlay needs no upperdir.
            let list = branches.last().unwrap_or(&"");
            format!("driver {name} is made of what option {list}=LIST names, which is missing")
        }
        (Source::Branches, 0) => format!("driver {name} has no branches"),
        (Source::Options { .. } | Source::Branches, _) | (_, 0) => return Ok(driver),
        _ => format!("driver {name} serves one source"),
    };
    Err(Error::because(Errno::EINVAL, why))
}

/// What each of `count` branches may use: what the front end says of descriptors is about those of
/// the mount that they are branches of.
fn for_branches<'a>(count: usize, environment: &Environment<'a>) -> Environment<'a> {
    let share = |all: usize| (all / count.max(1)).max(1);
    Environment {
        open_nodes: environment.open_nodes.map(share),
        in_use: None,
        source: None,
        book: None,
        ..*environment
    }
}

/// Whether a node of `branch` is in use: the front end knows it by the number that the driver of
/// the whole gives it.
fn in_use(driver: &Driver, branch: &Mount, environment: &Environment<'_>) -> Option<InUse> {
    let (whole, numbers) = (environment.in_use?, driver.declared.branch_nodes?);
    let branch = branch.clone();
    // Leaked: lives as long as the process, once for each branch.
    Some(Box::leak(Box::new(move |node, read: Attribute<'_>| {
        // Where nobody can say it, it is.
        let all = numbers(&branch, node, read);
        all.map_or(true, |all| all.into_iter().any(|node| whole(node, read)))
    })))
}

/// [`crate::prepare`] for a mount without layers.
pub(crate) fn prepare(
    mount: &Mount,
    environment: &Environment<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    if is_library(&mount.driver) {
        // Its options are its own to judge.
        return object::prepare(mount, environment);
    }
    let driver = driver_of(mount)?;
    let (mut mount, mut warnings) = (mount.clone(), Warnings::default());
    let each = for_branches(mount.branches.len(), environment);
    for branch in &mut mount.branches {
        let prepared = crate::prepare(branch, &each, progress);
        let prepared = prepared.map_err(|error| error.within(&printable_source(branch)))?;
        warnings.append(prepared.warnings);
        *branch = prepared.mount;
    }
    let mut prepared = (driver.prepare)(&mount, environment, progress)?;
    warnings.append(core::mem::take(&mut prepared.warnings));
    Ok(Prepared {
        warnings,
        ..prepared
    })
}

/// [`crate::open`] for a mount without layers.
pub(crate) fn open(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    if is_library(&mount.driver) {
        return match environment.library {
            Some(load) => load(mount),
            None => object::open(mount, environment),
        };
    }
    (driver_of(mount)?.open)(mount, environment)
}

/// What a union needs to know of the drivers of its branches.
static BRANCHES: union::Drivers = union::Drivers {
    open: open_branch,
    detect: |source| {
        let name = detect(source)?.name;
        let declared = declared_by(name);
        Ok((name, declared.is_some_and(|one| one.source == Source::Name)))
    },
    prepare: crate::prepare,
};

/// The same for an overlay.
static LAYERS: overlay::Drivers = overlay::Drivers {
    open: open_branch,
    prepare: crate::prepare,
};

/// Opens `branch`, one of `count` of a mount of the driver called `whole`, whose `environment` it
/// is.
pub(crate) fn open_branch(
    (whole, count): (&str, usize),
    branch: &Mount,
    environment: &Environment<'_>,
) -> Result<Box<dyn FileSystem>> {
    let mut below = branch.clone();
    if let Some(change) = declared(branch).and_then(|one| one.below_layers) {
        change(&mut below);
    }
    let each = Environment {
        in_use: in_use(driver(whole)?, branch, environment),
        ..for_branches(count, environment)
    };
    let opened = crate::open(&below, &each);
    opened.map_err(|error| error.within(&printable_source(branch)))
}

fn printable_source(mount: &Mount) -> String {
    format!("branch {}", printable(&mount.source))
}

/// Refuses options that `known` does not have, with those that it has.
pub(crate) fn check_names(known: OptionTable, mount: &Mount) -> Result<()> {
    check_names_of(&format!("driver {}", mount.driver), known, &mount.options)
}

/// [`check_names`] for the `options` of `owner` ("driver archive", "layer fault").
pub(crate) fn check_names_of(owner: &str, known: OptionTable, options: &Options) -> Result<()> {
    for (name, _) in options {
        if !known.has(name) {
            let names = known.iter().map(|option| option.name);
            return Err(Error::because(
                Errno::EINVAL,
                format!(
                    "{owner} has no option \"{}\"{}{}",
                    printable(name.as_bytes()),
                    who_has(name),
                    alternatives(name, names)
                ),
            ));
        }
    }
    Ok(())
}

/// " (driver X has it)", where one has the option `name`.
fn who_has(name: &str) -> String {
    let has = |info: &&DriverInfo| info.options.has(name);
    match list().find(has) {
        Some(driver) => format!(" (driver {} has it)", driver.name),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::option_table::option_table;
    use std::{string::ToString, vec::Vec};

    /// The last of several file systems, under another name for the root than its own.
    pub(super) const LAST: Driver = Driver {
        info: DriverInfo {
            name: "last",
            summary: "the last of its branches",
            options: option_table![("which.one", "", "has a dot")],
        },
        declared: Declared {
            source: Source::Branches,
            ..passthrough::DECLARED
        },
        prepare: |mount, _, _| {
            let sources = mount
                .branches
                .iter()
                .map(|branch| printable(&branch.source));
            let sources: Vec<_> = sources.map(|source| source.to_string()).collect();
            Ok(Prepared {
                mount: mount.clone(),
                warnings: Warnings::default(),
                summary: sources.join(" and "),
                index: None,
            })
        },
        open: |mount, environment| {
            let all = &mount.branches;
            let last = all.last().expect("one at least");
            open_branch((&mount.driver, all.len()), last, environment)
        },
    };

    fn mount(driver: &str, source: &[u8], branches: &[Mount]) -> Mount {
        Mount {
            driver: driver.into(),
            source: source.to_vec(),
            target: b"/mnt".to_vec(),
            options: Vec::new(),
            branches: branches.to_vec(),
        }
    }

    #[test]
    fn a_mount_of_several_sources_is_prepared_and_opened_with_all_of_them() {
        let directory = std::env::temp_dir().join(format!("culvert-last-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("found")).unwrap();
        let directory = directory.to_str().unwrap().as_bytes();
        let environment = Environment {
            run_directory: Some(directory),
            ..Environment::default()
        };
        let leaves = [
            mount("memory", b"memory", &[]),
            mount("passthrough", directory, &[]),
        ];
        let mut asked = mount(
            "last",
            b"both",
            &[leaves[0].clone(), mount("last", b"one", &leaves[1..])],
        );
        asked.options.push(("layer".into(), b"fault".to_vec()));
        let prepared = crate::prepare(&asked, &environment, &mut |_| ()).unwrap();
        // Those below were prepared before: a file system in memory has its file.
        let made = &prepared.mount.branches[0].source;
        assert!(made.starts_with(directory), "{}", printable(made));
        assert_eq!(prepared.summary, format!("{} and one", printable(made)));
        let travelled = culvert::mount::decode(&culvert::mount::encode(&[prepared.mount]));
        let fs = crate::open(&travelled.unwrap()[0], &environment).unwrap();
        let caller = culvert::testing::caller();
        assert!(fs.lookup(&caller, fs.root(), b"found").is_ok());
        std::fs::remove_dir_all(std::str::from_utf8(directory).unwrap()).unwrap();
    }

    #[test]
    fn mounts_of_too_many_or_too_few_sources_are_refused() {
        let one = mount("passthrough", b"/nowhere", &[]);
        for (mount, want) in [
            (
                mount("memory", b"memory", core::slice::from_ref(&one)),
                "driver memory serves one source",
            ),
            (mount("last", b"/", &[]), "driver last has no branches"),
            (
                mount("last", b"/", &[one]),
                "branch /nowhere: No such file or directory",
            ),
        ] {
            let environment = Environment::default();
            let refused = crate::prepare(&mount, &environment, &mut |_| ()).unwrap_err();
            assert_eq!(refused.to_string(), want);
            let Err(refused) = crate::open(&mount, &environment) else {
                panic!("{want}: opened")
            };
            assert_eq!(refused.to_string(), want);
        }
    }

    #[test]
    fn near_misses_are_suggested() {
        assert_eq!(
            find("archiv").unwrap_err().to_string(),
            "there is no driver \"archiv\"; did you mean archive? There are: passthrough, \
            archive, memory, union, overlay, bind, sdcard, fuse, plfs, last"
        );
        assert_eq!(find("nfs").unwrap_err().errno(), Errno::ENODEV);
        assert!(find("archive").is_ok());
    }
}

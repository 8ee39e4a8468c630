//! PLFS containers: files that many processes write at once, each into a log of its own.
//!
//! ```text
//! prepare:  options, plfsrc -> checked back ends; counters in the run's directory
//! open:     back ends -> PlfsFs, a driver by paths
//! write:    -> the process's data dropping, then a record in its index dropping (writer)
//! read:     -> all index droppings, merged (index) -> where the bytes are (container)
//! ```
//!
//! The format is that of PLFS 2.5 ([`mod@layout`]).

mod changes;
mod container;
mod cut;
mod filesystem;
mod forks;
mod growth;
mod host;
mod hosts;
pub mod index;
pub mod layout;
mod locks;
mod merge;
mod meta;
mod moves;
mod object;
mod options;
mod patience;
pub mod plfsrc;
mod reach;
mod rename;
mod service;
mod setup;
mod shared;
mod small;
mod table;
mod writer;
mod xattrs;

pub use options::{DECLARED, OPTIONS};
pub use small::DIRECTORY as SMALL_FILES;

use crate::archive::host as files;
use crate::archive::warning::printable;
use crate::passthrough::kernel;
use crate::{Environment, Prepared, Progress, Warnings};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::AtomicUsize;
use culvert::path::PathAdapter;
use culvert::{Errno, Error, FileSystem, Result, mount::Mount};
use culvert_sys::clock::Clock;
use options::{CHECKSUM, COUNTERS, Options, Role, SYNCS, Workload};
use plfsrc::Plfsrc;
use setup::{Backend, Setup};
use shared::Shared;

/// Memory of one extent of an index, with its part of the tree, bytes.
const EXTENT: u64 = 96;
/// The largest plfsrc, bytes, and the most that include each other.
const LARGEST_PLFSRC: usize = 1 << 20;
const MOST_INCLUDES: usize = 32;

/// Checks back ends and options, and returns the mount with what all processes of the run share.
pub fn prepare(
    mount: &Mount,
    environment: &Environment<'_>,
    _: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    let mut options = Options::parse(mount)?;
    let mut warnings = Warnings::default();
    if let Some(file) = options.plfsrc.clone() {
        let read = read_plfsrc(&file)?;
        options.take(mount, &read, &mut warnings)?;
    }
    let appends = options.lock_appends && !options.is_flat() && !options.read_only;
    for (path, role) in &mut options.backends {
        if !path.starts_with(b"/") {
            let here = files::current_directory()?;
            *path = [&here[..], b"/", path].concat();
        }
        while path.len() > 1 && path.ends_with(b"/") {
            path.pop();
        }
        let opened = kernel::open_root(path);
        let opened =
            opened.map_err(|error| error.within(&format!("back end {}", printable(path))))?;
        let reach = reach::of(&opened)?;
        options.syncs |= reach.syncs;
        let Some(kind) = reach.alone.filter(|_| appends && *role != Role::Shadow) else {
            continue;
        };
        let text = format!(
            "back end {} is on {kind}: appends of several machines may overlap",
            printable(path)
        );
        if options.sync.as_deref() == Some(options::HOSTS) {
            return Err(Error::because(Errno::EOPNOTSUPP, text));
        }
        warnings.add(b"", text);
    }
    for (at, (path, _)) in options.backends.iter().enumerate() {
        if options.backends[..at]
            .iter()
            .any(|(other, _)| other == path)
        {
            let text = format!("back end {} is given twice", printable(path));
            return Err(Error::because(Errno::EINVAL, text));
        }
    }
    let (canonical, _) = options.roles()?;
    if options.sync.as_deref() == Some(options::HOSTS) {
        let first = &options.backends[canonical[0]].0;
        if let Some(text) = hosts::trouble(first, options.relay.as_deref()) {
            warnings.add(b"", format!("{text}; appends use locks"));
        }
    }
    let mut travelling = mount.clone();
    travelling.source = options::source_text(&options.backends);
    let keep = |name: &str| !matches!(name, "plfsrc" | "host" | "num_hostdirs" | "workload");
    travelling.options.retain(|(name, _)| keep(name));
    let mut put = |name: &str, value: Vec<u8>| travelling.options.push((name.into(), value));
    put("host", options.host.clone().unwrap_or_else(host::host_name));
    put("num_hostdirs", host::decimal(options.hostdirs));
    put("workload", options.workload.name().to_vec());
    put(CHECKSUM, host::decimal(options.sum().into()));
    if options.syncs {
        put(SYNCS, Vec::new());
    }
    if let Some(run) = environment.run_directory {
        let path = [
            run,
            b"/plfs.",
            format!("{:016x}", files::random()).as_bytes(),
        ]
        .concat();
        Shared::prepare(&path)?;
        put(COUNTERS, path);
    }
    // What was still open when its last process was killed.
    filesystem::PlfsFs::new(Arc::new(setup(&travelling, environment)?.0)).clean();
    Ok(Prepared {
        mount: travelling,
        warnings,
        summary: match options.backends.len() {
            1 => String::from("PLFS containers in a directory"),
            count => format!("PLFS containers on {count} back ends"),
        },
        index: None,
    })
}

fn read_plfsrc(file: &[u8]) -> Result<Plfsrc> {
    let (mut read, mut files) = (Plfsrc::default(), Vec::from([file.to_vec()]));
    let mut done = 0;
    while done < files.len() {
        let path = files[done].clone();
        let named = |error: Error| error.within(&format!("{}", printable(&path)));
        let text = file_text(&path).map_err(named)?;
        read.read(&text).map_err(named)?;
        done += 1;
        for more in core::mem::take(&mut read.includes) {
            if files.len() >= MOST_INCLUDES {
                return Err(named(Error::because(
                    Errno::EINVAL,
                    "too many files are included",
                )));
            }
            if !files.contains(&more.as_bytes().to_vec()) {
                files.push(more.into_bytes());
            }
        }
    }
    Ok(read)
}

fn file_text(path: &[u8]) -> Result<String> {
    let file = files::open_read(path)?;
    let mut bytes = alloc::vec![0; LARGEST_PLFSRC];
    let read = files::read_at(&file, 0, &mut bytes)?;
    bytes.truncate(read);
    String::from_utf8(bytes).map_err(|_| Error::because(Errno::EINVAL, "it is not UTF-8"))
}

fn setup(mount: &Mount, environment: &Environment<'_>) -> Result<(Setup, Workload)> {
    let options = Options::travelled(mount)?;
    let workload = options.workload;
    let (canonical, shadow) = match workload {
        // Directories are on all back ends, links on the first.
        Workload::SmallFile => (Vec::from([0]), Vec::from([0])),
        _ => options.roles()?,
    };
    let keeper = environment.keeper;
    let backends = options.backends.iter().map(|(path, _)| {
        let root = kernel::open_root(path);
        let root = root.map_err(|error| error.within(&format!("back end {}", printable(path))))?;
        Ok(Backend {
            path: path.clone(),
            root: keeper.keep(root),
        })
    });
    let service = match options.sync.as_deref() {
        // Where all hosts look.
        Some(options::HOSTS) => {
            let first = &options.backends[canonical[0]].0;
            Some(service::Service::of_hosts(first, options.relay))
        }
        Some(path) => service::Service::at(path),
        None => None,
    };
    let setup = Setup {
        keeper,
        backends: backends.collect::<Result<_>>()?,
        canonical,
        shadow,
        hostdirs: options.hostdirs,
        host: options.host.unwrap_or_else(host::host_name),
        checksum: options.checksum,
        shared: Shared::open(options.counters.as_deref()),
        service,
        lazy: options.lazy,
        at_sync: options.at_sync,
        lock_appends: options.lock_appends,
        syncs: options.syncs,
        extents: usize::try_from(options.memory * (1 << 20) / EXTENT).unwrap_or(usize::MAX),
        flat: workload != Workload::SharedFile,
        read_only: options.read_only,
        clock: Clock::new(),
        home: AtomicUsize::new(keeper.table()),
    };
    Ok((setup, workload))
}

/// The file system of a mount that [`prepare`] made ready.
pub fn open(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    Ok(match setup(mount, environment)? {
        (setup, Workload::SmallFile) => Box::new(PathAdapter::new(small::SmallFs::new(setup))),
        (setup, _) => Box::new(PathAdapter::new(filesystem::PlfsFs::new(Arc::new(setup)))),
    })
}

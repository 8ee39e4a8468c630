//! What Android's sdcard daemon showed until 2018, as a layer and, over a directory, as a file
//! system.
//!
//! ```text
//! name  -> SdcardFs: refused names -> graft (one obb) -> casefold (ASCII) -> the driver below
//! node  -> its path -> derive: kind, user, owner, group, mode (packages: the owners of apps)
//! ```

mod core;
mod derive;
mod file;
mod filesystem;
mod graft;
mod options;
mod packages;
mod stored;

pub use options::OPTIONS;

use crate::{
    AccessTimes, Declared, DriverInfo, Environment, OtherUser, Prepared, Progress, Source,
    casefold::{self, CasefoldFs, Folding},
    check_names, invalid_option, passthrough,
};
use alloc::{boxed::Box, format};
use culvert::{
    Caller, Errno, Error, FileSystem, Layered, Result,
    mount::{Mount, Options},
};
use culvert_sys::process;
use filesystem::SdcardFs;
use graft::GraftFs;
use options::Settings;

/// What `culvert drivers sdcard` shows.
pub const INFO: DriverInfo = DriverInfo {
    name: "sdcard",
    summary: "storage as Android's sdcard daemon shows it: derived owners and modes, three views",
    options: OPTIONS,
};

/// What the file system declares.
pub const DECLARED: Declared = Declared {
    source: Source::Directory,
    recognises: |_| false,
    other_user: OtherUser::Opens,
    access_times: AccessTimes::Source,
    may_be_bound: None,
    below_layers: None,
    branch_nodes: None,
};

/// Checks the layer's options in the launcher.
pub fn prepare(options: Options, environment: &Environment<'_>) -> Result<Options> {
    prepared("sdcard.", options, environment)
}

fn prepared(prefix: &str, mut options: Options, environment: &Environment<'_>) -> Result<Options> {
    let settings = Settings::parse(prefix, &options)?;
    if settings.derives_groups && !(environment.alone && process::geteuid() == 0) {
        let why = "it gives files away, which takes root's rights: use culvert mount, as root";
        let text = format!("option {prefix}derivegid: {why}");
        return Err(Error::because(Errno::EPERM, text));
    }
    if let Some((name, value)) = options.iter().find(|(name, _)| name == casefold::LOCK) {
        let name = [prefix, name].concat();
        return Err(invalid_option(&name, value, "it is made for each run"));
    }
    if let Some((name, path)) = casefold::lock(environment)? {
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
    let settings = Settings::parse("sdcard.", options)?;
    let names = casefold::names(options, environment);
    let folded = Layered(CasefoldFs::new(below, Folding::Ascii, false, names));
    let mut inner: Box<dyn FileSystem> = Box::new(folded);
    if settings.multiuser && !settings.own_obb {
        let maker = settings.server(&Caller::SYSTEM);
        inner = Box::new(Layered(GraftFs::new(inner, environment.keeper, &maker)));
    }
    Ok(Box::new(Layered(SdcardFs::new(inner, settings))))
}

/// The options of a mount of the type: its own, and the mount of the directory below.
fn split(mount: &Mount) -> (Options, Mount) {
    let own = |name: &str| OPTIONS.has(name);
    let all = mount.options.iter().cloned();
    let (own, below) = all.partition(|(name, _)| own(name));
    let below = Mount {
        options: below,
        ..mount.clone()
    };
    (own, below)
}

/// Checks source and options of a mount of the type.
pub fn prepare_mount(
    mount: &Mount,
    environment: &Environment<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    let (options, below) = split(mount);
    let mut foreign = below.clone();
    foreign
        .options
        .retain(|(name, _)| !matches!(name.as_str(), "ro" | "rw"));
    check_names(OPTIONS, &foreign)?;
    let options = prepared("", options, environment)?;
    let mut prepared = passthrough::prepare(&below, environment, progress)?;
    prepared.mount.options.extend(options);
    Ok(prepared)
}

/// The file system of a mount that [`prepare_mount`] returned.
pub fn open_mount(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    let (options, mut below) = split(mount);
    if let Some(change) = passthrough::DECLARED.below_layers {
        change(&mut below);
    }
    let below = passthrough::open(&below, environment)?;
    open(&options, environment, below)
}

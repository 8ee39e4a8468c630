//! The file system of a FUSE server that runs beside the programs, through slots of shared memory
//! ([`culvert_client`], [`culvert_slots`]).
//!
//! The server was started, and has answered INIT, before the mount travels; option `slots` says
//! where it is asked. The others are those that it has given mount(2).

use crate::option_table::option_table;
use crate::{
    AccessTimes, Declared, Environment, OptionTable, OtherUser, Prepared, Progress, Source,
    Warnings, check_names, invalid_option,
};
use alloc::{boxed::Box, ffi::CString, string::ToString};
use culvert::{Errno, Error, FileSystem, Result, mount::Mount};
use culvert_client::{FuseFs, Settings};
use culvert_slots::Client;
use culvert_sys::trust;

/// What the driver is called. With a dot and a server's name behind it, it is the type of mounts
/// that this server is started for.
pub const NAME: &str = "fuse";

/// Whether type `driver` is that of a FUSE server.
#[must_use]
pub fn is_served(driver: &str) -> bool {
    let rest = driver.strip_prefix(NAME);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// What the driver declares.
pub const DECLARED: Declared = Declared {
    source: Source::Name,
    recognises: |_| false,
    other_user: OtherUser::Refused("a FUSE server serves the user who has started it"),
    access_times: AccessTimes::Own,
    may_be_bound: None,
    below_layers: None,
    branch_nodes: None,
};

/// What `culvert drivers fuse` shows.
pub const OPTIONS: OptionTable = option_table![
    (
        "command",
        "LINE",
        "the server's command, %m for the target (with type=fuse.NAME: NAME)"
    ),
    (
        "name",
        "NAME",
        "which of several without a source: runs with the same name have one server"
    ),
    (
        "restart",
        "",
        "a server that dies is started again; what was open gets errors"
    ),
    (
        "start-timeout",
        "SECONDS",
        "how long the server may take until it serves (default: 30)"
    ),
    (
        "slots",
        "DIRECTORY",
        "where the server is asked; filled in when it is started"
    ),
    (
        "default_permissions",
        "",
        "modes decide who may do what; else the server does"
    ),
    (
        "max_read",
        "BYTES",
        "the most bytes that are asked for at once"
    ),
    ("ro", "", "read-only"),
    ("rw", "", "writable (default)"),
];

/// Where the server of `mount` is asked.
fn slots(mount: &Mount) -> Result<&[u8]> {
    mount.option("slots").ok_or_else(|| {
        Error::because(
            Errno::EINVAL,
            "a FUSE server is started by culvert run, as type=fuse.NAME",
        )
    })
}

/// Nothing is to be done: the server was started before.
///
/// # Errors
/// `EINVAL`: it was not, or an option is wrong.
pub fn prepare(
    mount: &Mount,
    _: &Environment<'_>,
    _: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    check_names(OPTIONS, mount)?;
    slots(mount)?;
    settings(mount)?;
    Ok(Prepared {
        mount: mount.clone(),
        warnings: Warnings::default(),
        summary: "a FUSE server".to_string(),
        index: None,
    })
}

/// What the server has said of its mount.
fn settings(mount: &Mount) -> Result<Settings> {
    let max_read = mount.option("max_read").map(|value| {
        let number = str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok());
        number.ok_or_else(|| invalid_option("max_read", value, "not a number of bytes"))
    });
    Ok(Settings {
        default_permissions: mount.option("default_permissions").is_some(),
        read_only: mount.read_only(),
        max_read: max_read.transpose()?.unwrap_or(0),
        ..Settings::default()
    })
}

/// The file system of the server of `mount`, in this process.
///
/// # Errors
/// `EACCES`: the process has become another user than the server's; `ENOENT`: the server is gone;
/// `EPROTO`: there is no version of the protocol that both speak.
pub fn open(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    let directory = CString::new(slots(mount)?).map_err(|_| Errno::EINVAL)?;
    let stat = trust::directory(&directory, trust::user()).map_err(|why| why.errno())?;
    let owner = (stat.stat().st_uid, stat.stat().st_gid);
    let keeper = environment.keeper;
    let client = Client::open_with(&directory, environment.interrupted, move |descriptor| {
        Ok(keeper.keep(descriptor))
    })?;
    let settings = Settings {
        owner,
        caller: environment.caller,
        in_use: in_use(environment),
        place: culvert_client::place(environment.run_directory.unwrap_or_default(), &mount.target),
        ..settings(mount)?
    };
    Ok(Box::new(FuseFs::new(Box::new(client), settings)?))
}

/// As the client asks it: attributes are the server's, which is not asked here.
fn in_use(environment: &Environment<'_>) -> Option<culvert_client::InUse> {
    let asked = environment.in_use?;
    // Leaked: lives as long as the process, once for each mount.
    Some(Box::leak(Box::new(move |node| {
        asked(node, &|_| Err(Errno::EOPNOTSUPP.into()))
    })))
}

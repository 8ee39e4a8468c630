//! The layer `bind`: other owners and modes, and rules of what may be done, as bindfs has them.
//!
//! ```text
//! prepare:  names of users -> numbers (users), everything checked (options)
//! calls:    what is asked -> refused, changed (changes) -> the file system below
//!           what it answers -> as it is to be shown (shown)
//! ```
//!
//! Who may do what: where another owner or mode is shown than the file has, what is shown decides,
//! as in bindfs: the front end judges by it, and the operation is done with the rights of the
//! *mounter* below, which a kernel mount's server has, and in a run the program itself. All other
//! options leave it to the file system below, by the caller's own rights.

mod changes;
mod core;
mod created;
mod devices;
mod file;
mod filesystem;
mod links;
mod listed;
mod making;
mod numbers;
mod options;
mod pattern;
mod permissions;
mod rates;
mod refusals;
mod shown;
mod users;

pub use listed::OPTIONS;

use crate::{
    AccessTimes, Declared, DriverInfo, Environment, OptionTable, OtherUser, Prepared, Progress,
    Source, check_names, invalid_option, passthrough,
};
use alloc::{boxed::Box, format, string::String, vec::Vec};
use culvert::{
    Errno, Error, FileSystem, Layered, Result,
    mount::{Mount, Options},
};
use filesystem::BindFs;
use options::Settings;
use users::{Users, number};

/// What `culvert drivers bind` shows.
pub const INFO: DriverInfo = DriverInfo {
    name: "bind",
    summary: "other owners, modes and rules of what may be done, as bindfs",
    options: OPTIONS,
};

/// The options of type `bind`: a directory with the layer over it.
pub const DRIVER_OPTIONS: OptionTable =
    OptionTable(&[listed::LINES, passthrough::WRITABLE, passthrough::WATCH]);

/// What type `bind` declares.
pub const DECLARED: Declared = Declared {
    source: Source::Directory,
    recognises: |_| false,
    other_user: OtherUser::Opens,
    access_times: AccessTimes::Source,
    may_be_bound: None,
    below_layers: None,
    branch_nodes: None,
};

/// Checks the options in the launcher: users and groups become numbers.
pub fn prepare(options: Options, environment: &Environment<'_>) -> Result<Options> {
    let users = Users::of_machine();
    let mut travelling = Options::new();
    for (name, value) in options {
        let value = match name.as_str() {
            "force-user" | "create-for-user" => id(&name, &value, users.user(&value))?,
            "force-group" | "create-for-group" => id(&name, &value, users.group(&value))?,
            "mirror" | "mirror-only" => mirrored(&name, &value, &users)?,
            "map" => mapped(&name, &value, &users)?,
            "map-passwd" | "map-passwd-rev" | "map-group" | "map-group-rev" => {
                let pairs = pairs_of_file(&name, &value, &users)?;
                if !pairs.is_empty() {
                    travelling.push(("map".into(), pairs));
                }
                may_give(&name, environment)?;
                continue;
            }
            "forward-odirect" => {
                let why = "O_DIRECT is accepted, and not handed on";
                return Err(invalid_option(&name, &value, why));
            }
            listed::SHARED_RATES => {
                return Err(invalid_option(&name, &value, "it is made for each run"));
            }
            _ => value,
        };
        if matches!(
            name.as_str(),
            "map" | "uid-offset" | "gid-offset" | "create-for-user" | "create-for-group"
        ) {
            may_give(&name, environment)?;
        }
        if name == "enable-lock-forwarding" && environment.alone {
            let why = "on a kernel mount say --with posix-locks --with flock-locks";
            return Err(Error::because(
                Errno::EINVAL,
                format!("option {name}: {why}"),
            ));
        }
        travelling.push((name, value));
    }
    let settings = Settings::parse(&travelling)?;
    if (settings.read_rate.is_some() || settings.write_rate.is_some())
        && let Some(directory) = environment.run_directory.filter(|_| !environment.alone)
    {
        let shared = rates::create(directory);
        let shared =
            shared.map_err(|errno| Error::from(errno).within("what rates are counted in"))?;
        travelling.push((listed::SHARED_RATES.into(), shared));
    }
    Ok(travelling)
}

/// Refuses an option that takes root's rights where there are none.
fn may_give(name: &str, environment: &Environment<'_>) -> Result<()> {
    let why = match environment.alone {
        false => {
            "it needs root's rights over files, which the programs of a run do not lend each \
            other: use culvert mount, as root"
        }
        true if culvert_sys::process::geteuid() != 0 => {
            "it needs root's rights over files: mount as root"
        }
        true => return Ok(()),
    };
    Err(Error::because(
        Errno::EPERM,
        format!("option {name}: {why}"),
    ))
}

fn id(name: &str, value: &[u8], found: Option<u32>) -> Result<Vec<u8>> {
    let what = match name.ends_with("user") {
        true => "there is no such user",
        false => "there is no such group",
    };
    let found = found.ok_or_else(|| invalid_option(name, value, what))?;
    Ok(format!("{found}").into_bytes())
}

/// The users in a list of users and groups.
fn mirrored(name: &str, value: &[u8], users: &Users) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for one in options::list(value) {
        match one.strip_prefix(b"@") {
            Some(group) => {
                let gid = users.group(group);
                let gid = gid.ok_or_else(|| invalid_option(name, one, "there is no such group"))?;
                all.extend(users.members(gid));
            }
            None => {
                let uid = users.user(one);
                all.push(uid.ok_or_else(|| invalid_option(name, one, "there is no such user"))?);
            }
        }
    }
    // A group that has no members lets nobody in, which is no list without users.
    if all.is_empty() {
        let why = "there are no such users";
        return Err(invalid_option(name, value, why));
    }
    let all: Vec<String> = all.iter().map(|uid| format!("{uid}")).collect();
    Ok(all.join(":").into_bytes())
}

/// A list of pairs, in numbers.
fn mapped(name: &str, value: &[u8], users: &Users) -> Result<Vec<u8>> {
    let mut all = Vec::<String>::new();
    for pair in options::list(value) {
        let mut sides = Vec::new();
        for side in pair.split(|&byte| byte == b'/') {
            let (mark, found) = match side.strip_prefix(b"@") {
                Some(group) => ("@", users.group(group)),
                None => ("", users.user(side)),
            };
            let found = found
                .ok_or_else(|| invalid_option(name, side, "there is no such user or group"))?;
            sides.push(format!("{mark}{found}"));
        }
        all.push(sides.join("/"));
    }
    Ok(all.join(":").into_bytes())
}

/// The same of a file like passwd(5) or group(5): from the number there to that of the name here.
/// Names that are not known here are left out, as bindfs does.
fn pairs_of_file(name: &str, path: &[u8], users: &Users) -> Result<Vec<u8>> {
    let content = users::content(path);
    let content = content.map_err(|errno| invalid_option(name, path, errno.text()))?;
    let (mark, is_group) = match name.starts_with("map-group") {
        true => ("@", true),
        false => ("", false),
    };
    let mut all = Vec::new();
    for fields in users::entries(&content) {
        let here = match is_group {
            true => users.group(fields[0]),
            false => users.user(fields[0]),
        };
        let there = fields.get(2).and_then(|id| number(id));
        let Some((there, here)) = there.zip(here) else {
            continue;
        };
        all.push(match name.ends_with("-rev") {
            true => format!("{mark}{here}/{mark}{there}"),
            false => format!("{mark}{there}/{mark}{here}"),
        });
    }
    Ok(all.join(":").into_bytes())
}

/// Puts the layer over `below`.
pub fn open(
    options: &Options,
    environment: &Environment<'_>,
    below: Box<dyn FileSystem>,
) -> Result<Box<dyn FileSystem>> {
    let settings = Settings::parse(options)?;
    over(settings, environment, below)
}

fn over(
    settings: Settings,
    environment: &Environment<'_>,
    below: Box<dyn FileSystem>,
) -> Result<Box<dyn FileSystem>> {
    let layer = BindFs::new(below, settings, environment)?;
    Ok(Box::new(Layered(layer)))
}

/// `mount`, of type `bind`, as the directory below, and the options of the layer.
fn parts(mount: &Mount) -> (Mount, Options) {
    let own = |name: &str| OPTIONS.has(name);
    let (layer, below) = mount
        .options
        .iter()
        .cloned()
        .partition(|(name, _)| own(name));
    let below = Mount {
        driver: "passthrough".into(),
        options: below,
        ..mount.clone()
    };
    (below, layer)
}

/// The first moment of a mount of type `bind`.
pub fn prepare_driver(
    mount: &Mount,
    environment: &Environment<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Prepared> {
    check_names(DRIVER_OPTIONS, mount)?;
    let (below, layer) = parts(mount);
    let layer = prepare(layer, environment)?;
    let prepared = passthrough::prepare(&below, environment, progress)?;
    let mut travelling = Mount {
        driver: mount.driver.clone(),
        ..prepared.mount
    };
    travelling.options.extend(layer);
    Ok(Prepared {
        mount: travelling,
        ..prepared
    })
}

/// The second.
pub fn open_driver(mount: &Mount, environment: &Environment<'_>) -> Result<Box<dyn FileSystem>> {
    let (mut below, layer) = parts(mount);
    if let Some(change) = passthrough::DECLARED.below_layers {
        change(&mut below);
    }
    let below = passthrough::open(&below, environment)?;
    let mut settings = Settings::parse(&layer)?;
    settings.source = Some(mount.source.clone()).filter(|_| settings.resolves);
    over(settings, environment, below)
}

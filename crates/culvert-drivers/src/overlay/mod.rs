//! Lower layers that stay as they are, and one above that takes the changes: overlayfs's format,
//! over layers that are any mounts.
//!
//! ```text
//! prepare:  options -> checked; what was left in the work directory is removed
//! open:     the layers' file systems -> OverlayFs
//! calls:    node -> its parts in layers -> the uppermost answers
//! changes:  copied up, then changed there
//! ```

mod copy_up;
mod file;
mod filesystem;
mod listing;
mod looking;
mod making;
mod marks;
mod moving;
mod nodes;
mod options;
mod origin;
mod own_origin;
mod owner;
mod parts;
mod places;
mod recalling;
mod redirects;
mod refreshing;
mod remembered;
mod removing;
mod state;

pub use options::{DECLARED, OPTIONS};

use crate::archive::{host, warning::printable};
use crate::name_changes::NameChanges;
use crate::{Environment, Prepared, Progress, Warnings, passthrough::mix};
use alloc::{boxed::Box, format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::AtomicU64;
use culvert::{Caller, Capabilities, Errno, Error, FileSystem, Node, Result, mount::Mount};
use culvert_sys::{fd::BorrowedFd, fs::fstat, process, sync::OnceCell};
use options::Settings;
use state::{Core, Layer, Part, Parts};

/// What a number has that is no inode's.
const MADE: u64 = 1 << 63;

/// The work directory of an upper layer that has none beside it, in its root.
const HIDDEN: &[u8] = b".culvert-overlay-work";

/// The directory in the user's work directory, as the kernel has it.
const WORK: &[u8] = b"work";

type OpenBranch = fn((&str, usize), &Mount, &Environment<'_>) -> Result<Box<dyn FileSystem>>;
type Tell<'a> = &'a mut dyn FnMut(Progress);
type PrepareBranch = fn(&Mount, &Environment<'_>, Tell<'_>) -> Result<Prepared>;

/// What is known of drivers, of which an overlay knows none.
pub struct Drivers {
    /// Opens a layer, one of so many of a mount of the driver of that name.
    pub open: OpenBranch,
    /// Prepares a layer.
    pub prepare: PrepareBranch,
}

/// The number of `node` of a layer with `salt`.
fn numbered(salt: Option<u64>, node: Node) -> Node {
    match salt {
        None => node,
        Some(salt) => Node((mix(salt ^ mix(node.0)) & !MADE).max(1)),
    }
}

/// What tells the nodes of the layer `mount` from those of others.
fn salt(mount: &Mount) -> u64 {
    let driver = mount.driver.as_bytes().iter();
    let bytes = driver.chain(&[0]).chain(&mount.source);
    bytes.fold(0, |sum, &byte| mix(sum ^ u64::from(byte)))
}

/// The overlay's number for `node` of layer `branch`.
pub fn number(branch: &Mount, node: Node) -> Node {
    numbered(Some(salt(branch)), node)
}

fn wrong(option: &str, why: impl core::fmt::Display) -> Error {
    Error::because(Errno::EINVAL, format!("option {option}: {why}"))
}

/// Checks options and layers, and empties the work directory.
pub fn prepare(
    mount: &Mount,
    (environment, progress): (&Environment<'_>, Tell<'_>),
    drivers: &'static Drivers,
) -> Result<Prepared> {
    let settings = Settings::parse(mount)?;
    let mut mount = mount.clone();
    for (at, branch) in mount.branches.iter().enumerate() {
        let same = |other: &Mount| other.driver == branch.driver && other.source == branch.source;
        if mount.branches[..at].iter().any(same) {
            let source = printable(&branch.source);
            let text = format!("layer {source} is given twice");
            return Err(Error::because(Errno::EINVAL, text));
        }
    }
    if settings.upper && mount.branches.len() < 2 {
        return Err(wrong("lowerdir", "there is none"));
    }
    if settings.upper {
        prepare_upper(&mut mount, (environment, progress), drivers)?;
    }
    if !settings.user_xattr && !may_trust() {
        mount.options.push(("userxattr".into(), Vec::new()));
    }
    let ready = Settings::travelled(&mount)?;
    if !ready.read_only {
        // Whether it can be had, and nothing of a mount before this one is in it.
        let fs = (drivers.open)(
            (&mount.driver, mount.branches.len()),
            &mount.branches[0],
            environment,
        )?;
        if fs.capabilities().read_only {
            return Err(wrong("upperdir", "it is read-only"));
        }
        let (_, work) = roots(&*fs, &ready)?;
        if let Some(work) = work {
            if let Some(run) = environment.run_directory {
                let path = Settings::work(&mount).unwrap_or(&mount.branches[0].source);
                owner::take(&*fs, work, path, run)?;
            }
            Core::empty_work(&*fs, work);
        }
    }
    let layers = mount.branches.len();
    Ok(Prepared {
        warnings: Warnings::default(),
        summary: format!("{layers} layers"),
        index: None,
        mount,
    })
}

/// Whether this process may set `trusted.` attributes.
fn may_trust() -> bool {
    const SYS_ADMIN: u32 = 1 << 21;
    process::capget().is_ok_and(|[[effective, ..], _]| effective & SYS_ADMIN != 0)
}

/// Makes the first branch the directory that upperdir and workdir lie in: files are moved from one
/// to the other.
fn prepare_upper(
    mount: &mut Mount,
    (environment, progress): (&Environment<'_>, Tell<'_>),
    drivers: &Drivers,
) -> Result<()> {
    let is_directory = |path: &[u8]| {
        host::status_of(path)
            .ok()
            .filter(host::Status::is_directory)
    };
    let upper = mount.branches[0].source.clone();
    let Some(found) = is_directory(&upper).filter(|_| upper.first() == Some(&b'/')) else {
        return match Settings::work(mount) {
            Some(_) => Err(wrong("workdir", "upperdir is no directory and needs none")),
            None => Ok(()),
        };
    };
    // Of the directory above it nothing else is known.
    let own = |name: &str| matches!(name, "identity" | "bound" | "rw");
    if !mount.branches[0].options.iter().all(|(name, _)| own(name)) {
        return Err(wrong("upperdir", "a directory has no options or layers"));
    }
    let work = Settings::work(mount)
        .ok_or_else(|| wrong("upperdir", "a directory needs workdir beside it"))?
        .to_vec();
    let there = is_directory(&work)
        .ok_or_else(|| wrong("workdir", format!("{} is no directory", printable(&work))))?;
    let inside = |one: &[u8], other: &[u8]| {
        one.strip_prefix(other)
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    };
    if inside(&upper, &work) || inside(&work, &upper) {
        return Err(wrong(
            "workdir",
            "it must not lie in upperdir, nor the reverse",
        ));
    }
    let both = upper.iter().zip(&work);
    let same = both.take_while(|(one, other)| one == other).count();
    let end = upper[..same].iter().rposition(|&byte| byte == b'/');
    let above = match end.unwrap_or(0) {
        0 => b"/".to_vec(),
        end => upper[..end].to_vec(),
    };
    let over = is_directory(&above).map(|above| above.identity.0);
    if found.identity.0 != there.identity.0 || over != Some(found.identity.0) {
        let why =
            "it must lie on the file system of upperdir, and so must the directory above both";
        return Err(wrong("workdir", why));
    }
    let below = |path: &[u8]| match &above[..] {
        b"/" => path[1..].to_vec(),
        above => path[above.len() + 1..].to_vec(),
    };
    let source = Mount {
        source: above.clone(),
        options: Vec::new(),
        ..mount.branches[0].clone()
    };
    mount.branches[0] = (drivers.prepare)(&source, environment, progress)?.mount;
    let options = [
        (options::UPPER_BELOW, below(&upper)),
        (options::WORK_BELOW, below(&work)),
    ];
    let named = options.map(|(name, value)| (String::from(name), value));
    mount.options.extend(named);
    Ok(())
}

/// The upper layer's root in its file system, and its work directory, which is made if it is
/// missing.
fn roots(fs: &dyn FileSystem, settings: &Settings) -> Result<(Node, Option<Node>)> {
    let system = &Caller::SYSTEM;
    let walk = |path: &[u8]| {
        let mut here = fs.root();
        for name in path
            .split(|&byte| byte == b'/')
            .filter(|name| !name.is_empty())
        {
            here = fs.lookup(system, here, name)?.attributes.node;
        }
        Ok::<_, Error>(here)
    };
    let (root, (above, name)) = match &settings.below {
        Some([upper, work]) => (walk(upper)?, (walk(work)?, WORK)),
        None => (fs.root(), (fs.root(), HIDDEN)),
    };
    if settings.read_only {
        return Ok((root, None));
    }
    let found = match fs.lookup(system, above, name) {
        Err(error) if error.errno() == Errno::ENOENT => {
            match fs.mkdir(system, above, name, 0o700) {
                Err(error) if error.errno() == Errno::EEXIST => fs.lookup(system, above, name)?,
                made => made.map_err(|error| error.within("option workdir"))?,
            }
        }
        found => found?,
    };
    Ok((root, Some(found.attributes.node)))
}

/// The overlay that `mount` is.
pub fn open(
    mount: &Mount,
    environment: &Environment<'_>,
    drivers: &'static Drivers,
) -> Result<Box<dyn FileSystem>> {
    let settings = Settings::travelled(mount)?;
    let count = mount.branches.len();
    let mut layers = Vec::new();
    for (at, branch) in mount.branches.iter().enumerate() {
        let fs = (drivers.open)((&mount.driver, count), branch, environment)?;
        let can = fs.capabilities();
        let root = fs.root();
        let is_upper = at == 0 && settings.upper;
        let device = fs.handed_down(root).map(BorrowedFd::number);
        let device = device.and_then(|root| fstat(root).ok());
        let device = device.map(|found| found.st_dev);
        layers.push(Layer {
            device,
            salt: Some(match device {
                Some(device) => mix(device),
                None => salt(branch),
            }),
            docker: match is_upper {
                true => settings.docker_upper,
                false => settings.docker.unwrap_or(can.immutable),
            },
            uuid: OnceCell::new(),
            root,
            fs,
        });
    }
    let first = layers.first().and_then(|layer| layer.device);
    if first.is_some() && layers.iter().all(|layer| layer.device == first) {
        for layer in &mut layers {
            layer.salt = None;
        }
    }
    let mut work = None;
    if settings.upper {
        let (root, found) = roots(&*layers[0].fs, &settings)?;
        layers[0].root = root;
        work = found;
    }
    let number = layers
        .iter()
        .zip(&mount.branches)
        .fold(0, |sum, (layer, branch)| {
            mix(sum ^ salt(branch) ^ layer.root.0)
        });
    let directory = environment.run_directory.filter(|_| !environment.alone);
    let path = directory.map(|run| [run, format!("/overlay-{number:x}.lock").as_bytes()].concat());
    let lowest = usize::from(settings.upper);
    let part = |index: usize| Part {
        layer: index,
        node: layers[index].root,
        attribute_whiteouts: false,
    };
    let mut parts = Parts {
        upper: settings.upper.then(|| part(0)),
        lowers: (lowest..count).map(part).collect(),
    };
    let root = numbered(layers[0].salt, layers[0].root);
    let capabilities = capabilities(&layers, &settings);
    let nodes = nodes::Nodes::new(root, parts.clone(), environment.keeper);
    let core = Core {
        capabilities,
        nodes,
        remembered: remembered::Remembered::default(),
        names: NameChanges::new(path.as_deref(), environment.keeper),
        work,
        keeper: environment.keeper,
        elevates: environment.alone && process::geteuid() == 0,
        root,
        seen: AtomicU64::new(0),
        foreign: AtomicU64::new(0),
        settings,
        layers,
    };
    // What the roots' marks say.
    let mut last = parts.lowers.len();
    for (at, part) in parts.upper.iter_mut().chain(&mut parts.lowers).enumerate() {
        let marks = core.marks(part.layer, part.node, culvert::FileKind::Directory)?;
        part.attribute_whiteouts = marks.attribute_whiteouts;
        if marks.opaque {
            last = last.min(at + 1 - lowest);
        }
    }
    parts.lowers.truncate(last);
    core.nodes.with(root, |known| known.parts = parts)?;
    Ok(Box::new(filesystem::OverlayFs(Arc::new(core))))
}

/// What an overlay of `layers` can do.
fn capabilities(layers: &[Layer], settings: &Settings) -> Capabilities {
    let all =
        |each: fn(Capabilities) -> bool| layers.iter().all(|layer| each(layer.fs.capabilities()));
    let any =
        |each: fn(Capabilities) -> bool| layers.iter().any(|layer| each(layer.fs.capabilities()));
    let first = layers.first().map(|layer| layer.fs.capabilities());
    let first = first.unwrap_or_default();
    Capabilities {
        read_only: settings.read_only,
        case_insensitive: any(|can| can.case_insensitive),
        immutable: settings.read_only && all(|can| can.immutable),
        xattrs: any(|can| can.xattrs),
        hard_links: match settings.upper {
            true => first.hard_links,
            false => any(|can| can.hard_links),
        },
        checks_permissions: match settings.upper {
            true => first.checks_permissions,
            false => any(|can| can.checks_permissions),
        },
        transient_nodes: true,
        access_time_lags: any(|can| can.access_time_lags),
        size_at_sync: any(|can| can.size_at_sync),
        locks: all(|can| can.locks),
        polls: any(|can| can.polls),
        // A file is copied up while others write it.
        parallel_writes: false,
        waits: any(|can| can.waits),
    }
}

//! How a process becomes one of a run: it reads what is mounted there.

use crate::files::{OwnedFd, c_string, dup_from, stat_path};
use crate::{Run, ShadowName, holders, internal, state::State, task};
use alloc::{boxed::Box, format, vec::Vec};
use core::fmt;
use culvert::{Errno, mount::Mount};
use culvert_mounts::{MountId, MountTable, OpenDriver};
use culvert_sys::fd::{self, CWD};
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::raw::general::{STATX_ATTR_MOUNT_ROOT, STATX_INO};
use culvert_sys::trust::{Opened, Why};

/// Why a process cannot be one of a run.
pub enum Refusal {
    /// The run's directory is not to be believed, or not to be found.
    Directory(Why),
    /// The file that says what is mounted, likewise.
    Mounts(Why),
    /// A mount cannot be added.
    Mount(Errno),
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOUNTS: &str = "the file that says what is mounted";
        match self {
            Self::Directory(why) => write!(out, "the run directory cannot be used: {why}"),
            Self::Mounts(Why::Failed(errno)) => write!(out, "{MOUNTS}: {errno}"),
            Self::Mounts(why) => write!(out, "{MOUNTS}: {why}"),
            Self::Mount(errno) => write!(out, "a mount cannot be added: {errno}"),
        }
    }
}

/// The directory of the kernel's that is a mount's target.
pub struct Target {
    /// Its device and inode.
    pub identity: (u64, u64),
    /// Whether it may be the root of a mount of the kernel's: `false` is certain.
    pub may_be_root: bool,
}

/// What the kernel finds at `path`.
fn target(path: &[u8]) -> Option<Target> {
    let path = c_string(path);
    let told = fs::statx(CWD, &path, AtFlags::NO_AUTOMOUNT, STATX_INO);
    if let Ok(found) = told
        && found.stx_attributes_mask & u64::from(STATX_ATTR_MOUNT_ROOT) != 0
    {
        let device = device_number(found.stx_dev_major, found.stx_dev_minor);
        return Some(Target {
            identity: (device, found.stx_ino),
            may_be_root: found.stx_attributes & u64::from(STATX_ATTR_MOUNT_ROOT) != 0,
        });
    }
    if let Err(Errno::ENOENT | Errno::ENOTDIR) = told {
        return None;
    }
    // Before Linux 5.8, or a filter.
    let found = stat_path(&path).ok()?;
    Some(Target {
        identity: (found.st_dev, found.st_ino),
        may_be_root: true,
    })
}

/// As `st_dev` has it (`new_encode_dev`, include/linux/kdev_t.h; makedev(3)).
fn device_number(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xffff_f000) << 32 | (minor & 0xffff_ff00) << 12 | (major & 0xfff) << 8 | minor & 0xff
}

/// What is mounted in the run whose directory is open, and what is known of images: as the state
/// says that is open in `lock`, or else the directory.
fn mounted_in(opened: &Opened, lock: i32) -> Result<(Vec<Mount>, &'static [u8]), Refusal> {
    let decode = |mounts: &[u8]| culvert::mount::decode(mounts);
    if let Some(content) = Run::inherited(opened, lock)
        // Kept: what it says of images is looked at again and again.
        && let Some(state) = State::decode(content.leak())
        && let Ok(mounts) = decode(state.mounts)
    {
        return Ok((mounts, state.images));
    }
    let content = Run::mounts(opened).map_err(Refusal::Mounts)?;
    let mounts = decode(&content).map_err(|_| Refusal::Mounts(Why::Failed(Errno::EINVAL)))?;
    Ok((mounts, &[]))
}

/// Closes the run directory. An error where no second descriptor could be open beside it: code that
/// a program maps could not be rewritten, which takes one beside the program's own.
fn close_both(directory: Opened) -> Result<(), Errno> {
    let directory = directory.release();
    let second = dup_from(directory, 0, true);
    let both = second.map(|second| (directory.min(second), directory.max(second)));
    if let Ok((low, high)) = both
        && high == low + 1
        && fd::close_range(low as u32, high as u32, 0).is_ok()
    {
        return Ok(());
    }
    drop(OwnedFd::from_raw(directory));
    second.map(|second| drop(OwnedFd::from_raw(second)))
}

/// Makes this process one of the run in `directory`, which the inherited `lock_descriptor` keeps.
/// `interrupted` says whether a signal has come; `mounted` is told each mount, and what its target
/// is to the kernel, unless its source is bound over it.
pub fn enter(
    directory: &[u8],
    lock_descriptor: i32,
    interrupted: Option<fn() -> bool>,
    mut mounted: impl FnMut(&Mount, Option<Target>),
) -> Result<&'static Run, Refusal> {
    let (run, opened) = Run::open(directory).map_err(Refusal::Directory)?;
    let (specifications, images_known) = mounted_in(&opened, lock_descriptor)?;
    let run = Run {
        images_known,
        interrupted,
        ..run
    };
    close_both(opened).map_err(|errno| Refusal::Directory(Why::Failed(errno)))?;
    let mut mounts = MountTable::new();
    for (mount, specification) in (0..).map(MountId).zip(&specifications) {
        // Where the source is bound over the target, what a native call finds there is right, and
        // its identity is that of the source, too.
        let bound = culvert_drivers::binding::is_bound(specification);
        let target = (!bound).then(|| target(&specification.target)).flatten();
        let identity = target.as_ref().map(|found| found.identity);
        if !bound {
            mounted(specification, target);
        }
        let open = opener(mount, specification.clone(), interrupted);
        mounts
            .add(specification.target.clone(), identity, open)
            .map_err(|error| Refusal::Mount(error.errno()))?;
    }
    Ok(crate::join(run, mounts, specifications, lock_descriptor))
}

/// What opens `mount`, which is so specified.
pub(crate) fn opener(
    mount: MountId,
    specification: Mount,
    interrupted: Option<fn() -> bool>,
) -> OpenDriver {
    // Leaked: lives as long as the process, once for each mount.
    let in_use: culvert_drivers::InUse =
        Box::leak(Box::new(move |node, _: culvert_drivers::Attribute<'_>| {
            holders::is_held(ShadowName { mount, node })
        }));
    Box::new(move || {
        let place = culvert_drivers::Environment {
            alone: false,
            cache_directory: None,
            run_directory: Some(&crate::get().path),
            keeper: internal::keeper(),
            interrupted,
            caller: Some(task::caller),
            at_once: None,
            in_use: Some(in_use),
            source: None,
            book: None,
            open_nodes: None,
            library: None,
        };
        // Its source is the run's, which access(2)'s user need not reach.
        task::as_itself(|| culvert_drivers::open(&specification, &place)).map_err(unavailable)
    })
}

/// Makes this process, which is not intercepted, one that can use the mounts of the run in
/// `directory`: to write back what programs of the run have stored.
pub fn outside(directory: &[u8]) -> Result<(), Refusal> {
    // No signal is looked for: no hook's state says what came.
    enter(directory, -1, None, |_, _| ())?.hide_internal();
    Ok(())
}

/// The error of a mount whose source cannot be opened: not ENOENT or EACCES, which would say that a
/// *path* is missing or refused.
fn unavailable(error: culvert::Error) -> culvert::Error {
    match error.errno() {
        Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE | Errno::EINTR => error,
        _ => culvert::Error::because(Errno::EIO, format!("its source cannot be opened: {error}")),
    }
}

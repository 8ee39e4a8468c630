//! How a process becomes one of a run: it reads what is mounted there.

use crate::files::{c_string, stat_path};
use crate::{Run, ShadowName, holders, internal, task};
use alloc::{boxed::Box, format};
use core::fmt;
use culvert::{Errno, mount::Mount};
use culvert_mounts::{MountId, MountTable};
use culvert_sys::trust::Why;

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

/// Device and inode of the directory of the kernel's that is a mount's target.
pub type Identity = (u64, u64);

/// Makes this process one of the run in `directory`, which the inherited `lock_descriptor` keeps.
/// `interrupted` says whether a signal has come; `mounted` is told each mount, and what its target
/// is to the kernel, unless its source is bound over it.
pub fn enter(
    directory: &[u8],
    lock_descriptor: i32,
    interrupted: Option<fn() -> bool>,
    mut mounted: impl FnMut(&Mount, Option<Identity>),
) -> Result<&'static Run, Refusal> {
    let (run, opened) = Run::open(directory).map_err(Refusal::Directory)?;
    let content = Run::mounts(&opened).map_err(Refusal::Mounts)?;
    drop(opened);
    let specifications = culvert::mount::decode(&content)
        .map_err(|_| Refusal::Mounts(Why::Failed(Errno::EINVAL)))?;
    let mut mounts = MountTable::new();
    for (mount, specification) in (0..).map(MountId).zip(&specifications) {
        // Where the source is bound over the target, what a native call finds there is right, and
        // its identity is that of the source, too.
        let bound = culvert_drivers::binding::is_bound(specification);
        let identity = (!bound)
            .then(|| stat_path(&c_string(&specification.target)).ok())
            .flatten()
            .map(|found| (found.st_dev, found.st_ino));
        if !bound {
            mounted(specification, identity);
        }
        let driver = specification.clone();
        // Leaked: lives as long as the process, once for each mount.
        let in_use: culvert_drivers::InUse = Box::leak(Box::new(move |node| {
            holders::is_held(ShadowName { mount, node })
        }));
        let open = Box::new(move || {
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
            task::as_itself(|| culvert_drivers::open(&driver, &place)).map_err(unavailable)
        });
        mounts
            .add(specification.target.clone(), identity, open)
            .map_err(|error| Refusal::Mount(error.errno()))?;
    }
    Ok(crate::join(run, mounts, specifications, lock_descriptor))
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

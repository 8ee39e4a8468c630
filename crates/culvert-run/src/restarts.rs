//! Servers that have died and were started again (option `restart` of FUSE servers): the run has a
//! further mount at the same target then, in its file of mounts, which this process takes up.
//!
//! What is open stays on the mount that it was opened on, and gets its errors; paths lead to the
//! new one. So no request is sent to another server than the one that it was meant for, and none
//! twice.

use crate::{Run, joining, task};
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culvert::Errno;
use culvert::mount::{Mount, decode};
use culvert_mounts::{MountId, OpenDriver};
use culvert_sys::clock::Clock;

/// When the file was looked at last, by the clock's ticks.
static LOOKED: AtomicU64 = AtomicU64::new(0);

/// Whether the server of `mount` is started again when it dies.
pub fn is_restarted(mount: &Mount) -> bool {
    mount.option("restart").is_some()
}

/// Takes up what has taken the place of a server that has died. After each path that was looked up,
/// for which a driver may have been opened, and before drivers are opened that cannot be later.
#[inline]
pub fn look() {
    let run = crate::get();
    if run.has_restarts && may_open() {
        look_at(run);
    }
}

/// Another process of the run says that there is `mount`.
pub fn told_of(mount: MountId) {
    let run = crate::get();
    if run.has_restarts && usize::from(mount.0) >= run.mounts.count() && may_open() {
        take_up(run);
    }
}

/// Whether a driver may be opened now. A child of vfork would open it for its parent, but in its
/// own table of descriptors; a filter may forbid it; and paths may lead elsewhere by now.
fn may_open() -> bool {
    task::vfork_child().is_none() && !task::is_confined() && !task::has_left()
}

#[inline(never)]
fn look_at(run: &'static Run) {
    let may_follow = |&mount: &MountId| {
        let asked = run.specifications.get(mount.0 as usize);
        asked.is_none_or(is_restarted) && run.mounts.is_shown(mount)
    };
    let has_ended = |mount| {
        let driver = run.mounts.driver_if_open(mount);
        driver.is_some_and(|driver| driver.has_ended())
    };
    if !run.mounts.ids().filter(may_follow).any(has_ended) {
        return;
    }
    // Until there is another one, once a tick.
    let now = Clock::new().steady();
    if LOOKED.swap(now, Relaxed) != now {
        take_up(run);
    }
}

/// Takes up the mounts that the run has got since this process has read which there are.
pub fn take_up(run: &'static Run) {
    let known = run.mounts.count();
    let Some(mounts) = task::as_itself(|| mounts_of(run)) else {
        return;
    };
    let further = mounts.into_iter().skip(known).enumerate();
    let further: Vec<_> = further
        .filter_map(|(at, mount)| {
            let id = MountId(u16::try_from(known + at).ok()?);
            let target = mount.target.clone();
            Some((
                target,
                by_its_process(joining::opener(id, mount, run.interrupted)),
            ))
        })
        .collect();
    if !further.is_empty() {
        run.mounts.extend(known, further);
    }
}

/// `open`, but not in a child of vfork with a table of its own: another thread of its parent's may
/// have taken the mount up meanwhile.
fn by_its_process(open: OpenDriver) -> OpenDriver {
    Box::new(move || match task::vfork_child_with_table() {
        Some(_) => Err(Errno::ENOTCONN.into()),
        None => open(),
    })
}

/// What is mounted in the run now. None where its directory is not to be believed any more, or is
/// another user's by now.
fn mounts_of(run: &Run) -> Option<Vec<Mount>> {
    let (found, opened) = Run::open(&run.path).ok()?;
    let is_it = found.device == run.device && found.owner == run.owner;
    decode(&Run::mounts(&opened).ok()?).ok().filter(|_| is_it)
}

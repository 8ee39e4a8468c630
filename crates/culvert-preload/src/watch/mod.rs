//! inotify(7) on what only a driver knows.
//!
//! The kernel tells a watcher what happens to an inode of its own, and has none for a driver's
//! node. So a node that is watched gets one: its *mirror* in the run directory (`mirror.rs`), an
//! empty file, or a directory with an empty entry for each name that the watched directory has. The
//! program's inotify descriptor is the kernel's, its watch is on the mirror; and whoever does
//! something to a node that has a mirror does as much to the mirror: a name is made, removed or
//! renamed there too (`names.rs`), an open file has the mirror open beside it, in the same way and
//! as long (`description/companions.rs`), and what reads, writes or changes attributes sets the
//! times of the mirror, which the kernel tells as just that (`fsnotify_change`,
//! include/linux/fsnotify.h). So masks, cookies, the order and the merging of events, overflow,
//! poll, one-shot watches and the end of a watch are the kernel's own.
//!
//! A mirror stays until its node is gone or the run ends. Where nothing was ever watched in a run,
//! all this costs the test of one word.

mod mirror;
mod names;

use alloc::ffi::CString;
use core::ffi::CStr;
use core::sync::atomic::Ordering::*;
use culvert::{Errno, Node};
use culvert_mounts::MountId;
use culvert_run::{ShadowName, files::own_descriptor, task};
use culvert_sys::fd::CWD;
use culvert_sys::flags::AtFlags;
use culvert_sys::raw::general::{UTIME_NOW, UTIME_OMIT, timespec};
use culvert_sys::{BorrowedFd, fs};
pub use mirror::Mirror;
pub use names::{Link, Replaced, linked, made, removed, renamed};

/// What is told of a node by the times of its mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// IN_ACCESS
    Access,
    /// IN_MODIFY of what is written.
    Written,
    /// IN_MODIFY of what got another length, or time.
    Modify,
    /// IN_ATTRIB
    Attributes,
}

/// How many mirrors were made in this run: 0 where nothing was ever watched.
#[inline]
pub fn count() -> u32 {
    let notes = culvert_run::get().node_locks.notes();
    notes.map_or(0, |notes| notes.watches.load(Acquire))
}

/// Whether events are told here at all: something is watched, and nobody minds our calls. Under a
/// seccomp filter of the program's they could end it.
#[inline]
pub fn tells() -> bool {
    count() != 0 && !task::is_confined()
}

/// Whether `node` may have a mirror.
fn may_have_mirror(mount: MountId, node: Node) -> bool {
    let group = culvert_run::get()
        .node_locks
        .mapped(ShadowName { mount, node });
    group.is_some_and(|group| group.watched.load(Acquire) != 0)
}

/// `node`'s mirror, if it has one.
pub fn mirror_of(mount: MountId, node: Node) -> Option<Mirror> {
    may_have_mirror(mount, node)
        .then(|| Mirror::of(ShadowName { mount, node }))
        .flatten()
}

/// The path of the mirror of the node `name`, which is made where there is none: a
/// directory's with what the directory holds.
///
/// - `ENOSPC`: there is no room for it in the run directory.
pub fn mirror(name: ShadowName, directory: bool) -> Result<CString, Errno> {
    let _turn = names::Turn::take()?;
    if let Some(mirror) = Mirror::of(name) {
        return Ok(mirror.into_path());
    }
    let locks = &culvert_run::get().node_locks;
    let group = locks.mapped(name);
    let (Some(group), Some(notes)) = (group, locks.notes()) else {
        return Err(Errno::ENOSPC);
    };
    // From here on whoever changes a name in it waits for this turn, to tell of it: what is not
    // listed below was not there.
    group.watched.store(1, Release);
    notes.watches.fetch_add(1, AcqRel);
    let mirror = Mirror::make(name, directory)?;
    // Open files look for it now.
    notes.watches.fetch_add(1, AcqRel);
    Ok(mirror.into_path())
}

/// The same of a directory that never changes, for a watch of changes only: where it holds much,
/// that is an empty one of its own, which tells nothing. Names cannot be put into it later, since
/// the kernel would tell of them; so who watches for more than changes gets another.
///
/// - `ENOSPC`: as of [`mirror`].
pub fn silent_mirror(name: ShadowName) -> Result<CString, Errno> {
    match mirror::holds_much(name)? {
        true => {
            let _turn = names::Turn::take()?;
            Mirror::of(name).map_or_else(|| mirror::silent(name), |it| Ok(it.into_path()))
        }
        false => mirror(name, true),
    }
}

/// Tells that `event` happened to `node`, under the name `at` (directory, name) where it was found
/// by one.
#[inline]
pub fn tell(mount: MountId, node: Node, at: Option<(Node, &[u8])>, event: Event) {
    if tells() {
        tell_mirrors(mount, node, at, event);
    }
}

#[cold]
fn tell_mirrors(mount: MountId, node: Node, at: Option<(Node, &[u8])>, event: Event) {
    // The directory first (`fsnotify_handle_event`, fs/notify/fsnotify.c).
    if let Some((directory, name)) = at
        && let Some(mirror) = mirror_of(mount, directory)
    {
        raise(&mirror.entry(name), event);
    }
    if let Some(own) = mirror_of(mount, node) {
        raise(own.path(), event);
    }
}

/// Makes the kernel tell of `event` at `path`. One that is not there has nothing to tell.
fn raise(path: &CStr, event: Event) {
    let _ = fs::utimensat(CWD, Some(path), Some(&times_of(event)), AtFlags::empty());
}

/// The same at `fd`, as the file was opened.
pub fn raise_at(fd: i32, event: Event) {
    let it = BorrowedFd::number(fd);
    if event == Event::Written {
        // Of a file without a name only what is done by an open file is left out with
        // IN_EXCL_UNLINK. There is nothing to punch a hole into.
        const PUNCH_HOLE_AND_KEEP_SIZE: u32 = 3;
        if fs::fallocate(it, PUNCH_HOLE_AND_KEEP_SIZE, 0, 1).is_ok() {
            return;
        }
    }
    let told = fs::utimensat(it, None, Some(&times_of(event)), AtFlags::empty());
    if told == Err(Errno::EBADF) {
        // Opened with O_PATH: only its link will do.
        raise(&own_descriptor(fd), event);
    }
}

/// What utimensat(2) is given, so that it is told as `event`: of one time alone the kernel says
/// that the file was read or written.
fn times_of(event: Event) -> fs::Times {
    const NOW: i64 = UTIME_NOW as i64;
    const OMIT: i64 = UTIME_OMIT as i64;
    let (access, modification) = match event {
        Event::Access => (NOW, OMIT),
        Event::Written | Event::Modify => (OMIT, NOW),
        Event::Attributes => (NOW, NOW),
    };
    [access, modification].map(|tv_nsec| timespec { tv_sec: 0, tv_nsec })
}

//! Shadows that are kept equal to their files: who changes the file changes the shadow too, both
//! under the node's lock.
//!
//! That a shadow is one of these says its state ([`super::state`]); that there are any in a group
//! of nodes, a word in shared memory ([`culvert_run::node_locks::Mapped`]). Every change of a file
//! that could have such a shadow is made under the node's lock from beginning to end, so that none
//! lies between the look at that word and the bytes in the shadow. A write to a driver whose files
//! several processes may write at once ([`culvert::Capabilities::parallel_writes`]) shares the lock
//! with others while the word says that there are none ([`share`]).

use super::baseline;
use super::bytes::{each_difference, equalise, set_length};
use super::fill;
use super::filling;
use super::pinned::{Pinned, pinned};
use super::state::{self, State};
use super::{OpenFile, nodes, pager, records};
use crate::shadow::{self, OwnedFd};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::*;
use culvert::{Caller, Errno, File};
use culvert_run::node_shares::{Share, Together};
use culvert_run::{self as run, ShadowName, stat_descriptor};
use culvert_sys::PAGE64;
use culvert_sys::raw::general::{O_NOATIME, O_RDWR, stat};

/// A shadow open for reading and writing.
pub enum Opened {
    /// Open for a node that this process maps, and that is not given up before this.
    Mapped(Arc<nodes::Node>, i32),
    /// Kept open because this process changes its user.
    Pinned(Arc<Pinned>),
    /// Opened for this purpose, closed when dropped.
    Own(ShadowName, Option<OwnedFd>),
}

impl Opened {
    /// Its number.
    pub fn number(&self) -> i32 {
        match self {
            Self::Mapped(_, fd) => *fd,
            Self::Pinned(pinned) => pinned.number(),
            Self::Own(_, descriptor) => descriptor.as_ref().map_or(-1, |own| own.raw()),
        }
    }

    /// The descriptor that was opened for this purpose.
    pub fn into_own(mut self) -> Option<OwnedFd> {
        match &mut self {
            Self::Mapped(..) | Self::Pinned(_) => None,
            Self::Own(_, descriptor) => descriptor.take(),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Self::Own(name, descriptor) = self
            && let Some(descriptor) = descriptor.take()
        {
            run::get().posix_locks.close(*name, descriptor);
        }
    }
}

/// Of a group's word: some of its shadows follow their files. The other bits count
/// ([`crate::orphan_file`]).
const FOLLOWS: u32 = 1;

/// Whether some shadow of the node's group follows.
#[inline]
fn may_be_followed(name: ShadowName) -> bool {
    run::get()
        .node_locks
        .mapped(name)
        .is_some_and(|group| group.followed.load(Acquire) & FOLLOWS != 0)
}

/// Lets a write go beside others of its kind until that is dropped. None where some shadow of the
/// group follows its file or is the file itself, or the node is locked: who makes it so has the
/// node's lock meanwhile.
#[inline]
pub fn share(name: ShadowName, what: Together) -> Option<Share> {
    let locks = &run::get().node_locks;
    let followed = locks.mapped(name)?.followed;
    let share = locks.share(name, what)?;
    (followed.load(SeqCst) == 0).then_some(share)
}

/// The shadow of `name`, if it is one that follows its file.
pub fn followed(name: ShadowName) -> Result<Option<Opened>, Errno> {
    if !may_be_followed(name) {
        return Ok(None);
    }
    const FLAGS: u32 = O_RDWR | O_NOATIME;
    let opened = match nodes::open(name) {
        Some((node, fd)) => Opened::Mapped(node, fd),
        None => {
            let open = || shadow::open_path(name, &run::get().shadow(name), FLAGS);
            match shadow::parked(name, FLAGS).map_or_else(open, Ok) {
                Ok(opened) => Opened::Own(name, Some(opened)),
                // There is none, or it is not found below another root.
                Err(error) => match (pinned(name), error) {
                    (Some(pinned), _) => Opened::Pinned(pinned),
                    (None, Errno::ENOENT) => return Ok(None),
                    (None, error) => return Err(error),
                },
            }
        }
    };
    let found = stat_descriptor(opened.number())?;
    Ok(State::of(&found).follows().then_some(opened))
}

/// Makes the shadow of `open` follow its file from now on, and be equal to it. `strangers`:
/// programs that are not intercepted have it already, and what they wrote counts.
///
/// `on_demand`: the caller maps it with `pager::mapped` if it may have holes then; else it has
/// none. `then` is run before the lock is given back: who is going to store into it records that
/// there, since without a record the next one makes it equal to its file again. It is told whether
/// the shadow was filled just now.
pub fn start<R>(
    open: &dyn OpenFile,
    strangers: bool,
    on_demand: bool,
    then: impl FnOnce(Opened, bool) -> culvert::Result<R>,
) -> culvert::Result<R> {
    let (name, file) = (open.name(), open.file()?);
    let locks = &run::get().node_locks;
    let group = locks.mapped(name);
    // Without shared memory other processes would never know.
    let group = group.ok_or(Errno::ENOMEM)?;
    if let Some(orphan) = open.orphan() {
        return then(Opened::Own(name, Some(orphan.shadow(O_RDWR)?)), false);
    }
    let opened = match nodes::open(name) {
        Some((node, fd)) => Opened::Mapped(node, fd),
        None => Opened::Own(name, Some(shadow::open_shadow(name, O_RDWR)?)),
    };
    let fd = opened.number();
    // Before the lock, for which the pager may be waiting.
    let lazy = on_demand
        && !strangers
        && stat_descriptor(fd).is_ok_and(|found| state::is_fresh(&found) && fill::is_fit(&found))
        && pager::lazy(name, file.attributes(&Caller::SYSTEM)?.size);
    let _lock = locks.lock(name);
    // It has become the file meanwhile.
    if let Some(orphan) = open.orphan() {
        return then(Opened::Own(name, Some(orphan.shadow(O_RDWR)?)), false);
    }
    group.followed.fetch_or(FOLLOWS, AcqRel);
    if strangers {
        baseline::take_changes(name, fd)?;
    }
    let found = stat_descriptor(fd)?;
    // Who cannot look for what it has become must not overwrite it.
    if State::of(&found) == State::Orphan {
        return Err(Errno::EIO.into());
    }
    // While it is mapped so that it can be written, or strangers may write, what it holds is the
    // truth.
    let decides = State::of(&found).follows() && (strangers || records::any(name)?);
    let mut filled = false;
    if decides || is_current(file, &found)? {
        if !on_demand {
            filling::complete_in_room(file, fd)?;
        }
    } else if lazy && state::is_fresh(&found) {
        set_length(fd, file.attributes(&Caller::SYSTEM)?.size)
            .map_err(|error| no_room(name, error.into()))?;
        baseline::mark_equal(file, fd)?;
        let partly = State::Partly { follows: true };
        state::set(fd, &found, partly, &file.attributes(&Caller::SYSTEM)?)?;
    } else if on_demand && !strangers && State::of(&found).is_partly() {
        catch_up(file, fd, &found).map_err(|error| no_room(name, error))?;
    } else {
        let now = file.attributes(&Caller::SYSTEM)?;
        make_room(now.size, &found)?;
        equalise(file, fd, state::is_fresh(&found)).map_err(|error| {
            // What it took is needed elsewhere.
            if State::of(&found) == State::Empty {
                let _ = set_length(fd, 0);
            }
            no_room(name, error)
        })?;
        let next = State::Filled { follows: true };
        state::set(fd, &found, next, &file.attributes(&Caller::SYSTEM)?)?;
        state::set_equal(fd, &now)?;
        filled = true;
    }
    then(opened, filled)
}

/// The same for a shadow that is being executed, which nobody can open for writing (execve(2),
/// ETXTBSY), nor change then: `fd` is one that may only be read. Who executed it had filled it; it
/// follows its file from now on, for who writes the file when the program has ended.
///
/// `ETXTBSY` where it has other bytes than its file, which somebody outside of the run has changed
/// since.
pub fn start_executed(open: &dyn OpenFile, fd: i32) -> culvert::Result<()> {
    let (name, file) = (open.name(), open.file()?);
    let locks = &run::get().node_locks;
    let group = locks.mapped(name);
    let group = group.ok_or(Errno::ENOMEM)?;
    let _lock = locks.lock(name);
    group.followed.fetch_or(FOLLOWS, AcqRel);
    baseline::take_if_strangers(name, fd)?;
    let found = stat_descriptor(fd)?;
    if State::of(&found).follows() && records::any(name)? || is_current(file, &found)? {
        return Ok(());
    }
    let now = file.attributes(&Caller::SYSTEM)?;
    if !State::of(&found).has_all() || now.size != found.st_size as u64 {
        return Err(Errno::ETXTBSY.into());
    }
    each_difference(file, fd, (0, now.size), &mut |_, _, _| {
        Err(Errno::ETXTBSY.into())
    })?;
    state::set(fd, &found, State::Filled { follows: true }, &now)?;
    Ok(state::set_equal(fd, &now)?)
}

/// Makes what is there of a shadow with holes equal to its file, which has changed since; what is
/// missing is read when it is needed, as before.
fn catch_up(file: &dyn File, fd: i32, found: &stat) -> culvert::Result<()> {
    let now = file.attributes(&Caller::SYSTEM)?;
    grow_or_cut(fd, now.size)?;
    for part in fill::present(fd, (0, now.size))? {
        each_difference(file, fd, part, &mut |place, ours, _| {
            shadow::write_all(fd, place, ours)
        })?;
    }
    let partly = State::Partly { follows: true };
    state::set(fd, found, partly, &file.attributes(&Caller::SYSTEM)?)?;
    Ok(state::set_equal(fd, &now)?)
}

/// Room for what a shadow with this `struct stat` has not got of a file of `size` bytes.
fn make_room(size: u64, found: &stat) -> Result<(), Errno> {
    super::room::make(size.saturating_sub(found.st_blocks as u64 * 512))
}

fn no_room(name: ShadowName, error: culvert::Error) -> culvert::Error {
    match error.errno() {
        Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => {
            culvert_sys::log!(
                "{name} cannot be mapped: its bytes find no room in the run directory: {error}"
            );
            Errno::ENOMEM.into()
        }
        _ => error,
    }
}

/// Whether a shadow with this `struct stat` that follows has the bytes of `file`.
fn is_current(file: &dyn File, found: &stat) -> culvert::Result<bool> {
    Ok(State::of(found).follows() && state::is_equal(found, &file.attributes(&Caller::SYSTEM)?))
}

/// Gives a shadow the length `size`. What was stored behind the old end of the file, in its last
/// page, is not part of it.
pub(super) fn grow_or_cut(fd: i32, size: u64) -> Result<(), Errno> {
    let old = stat_descriptor(fd)?.st_size as u64;
    let end = old.next_multiple_of(PAGE64).min(size);
    // A page that is missing is the file's when it is filled.
    if end > old && !fill::is_missing(fd, old)? {
        let zeroes = [0u8; PAGE64 as usize];
        set_length(fd, end)?;
        let tail = (end - old) as usize;
        shadow::write_all(fd, old, &zeroes[..tail]).map_err(|error| error.errno())?;
    }
    match size == old {
        true => Ok(()),
        false => set_length(fd, size),
    }
}

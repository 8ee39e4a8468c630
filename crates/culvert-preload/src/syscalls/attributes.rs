//! chmod, chown, truncate and the setting of times.

use super::arguments::{At, descriptor, is_empty, last_step, on_empty_path};
use super::path::{on_path, on_path_or_at_once};
use crate::answer::{Answer, FORWARD};
use crate::description::Object;
use crate::descriptors::handed;
use crate::process::Process;
use crate::vfs::native::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use crate::vfs::node::On;
use crate::vfs::path::AtOnce;
use crate::vfs::setattr::{Right, Wanted, change};
use crate::vfs::truncate;
use crate::watch;
use culvert::{Errno, SetAttributes, Timespec};
use culvert_intercept::Call;
use culvert_mounts::resolver::LastStep;
use culvert_run::memory;
use culvert_sys::nr;
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::raw::general::CLOCK_REALTIME;

const UTIME_NOW: u64 = 0x3fff_ffff;

const UTIME_OMIT: u64 = 0x3fff_fffe;

/// What is to be changed, asked where a driver is to change it: for some the clock is read.
type Wish<'w> = &'w dyn Fn() -> Result<Wanted, Errno>;

fn by_path(process: &Process, call: &mut Call, at: At, wish: Wish<'_>) -> Answer {
    on_path(process, call, at, None, |_, found| {
        change(process, On::Found(found), wish())
    })
}

/// The f-forms: a descriptor that is open for more than its path.
fn by_descriptor(process: &Process, fd: usize, wish: Wish<'_>) -> Answer {
    match descriptor(process, fd) {
        Some(held) if matches!(held.object, Object::Path) => Err(Errno::EBADF),
        Some(held) => change(process, On::Held(&held), wish()),
        None => Err(FORWARD),
    }
}

/// The at-forms; an empty path with AT_EMPTY_PATH is the descriptor itself, or the working
/// directory.
fn below(process: &Process, call: &mut Call, flags: usize, wish: Wish<'_>) -> Answer {
    let [fd, path, ..] = call.args;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(FORWARD);
    }
    if path == 0 || flags & AT_EMPTY_PATH == 0 || !is_empty(path) {
        return by_path(process, call, At::below(0, last_step(flags)), wish);
    }
    on_empty_path(process, fd, |on| change(process, on, wish())).unwrap_or(Err(FORWARD))
}

fn permissions(mode: usize) -> Result<Wanted, Errno> {
    let changes = SetAttributes {
        permissions: Some(mode as u32 & 0o7777),
        ..Default::default()
    };
    Ok((changes, Right::Owner))
}

/// New permissions of what is at a path.
fn permit(process: &Process, call: &mut Call, at: At, mode: usize) -> Answer {
    let ask = |place: &AtOnce<'_>| {
        // Whoever watches it is told, which takes its node.
        let is_watched = watch::tells();
        // What is no such driver's has no use for this.
        let is_asked = place.driver.capabilities().transient_nodes;
        if is_watched || !is_asked || !handed::before_closing_any() {
            return None;
        }
        let (changes, _) = permissions(mode).ok()?;
        let done = place.change(&changes)?;
        // Who watches since is told by who does it once more.
        (!watch::tells()).then(|| done.map(|()| 0))
    };
    on_path_or_at_once(process, call, at, None, Some(ask), |_, found| {
        change(process, On::Found(found), permissions(mode))
    })
}

/// chmod(2)
pub fn chmod(process: &Process, call: &mut Call) -> Answer {
    let mode = call.args[1];
    permit(process, call, At::new(0, LastStep::Follow), mode)
}

/// fchmod(2)
pub fn fchmod(process: &Process, call: &mut Call) -> Answer {
    by_descriptor(process, call.args[0], &|| permissions(call.args[1]))
}

/// fchmodat(2) and fchmodat2(2)
pub fn fchmodat(process: &Process, call: &mut Call) -> Answer {
    let flags = match call.number {
        nr::FCHMODAT2 => call.args[3],
        _ => 0,
    };
    let mode = call.args[2];
    if flags == 0 {
        return permit(process, call, At::below(0, LastStep::Follow), mode);
    }
    below(process, call, flags, &|| permissions(mode))
}

fn owners(uid: usize, gid: usize) -> Result<Wanted, Errno> {
    let given = |id: usize| (id as u32 != u32::MAX).then_some(id as u32);
    let changes = SetAttributes {
        uid: given(uid),
        gid: given(gid),
        ..Default::default()
    };
    Ok((changes, Right::Chown))
}

/// chown(2), lchown(2)
pub fn chown(process: &Process, call: &mut Call) -> Answer {
    let last = match call.number {
        nr::LCHOWN => LastStep::NoFollow,
        _ => LastStep::Follow,
    };
    let [_, uid, gid, ..] = call.args;
    by_path(process, call, At::new(0, last), &|| owners(uid, gid))
}

/// fchown(2)
pub fn fchown(process: &Process, call: &mut Call) -> Answer {
    by_descriptor(process, call.args[0], &|| {
        owners(call.args[1], call.args[2])
    })
}

/// fchownat(2)
pub fn fchownat(process: &Process, call: &mut Call) -> Answer {
    let [_, _, uid, gid, flags, _] = call.args;
    below(process, call, flags, &|| owners(uid, gid))
}

/// truncate(2)
pub fn truncate(process: &Process, call: &mut Call) -> Answer {
    let length = call.args[1] as i64;
    if length < 0 {
        return Err(FORWARD);
    }
    let at = At::new(0, LastStep::Follow);
    on_path(process, call, at, None, |_, found| {
        truncate::by_path(process, found, length as u64)
    })
}

fn now() -> Timespec {
    let time = culvert_sys::process::clock_gettime(CLOCK_REALTIME);
    time.map_or(Timespec::default(), |time| Timespec {
        seconds: time.tv_sec,
        nanoseconds: time.tv_nsec as u32,
    })
}

/// Two times as changes; an error as utimensat(2) gives it.
fn times(access: (i64, u64), modification: (i64, u64)) -> Result<Wanted, Errno> {
    let one = |(seconds, nanoseconds): (i64, u64)| match nanoseconds {
        UTIME_NOW => Ok(Some(now())),
        UTIME_OMIT => Ok(None),
        0..=999_999_999 => Ok(Some(Timespec {
            seconds,
            nanoseconds: nanoseconds as u32,
        })),
        _ => Err(Errno::EINVAL),
    };
    let both_now = access.1 == UTIME_NOW && modification.1 == UTIME_NOW;
    let changes = SetAttributes {
        atime: one(access)?,
        mtime: one(modification)?,
        touch: both_now,
        ..Default::default()
    };
    Ok((
        changes,
        if both_now {
            Right::OwnerOrWrite
        } else {
            Right::Owner
        },
    ))
}

const NOW: (i64, u64) = (0, UTIME_NOW);

fn read_pair(address: usize) -> Result<(i64, u64), Errno> {
    Ok((memory::get(address)?, memory::get(address + 8)?))
}

/// utimensat(2); a null path means the descriptor.
pub fn utimensat(process: &Process, call: &mut Call) -> Answer {
    let [fd, path, pair, flags, ..] = call.args;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(FORWARD);
    }
    let pair = if pair == 0 {
        Ok((NOW, NOW))
    } else {
        read_pair(pair).and_then(|first| Ok((first, read_pair(pair + 16)?)))
    };
    let Ok((access, modification)) = pair else {
        return Err(FORWARD);
    };
    if access.1 == UTIME_OMIT && modification.1 == UTIME_OMIT {
        return Err(FORWARD); // nothing to do, whatever the path (utimensat(2))
    }
    let times = || times(access, modification);
    if path == 0 && fd as i32 != AT_FDCWD {
        return match descriptor(process, fd) {
            // `do_utimes_fd`: a descriptor by itself has no flags.
            Some(_) if flags != 0 => Err(Errno::EINVAL),
            None if process.run.is_internal(fd as i32) => Err(Errno::EBADF),
            _ => by_descriptor(process, fd, &times),
        };
    }
    below(process, call, flags, &times)
}

/// utime(2), utimes(2), futimesat(2)
pub fn old_times(process: &Process, call: &mut Call) -> Answer {
    let at = At::of(call.number == nr::FUTIMESAT, 0, LastStep::Follow);
    let buffer = call.args[at.path + 1];
    let pair = (|| -> Result<_, Errno> {
        if buffer == 0 {
            return Ok((NOW, NOW));
        }
        if call.number == nr::UTIME {
            let (access, modification): (i64, i64) =
                (memory::get(buffer)?, memory::get(buffer + 8)?);
            return Ok(((access, 0), (modification, 0)));
        }
        let micro = |(seconds, micro): (i64, u64)| {
            if micro < 1_000_000 {
                Ok((seconds, micro * 1000))
            } else {
                Err(Errno::EINVAL)
            }
        };
        Ok((micro(read_pair(buffer)?)?, micro(read_pair(buffer + 16)?)?))
    })();
    let (access, modification) = pair.map_err(|_| FORWARD)?;
    // Never wrong: of microseconds, or none.
    let times = || times(access, modification);
    if call.number == nr::FUTIMESAT && call.args[1] == 0 {
        return by_descriptor(process, call.args[0], &times);
    }
    by_path(process, call, at, &times)
}

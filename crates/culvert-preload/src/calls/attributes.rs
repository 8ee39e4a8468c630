//! chmod, chown, truncate and the setting of times.

use super::arguments::{At, descriptor, last_step};
use super::done;
use super::path::on_path;
use crate::answer::Answer;
use crate::description::{Held, Object};
use crate::resolver::LastStep;
use crate::vfs::native::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use crate::vfs::path::existing;
use crate::vfs::setattr::{Right, change_found, change_held};
use crate::vfs::truncate;
use crate::{memory, process};
use culvert::{Errno, SetAttributes, Timespec};
use culvert_intercept::{Call, Outcome};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::{nr, syscall};

const UTIME_NOW: u64 = 0x3fff_ffff;

const UTIME_OMIT: u64 = 0x3fff_fffe;

fn on_node(call: &mut Call, at: At, changes: SetAttributes, right: Right) -> Outcome {
    on_path(call, at, None, |_, found| {
        change_found(found, &changes, right)
    })
}

/// The same with times, which the kernel looks at when it has found the file (`vfs_utimes`,
/// fs/utimes.c).
fn times_of_node(call: &mut Call, at: At, times: Result<Times, Errno>) -> Outcome {
    on_path(call, at, None, |_, found| {
        existing(found)?;
        let (changes, right) = times?;
        change_found(found, &changes, right)
    })
}

fn on_descriptor(held: &Held, changes: &SetAttributes, right: Right) -> Answer {
    if matches!(held.object, Object::Path) {
        return Err(Errno::EBADF);
    }
    change_held(held, changes, right)
}

fn times_of_descriptor(held: &Held, times: Result<Times, Errno>) -> Answer {
    if matches!(held.object, Object::Path) {
        return Err(Errno::EBADF);
    }
    let (changes, right) = times?;
    on_descriptor(held, &changes, right)
}

/// An empty path with AT_EMPTY_PATH: the descriptor itself.
fn by_empty_path(
    call: &Call,
    flags: usize,
    changes: &SetAttributes,
    right: Right,
) -> Option<Outcome> {
    on_empty_path(call, flags, || Ok((*changes, right)))
}

fn on_empty_path(
    call: &Call,
    flags: usize,
    wanted: impl FnOnce() -> Result<Times, Errno>,
) -> Option<Outcome> {
    let [fd, path, ..] = call.args;
    if flags & AT_EMPTY_PATH == 0 || (path != 0 && memory::get::<u8>(path) != Ok(0)) {
        return None;
    }
    Some(match descriptor(fd) {
        Some(held) => done(crate::description::described(&held).and_then(|_| {
            let (changes, right) = wanted()?;
            change_held(&held, &changes, right)
        })),
        None => Outcome::Forward,
    })
}

fn permissions(mode: usize) -> SetAttributes {
    SetAttributes {
        permissions: Some(mode as u32 & 0o7777),
        ..Default::default()
    }
}

/// chmod(2)
pub fn chmod(call: &mut Call) -> Outcome {
    let changes = permissions(call.args[1]);
    on_node(call, At::new(0, LastStep::Follow), changes, Right::Owner)
}

/// fchmod(2)
pub fn fchmod(call: &mut Call) -> Outcome {
    let Some(held) = descriptor(call.args[0]) else {
        return Outcome::Forward;
    };
    done(on_descriptor(
        &held,
        &permissions(call.args[1]),
        Right::Owner,
    ))
}

/// fchmodat(2) and fchmodat2(2)
pub fn fchmodat(call: &mut Call) -> Outcome {
    let flags = if call.number == nr::FCHMODAT2 {
        call.args[3]
    } else {
        0
    };
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Outcome::Forward;
    }
    let changes = permissions(call.args[2]);
    by_empty_path(call, flags, &changes, Right::Owner)
        .unwrap_or_else(|| on_node(call, At::below(0, last_step(flags)), changes, Right::Owner))
}

fn owners(uid: usize, gid: usize) -> SetAttributes {
    let given = |id: usize| (id as u32 != u32::MAX).then_some(id as u32);
    SetAttributes {
        uid: given(uid),
        gid: given(gid),
        ..Default::default()
    }
}

/// chown(2)
pub fn chown(call: &mut Call) -> Outcome {
    let changes = owners(call.args[1], call.args[2]);
    on_node(call, At::new(0, LastStep::Follow), changes, Right::Chown)
}

/// lchown(2)
pub fn lchown(call: &mut Call) -> Outcome {
    let changes = owners(call.args[1], call.args[2]);
    on_node(call, At::new(0, LastStep::NoFollow), changes, Right::Chown)
}

/// fchown(2)
pub fn fchown(call: &mut Call) -> Outcome {
    let Some(held) = descriptor(call.args[0]) else {
        return Outcome::Forward;
    };
    done(on_descriptor(
        &held,
        &owners(call.args[1], call.args[2]),
        Right::Chown,
    ))
}

/// fchownat(2)
pub fn fchownat(call: &mut Call) -> Outcome {
    let flags = call.args[4];
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Outcome::Forward;
    }
    let changes = owners(call.args[2], call.args[3]);
    by_empty_path(call, flags, &changes, Right::Chown)
        .unwrap_or_else(|| on_node(call, At::below(0, last_step(flags)), changes, Right::Chown))
}

/// truncate(2)
pub fn truncate(call: &mut Call) -> Outcome {
    let length = call.args[1] as i64;
    if length < 0 {
        return Outcome::Forward;
    }
    on_path(call, At::new(0, LastStep::Follow), None, |_, found| {
        truncate::by_path(found, length as u64).map(|()| 0)
    })
}

fn now() -> Timespec {
    let mut time = [0u64; 2];
    // SAFETY: clock_gettime(CLOCK_REALTIME) writes one timespec.
    let _ = unsafe { syscall::call(nr::CLOCK_GETTIME, [0, time.as_mut_ptr() as usize]) };
    Timespec {
        seconds: time[0] as i64,
        nanoseconds: time[1] as u32,
    }
}

/// Two times as changes, and the right that these need.
type Times = (SetAttributes, Right);

/// Two times; an error as utimensat(2) gives it.
fn times(access: (i64, u64), modification: (i64, u64)) -> Result<Times, Errno> {
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
pub fn utimensat(call: &mut Call) -> Outcome {
    let [fd, path, pair, flags, ..] = call.args;
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Outcome::Forward;
    }
    let pair = if pair == 0 {
        Ok((NOW, NOW))
    } else {
        read_pair(pair).and_then(|first| Ok((first, read_pair(pair + 16)?)))
    };
    let Ok((access, modification)) = pair else {
        return Outcome::Forward;
    };
    if access.1 == UTIME_OMIT && modification.1 == UTIME_OMIT {
        return Outcome::Forward; // nothing to do, whatever the path (utimensat(2))
    }
    let times = times(access, modification);
    if path == 0 && fd as i32 != AT_FDCWD {
        return match descriptor(fd) {
            // `do_utimes_fd`: a descriptor by itself has no flags.
            Some(_) if flags != 0 => done(Err(Errno::EINVAL)),
            Some(held) => done(times_of_descriptor(&held, times)),
            None if process::get().run.is_internal(fd as i32) => done(Err(Errno::EBADF)),
            None => Outcome::Forward,
        };
    }
    on_empty_path(call, flags, || times)
        .unwrap_or_else(|| times_of_node(call, At::below(0, last_step(flags)), times))
}

/// utime(2), utimes(2), futimesat(2)
pub fn old_times(call: &mut Call) -> Outcome {
    let at = if call.number == nr::FUTIMESAT {
        At::below(0, LastStep::Follow)
    } else {
        At::new(0, LastStep::Follow)
    };
    let buffer = call.args[at.path + 1];
    let pair = (|| {
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
    let Ok((changes, right)) = pair.and_then(|(access, modification)| times(access, modification))
    else {
        return Outcome::Forward;
    };
    if call.number == nr::FUTIMESAT && call.args[1] == 0 {
        return match descriptor(call.args[0]) {
            Some(held) => done(on_descriptor(&held, &changes, right)),
            None => Outcome::Forward,
        };
    }
    on_node(call, at, changes, right)
}

//! Calls on paths in a mount that is a tree of the kernel's own: the kernel's own call below the
//! tree's root, in as few calls as path semantics allow.
//!
//! What may go wrong with that is a link on the way that leaves the tree: natively it leads out of
//! the mount's *target*, here it would lead out of the source. So the way to the last component is
//! walked by openat2(2) with `RESOLVE_BENEATH`, which refuses such links, and the last component is
//! not followed, or looked at. Whenever a link stands in the way, the path is walked by the
//! resolver, and the kernel gets what that found, which has none. With `links=backing` the kernel
//! follows all links in the source, as the user asked; so it does where it has each mount's tree
//! bound over its target, because then it is there that it follows them.

use super::arguments::At;
use crate::answer::Answer;
use crate::process::Process;
use crate::vfs::backed::{Backed, Name, open_beneath, through_proc};
use crate::vfs::native::stat_at;
use core::sync::atomic::Ordering::Relaxed;
use culvert::{Backing, BackingLinks, Errno};
use culvert_intercept::Call;
use culvert_mounts::resolver::{LastStep, last_slash};
use culvert_run::memory::{self, Path};
use culvert_sys::raw::general::{AT_FDCWD, O_NOFOLLOW, O_PATH, S_IFDIR, S_IFLNK, S_IFMT};
use culvert_sys::{nr, syscall};

const AT_SYMLINK_NOFOLLOW: usize = 0x100;

const AT_REMOVEDIR: usize = 0x200;

/// The quickest answer: `path` is one name in a directory of the tree `backing`, which no other
/// mount has to do with, so that only a link at that name could lead elsewhere; or it is any path,
/// and the kernel itself has all mounts' trees where they are seen. None: it is not. `Some(None)`:
/// there is a link, and the path must be walked.
#[inline]
pub fn by_name(
    process: &Process,
    call: &Call,
    at: At,
    backing: Backing,
    directory: i32,
    path: Path<'_>,
) -> Option<Option<Answer>> {
    let is_kernels = backing.bound && process.kernel_sees_all.load(Relaxed) && !path.is_empty();
    let is_name = || !matches!(path.bytes(), b"" | b"..") && last_slash(path.bytes()).is_none();
    if !(is_kernels || is_name()) || call.number == nr::CHDIR {
        return None;
    }
    if !is_kernels && at.last == LastStep::Follow && backing.links == BackingLinks::Mount {
        return Some(follow(call, at, &Name::plain(directory, path)));
    }
    let follow = at.last != LastStep::NoFollow;
    Some(Some(execute(call, at, directory, path, follow)))
}

/// Answers a call on a path. None: the path must be walked by the resolver.
#[inline]
pub fn perform(process: &Process, call: &Call, at: At, place: &Backed<'_>) -> Option<Answer> {
    if place.is_resolved() {
        return Some(perform_resolved(process, call, at, place));
    }
    if call.number == nr::CHDIR {
        return crate::vfs::working_directory::enter_backed(process, place);
    }
    let path = place.path();
    if path.is_empty() {
        return Some(on_root(process, call, at, place));
    }
    if !place.is_name_left_to_kernel() && last_slash(path.bytes()).is_some() && looks(call) {
        let answer = look(call, at, place.base, path);
        if !may_mount(call, &answer) {
            return answer;
        }
    }
    let name = Name::of(place)?;
    if place.is_name_left_to_kernel() {
        let follow = at.last != LastStep::NoFollow;
        return Some(execute(call, at, name.directory, name.name, follow));
    }
    if at.last == LastStep::Parent {
        return Some(execute(call, at, name.directory, name.name, true));
    }
    if path.last() == Some(&b'/') {
        return None; // a link with a slash behind it is followed
    }
    if at.last == LastStep::Follow {
        return follow(call, at, &name);
    }
    Some(execute(call, at, name.directory, name.name, false))
}

/// The same for a path that a walk has found.
#[cold]
pub fn perform_resolved(process: &Process, call: &Call, at: At, place: &Backed<'_>) -> Answer {
    if call.number == nr::CHDIR {
        return crate::vfs::working_directory::enter_backed(process, place)
            .unwrap_or(Err(Errno::ELOOP));
    }
    if place.path().is_empty() {
        return on_root(process, call, at, place);
    }
    let follow = at.last != LastStep::NoFollow;
    execute(call, at, place.base, place.path(), follow)
}

/// A call on the mount's root.
#[cold]
fn on_root(process: &Process, call: &Call, at: At, place: &Backed<'_>) -> Answer {
    let removes_directory = match call.number {
        nr::RMDIR => true,
        nr::UNLINKAT => call.args[2] & AT_REMOVEDIR != 0,
        _ => false,
    };
    if removes_directory {
        return Err(crate::vfs::remove::of_target(
            process,
            place.mount,
            Errno::EBUSY,
        ));
    }
    // `.` is answered as a mount point would be: EEXIST, EISDIR, EBUSY.
    execute(call, at, place.base, Path::of(c"."), true)
}

/// A call that follows a link at the end. None: there is one.
fn follow(call: &Call, at: At, name: &Name<'_>) -> Option<Answer> {
    let run = || execute(call, at, name.directory, name.name, false);
    match call.number {
        nr::STAT | nr::NEWFSTATAT => {
            let answer = run();
            let buffer = call.args[if call.number == nr::STAT { 1 } else { 2 }];
            let mode = || memory::get::<u32>(buffer + 24).unwrap_or(0);
            (answer.is_err() || mode() & S_IFMT != S_IFLNK).then_some(answer)
        }
        nr::STATX => {
            let answer = run();
            let mode = || memory::get::<u32>(call.args[4] + 28).unwrap_or(0);
            (answer.is_err() || mode() & S_IFMT != S_IFLNK).then_some(answer)
        }
        nr::ACCESS | nr::FACCESSAT | nr::FACCESSAT2 => {
            let mode = call.args[if call.number == nr::ACCESS { 1 } else { 2 }];
            if mode == 0 {
                return match stat_at(name.directory, name.name, AT_SYMLINK_NOFOLLOW) {
                    Ok(found) if found.st_mode & S_IFMT == S_IFLNK => None,
                    other => Some(other.map(|_| 0)),
                };
            }
            match run() {
                Err(Errno::ENOSYS) => None,
                Err(errno) => Some(Err(errno)),
                Ok(_) => (!name.is_link()).then_some(Ok(0)),
            }
        }
        nr::CHMOD | nr::FCHMODAT | nr::FCHMODAT2 => match run() {
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS) => None,
            answer => Some(answer),
        },
        _ => (!name.is_link()).then(run),
    }
}

/// Whether `call` asks what there is, and a descriptor that is open on that can be asked instead.
/// Not access(2) where it may go by another user whom [`culvert_run::task::as_real_user`] does not
/// make ours: the kernel judges the name then.
#[inline]
fn looks(call: &Call) -> bool {
    match call.number {
        nr::STAT | nr::LSTAT | nr::NEWFSTATAT | nr::STATX => true,
        nr::ACCESS | nr::FACCESSAT | nr::FACCESSAT2 => {
            !culvert_run::task::is_confined() && !culvert_run::task::credentials::is_elsewhere()
        }
        _ => false,
    }
}

/// Whether `answer`, of a descriptor, is to a statx(2) that by a name would mount what is mounted
/// on demand there.
fn may_mount(call: &Call, answer: &Option<Answer>) -> bool {
    const AT_NO_AUTOMOUNT: usize = 0x800;
    let is_directory = || {
        let mode = memory::get::<u32>(call.args[4] + 28).unwrap_or(0);
        mode & S_IFMT == S_IFDIR
    };
    call.number == nr::STATX
        && call.args[2] & AT_NO_AUTOMOUNT == 0
        && matches!(answer, Some(Ok(_)))
        && is_directory()
}

/// Such a call on a path of several names, below `base`: what there is is opened without leaving
/// the tree, and asked. None: the path must be walked by the resolver.
///
/// To open its directory, to ask by its name and to close that is as many calls, but the directory
/// is asked for the name twice where links count, and what is missing costs three calls in place of
/// one. `O_PATH`: nothing happens to what is opened, and the close drops no record lock.
fn look(call: &Call, at: At, base: i32, path: Path<'_>) -> Option<Answer> {
    const AT_EMPTY_PATH: usize = 0x1000;
    let stay = if at.last == LastStep::Follow {
        0
    } else {
        O_NOFOLLOW
    };
    let found = match open_beneath(base, path, O_PATH | stay)? {
        Ok(found) => found,
        Err(errno) => return Some(Err(errno)),
    };
    let [_, b, c, d, e, _] = call.args;
    let (fd, empty) = (found.raw() as usize, c"".as_ptr() as usize);
    let (number, args) = match call.number {
        nr::STAT | nr::LSTAT => (nr::FSTAT, [fd, b, 0, 0, 0]),
        nr::NEWFSTATAT => (nr::FSTAT, [fd, c, 0, 0, 0]),
        nr::STATX => (call.number, [fd, empty, c | AT_EMPTY_PATH, d, e]),
        nr::ACCESS if b == 0 => return Some(Ok(0)),
        nr::FACCESSAT | nr::FACCESSAT2 if c == 0 => return Some(Ok(0)),
        nr::ACCESS => (nr::FACCESSAT2, [fd, empty, b, AT_EMPTY_PATH, 0]),
        nr::FACCESSAT => (nr::FACCESSAT2, [fd, empty, c, AT_EMPTY_PATH, 0]),
        _ => (call.number, [fd, empty, c, d | AT_EMPTY_PATH, 0]),
    };
    // SAFETY: the program's own call, what its path leads to in place of that.
    let answer = unsafe { syscall::call(number, args) };
    // Before Linux 5.8 no descriptor can be asked for its permissions.
    (answer != Err(Errno::ENOSYS)).then_some(answer)
}

/// The program's call with `directory` and `name` in place of its path; a link at the end is
/// followed only with `follow`.
pub fn execute(call: &Call, at: At, directory: i32, name: Path<'_>, follow: bool) -> Answer {
    let [a, b, c, d, e, _] = call.args;
    let (base, name_at) = (directory as usize, name.address());
    let stay = if follow { 0 } else { AT_SYMLINK_NOFOLLOW };
    let (number, args) = match call.number {
        nr::STAT | nr::LSTAT => (nr::NEWFSTATAT, [base, name_at, b, stay, 0, 0]),
        nr::NEWFSTATAT => (call.number, [base, name_at, c, d | stay, 0, 0]),
        nr::STATX => (call.number, [base, name_at, c | stay, d, e, 0]),
        nr::ACCESS if follow => (nr::FACCESSAT, [base, name_at, b, 0, 0, 0]),
        nr::FACCESSAT if follow => (nr::FACCESSAT, [base, name_at, c, 0, 0, 0]),
        nr::ACCESS => (nr::FACCESSAT2, [base, name_at, b, stay, 0, 0]),
        nr::FACCESSAT => (nr::FACCESSAT2, [base, name_at, c, stay, 0, 0]),
        nr::FACCESSAT2 => (call.number, [base, name_at, c, d | stay, 0, 0]),
        nr::CHMOD if follow => (nr::FCHMODAT, [base, name_at, b, 0, 0, 0]),
        nr::FCHMODAT if follow => (nr::FCHMODAT, [base, name_at, c, 0, 0, 0]),
        nr::CHMOD => (nr::FCHMODAT2, [base, name_at, b, stay, 0, 0]),
        nr::FCHMODAT => (nr::FCHMODAT2, [base, name_at, c, stay, 0, 0]),
        nr::FCHMODAT2 => (call.number, [base, name_at, c, d | stay, 0, 0]),
        nr::CHOWN | nr::LCHOWN => (nr::FCHOWNAT, [base, name_at, b, c, stay, 0]),
        nr::FCHOWNAT => (call.number, [base, name_at, c, d, e | stay, 0]),
        nr::UTIMENSAT => (call.number, [base, name_at, c, d | stay, 0, 0]),
        nr::UTIMES => (nr::FUTIMESAT, [base, name_at, b, 0, 0, 0]),
        nr::MKDIR => (nr::MKDIRAT, [base, name_at, b, 0, 0, 0]),
        nr::MKNOD => (nr::MKNODAT, [base, name_at, b, c, 0, 0]),
        nr::UNLINK => (nr::UNLINKAT, [base, name_at, 0, 0, 0, 0]),
        nr::RMDIR => (nr::UNLINKAT, [base, name_at, AT_REMOVEDIR, 0, 0, 0]),
        nr::READLINK => (nr::READLINKAT, [base, name_at, b, c, 0, 0]),
        nr::SYMLINK => (nr::SYMLINKAT, [a, base, name_at, 0, 0, 0]),
        _ => return execute_other(call, at, directory, name),
    };
    // SAFETY: the program's own call, its path replaced by one that ends in NUL.
    unsafe { syscall::call(number, args) }
}

/// The same for calls whose own form is kept, and those without a form with a directory: these get
/// a path through `/proc/self/fd`.
fn execute_other(call: &Call, at: At, directory: i32, name: Path<'_>) -> Answer {
    let call = call.replacing();
    match at.directory {
        Some(index) => call
            .word(index, directory as usize)
            .path(at.path, name.c_str()),
        None if directory == AT_FDCWD => call.path(at.path, name.c_str()),
        None => {
            let path = through_proc(directory, name.bytes());
            return call.path(at.path, &path).execute();
        }
    }
    .execute()
}

//! What all calls that take a path have in common: something in a mount answers them, or the
//! kernel, with a second look where it finds nothing.

use super::arguments::At;
use super::backed;
use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use crate::vfs::misses;
use crate::vfs::path::{AtOnce, Found, Given, at_once, errno_of, in_tree, tree_at};
use crate::vfs::path::{confirms_miss, is_kernels, look_again};
use crate::vfs::path::{find_by_text, find_by_walking, find_straight};
use crate::vfs::targets::{is_another, parent_is_target, target_at};
use core::ffi::CStr;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_mounts::resolver::{Inside, LastStep, Restrictions};
use culvert_run::memory::PathBuffer;
use culvert_run::task;
use culvert_sys::nr;
use culvert_sys::raw::general::AT_FDCWD;

/// Tells the `(st_dev, st_ino)` of what a successful native call has found.
pub type Identity = fn(&Process, &Call) -> Option<(u64, u64)>;

/// Answers a call on a path: `inside` when it is something in a mount, else the kernel, with a
/// second look when that finds nothing.
///
/// `identity` tells the `(st_dev, st_ino)` of what a successful native call has found, where the
/// call reports it.
pub fn on_path(
    process: &Process,
    call: &mut Call,
    at: At,
    identity: Option<Identity>,
    inside: impl FnOnce(&Call, &mut Inside<'_>) -> Answer,
) -> Answer {
    on_path_or_at_once(process, call, at, identity, None::<Ask>, inside)
}

/// What asks a driver at once.
type Ask = fn(&AtOnce<'_>) -> Option<Answer>;

/// The same; where the mount's driver may be asked at once, it is `ask` that asks it. What has no
/// answer is looked up.
pub fn on_path_or_at_once(
    process: &Process,
    call: &mut Call,
    at: At,
    identity: Option<Identity>,
    ask: Option<impl FnOnce(&AtOnce<'_>) -> Option<Answer>>,
    inside: impl FnOnce(&Call, &mut Inside<'_>) -> Answer,
) -> Answer {
    let mut room = PathBuffer::new();
    let path = room.read(call.args[at.path])?;
    let given = at.given(call, path);
    if is_kernels(process, path) {
        return by_text(process, call, given, at, identity, inside);
    }
    let tree = tree_at(process, given);
    let by_name = match (tree, path.first()) {
        (Some((_, backing)), Some(byte)) if *byte != b'/' => {
            backed::by_name(process, call, at, backing, given.directory, path)
        }
        _ => None,
    };
    let mut found = match by_name {
        Some(Some(answer)) => return answer,
        Some(None) => find_by_walking(process, given),
        None => match tree.and_then(|tree| in_tree(tree, given)) {
            Some(place) => Ok(Found::Backed(place)),
            None => {
                let asked = ask.and_then(|ask| ask(&at_once(process, given)?));
                if let Some(answer) = asked {
                    return answer;
                }
                // Used where it lies: it is large.
                match &mut find_straight(process, given) {
                    Some(Ok(found)) => return inside(call, found),
                    Some(Err(error)) => return Err(errno_of(error)),
                    None => find_by_text(process, given),
                }
            }
        },
    };
    if let Ok(Found::Backed(place)) = &found {
        if let Some(answer) = backed::perform(process, call, at, place) {
            return answer;
        }
        found = find_by_walking(process, given);
    }
    match &mut found {
        Err(errno) => return Err(*errno),
        Ok(Found::Inside(found)) => return inside(call, found),
        Ok(Found::Backed(place)) => {
            return backed::perform_resolved(process, call, at, place);
        }
        Ok(Found::Outside(path)) => return outside(call, at, path),
        Ok(Found::MagicLink(_) | Found::Kernel) => {}
    }
    by_text(process, call, given, at, identity, inside)
}

/// [`on_path`] of what is the kernel's by its text, unless a link leads into a mount.
pub fn by_text(
    process: &Process,
    call: &Call,
    given: Given<'_>,
    at: At,
    identity: Option<Identity>,
    inside: impl FnOnce(&Call, &mut Inside<'_>) -> Answer,
) -> Answer {
    let (answer, second_look) = natively(process, call, given, identity);
    let Some(certain) = second_look else {
        return answer;
    };
    match look_again(process, given, certain) {
        Ok(Found::Inside(mut found)) => inside(call, &mut found),
        Ok(Found::Backed(place)) => backed::perform_resolved(process, call, at, &place),
        Ok(Found::Outside(path)) => outside(call, at, &path),
        Err(errno) if answer.is_err() => Err(errno),
        _ => answer,
    }
}

/// What the kernel answers to a call on a path that has nothing to do with a mount by its text; and
/// where a link may have led the kernel past one, that a second look is needed ([`look_again`]),
/// and whether that is certain to find a mount.
fn natively(
    process: &Process,
    call: &Call,
    given: Given<'_>,
    identity: Option<Identity>,
) -> (Answer, Option<bool>) {
    let Given {
        directory,
        path,
        last,
        restrictions,
    } = given;
    if path.is_empty() {
        return (Err(FORWARD), None);
    }
    let changes = !matches!(last, LastStep::Follow | LastStep::NoFollow);
    let follows = last == LastStep::Follow;
    let seen = misses::seen(path.bytes());
    if !changes
        && is_look(call)
        && restrictions == Restrictions(0)
        && let Some(errno) = misses::expected(process, &seen, directory, path, follows)
    {
        return (Err(errno), None);
    }
    let mut certain =
        changes && process.targets_open && parent_is_target(process, directory, path.bytes());
    let answer = if certain {
        Err(Errno::ENOENT)
    } else {
        call.execute()
    };
    if !changes {
        misses::note(&seen, answer);
    }
    if identity.is_none()
        && !changes
        && process.targets_open
        && matches!(answer, Ok(_) | Err(Errno::EACCES | Errno::EPERM))
        && !holds_of_mount(call, answer)
    {
        // A link to the directory under a mount: what it says of itself is not what the mount says.
        certain = target_at(process, directory, path).is_some();
    } else if answer.is_ok() {
        certain = identity
            .and_then(|identity| identity(process, call))
            .is_some_and(|(dev, ino)| process.mounts.is_target(dev, ino).is_some());
    }
    let missing = matches!(answer, Err(Errno::ENOENT | Errno::ENOTDIR));
    (answer, (certain || missing).then_some(certain))
}

/// Whether `call` does nothing but look whether something is there, and what, so that a name that
/// is not there is all that can be wrong with it.
fn is_look(call: &Call) -> bool {
    match call.number {
        nr::STAT | nr::LSTAT | nr::NEWFSTATAT | nr::STATX => true,
        nr::FACCESSAT | nr::FACCESSAT2 => true,
        nr::READLINK => call.args[2] as i32 > 0,
        nr::READLINKAT => call.args[3] as i32 > 0,
        _ => false,
    }
}

/// Whether `answer` would be a mount's too, if it was the directory under that which gave it: that
/// something is there. A link that was read is no directory at all.
fn holds_of_mount(call: &Call, answer: Answer) -> bool {
    let exists = |mode: usize| mode == 0 && answer.is_ok();
    match call.number {
        nr::ACCESS => exists(call.args[1]),
        nr::FACCESSAT | nr::FACCESSAT2 => exists(call.args[2]),
        nr::READLINK | nr::READLINKAT => answer.is_ok(),
        _ => false,
    }
}

/// What glibc's ld.so asks for at each start (elf/rtld.c), and hardly any system has.
const LOADERS: &[u8] = b"/etc/ld.so.preload";

/// The kernel's answer to access(2) of an absolute path that has nothing to do with any mount: what
/// [`on_path`] comes to, before it matters who asks. None: it may have to do with one.
pub fn by_kernel(process: &Process, call: &Call, at: At) -> Option<Answer> {
    let mut room = PathBuffer::new();
    let path = room.read(call.args[at.path]).ok()?;
    if !is_kernels(process, path) {
        return None;
    }
    // It is looked for as the effective user; access(2) asks for the real one.
    if path.bytes() == LOADERS
        && !task::credentials::may_differ()
        && let Some(errno) = misses::confirmed(process, AT_FDCWD, path)
    {
        return Some(Err(errno));
    }
    let answer = call.execute();
    let is_right = match answer {
        Err(Errno::ENOENT | Errno::ENOTDIR) => confirms_miss(process, path),
        Ok(_) | Err(Errno::EACCES | Errno::EPERM) => {
            // Whether it is the directory under a mount is asked as who asks, where nobody else
            // finds that it is not.
            !process.targets_open
                || holds_of_mount(call, answer)
                || is_another(process, at.directory_of(call), path)
        }
        _ => true,
    };
    is_right.then_some(answer)
}

/// The call with `path`, which is absolute, in place of its own.
pub fn outside(call: &Call, at: At, path: &CStr) -> Answer {
    let call = call.replacing().path(at.path, path);
    match at.directory {
        Some(directory) => call.word(directory, AT_FDCWD as usize).execute(),
        None => call.execute(),
    }
}

/// Answers a call that Culvert has no way to do on a mount (quotas, mounting over it): `errno` for
/// paths in mounts and, where the call takes one by itself, for descriptors of theirs, else the
/// kernel. What is wrong with the call's other arguments comes first.
pub fn refuse_inside(process: &Process, call: &mut Call, at: At, errno: Errno) -> Answer {
    let at = at.turned(call);
    // Without AT_EMPTY_PATH that is an error of the kernel's, too.
    let path = call.args[at.path];
    let is_empty = || path == 0 || culvert_run::memory::get::<u8>(path) == Ok(0);
    if let Some(directory) = at.directory
        && is_empty()
        && super::arguments::descriptor(process, call.args[directory]).is_some()
    {
        return Err(wrong_before_path(call, at).unwrap_or(errno));
    }
    // The program has not opened that number.
    if let Some(directory) = at.directory
        && process.run.is_internal(call.args[directory] as i32)
        && is_empty()
    {
        return call.replacing().word(directory, usize::MAX).execute();
    }
    // No path: it is about the descriptor (fanotify_mark(2)), or about none (acct(2)).
    if path == 0 {
        return Err(FORWARD);
    }
    on_path(process, call, at, None, |call, found| {
        Err(match (wrong_before_path(call, at), &found.entry) {
            (Some(wrong), _) => wrong,
            (None, Some(_)) => errno,
            (None, None) => Errno::ENOENT,
        })
    })
}

/// What the kernel finds wrong with `call` before it looks at the path: it is asked with one that
/// nothing can have.
fn wrong_before_path(call: &Call, at: At) -> Option<Errno> {
    let nothing = call.replacing().path(at.path, c"/proc/self/culvert");
    match nothing.execute() {
        Err(Errno::ENOENT | Errno::ENOTDIR) | Ok(_) => None,
        Err(wrong) => Some(wrong),
    }
}

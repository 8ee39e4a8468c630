//! What all calls that take a path have in common: is it ours, where does it lead, and what if the
//! kernel does not find it.

use super::backed::{self, Backed};
use super::done;
use super::host::{AT_SYMLINK_NOFOLLOW, Kernel, stat_at};
use super::targets::{parent_is_target, target_at};
use crate::answer::Answer;
use crate::memory::{Path, PathBuffer, c_string};
use crate::process::{self, Here, Process};
use crate::resolver::{Inside, LastStep, Magic, MountId, Place, Quick, Resolved, Restrictions};
use crate::run;
use alloc::vec::Vec;
use culvert::{Errno, FileKind, Node};
use culvert_intercept::{Call, Outcome};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::raw::general::{S_IFDIR, S_IFLNK, S_IFMT};
use culvert_sys::syscall;

/// Where a call has its path, and how it is to be read.
#[derive(Clone, Copy)]
pub struct At {
    /// Which argument is the directory's descriptor, if any.
    pub directory: Option<usize>,
    /// Which argument is the path.
    pub path: usize,
    /// What happens to the last component.
    pub last: LastStep,
    /// RESOLVE_* of openat2.
    pub restrictions: Restrictions,
    /// The argument and the bit in it that turn what happens to a link at the end.
    pub turn: Option<(usize, usize)>,
}

impl At {
    /// The path in argument `path`, relative ones below the working directory.
    pub const fn new(path: usize, last: LastStep) -> Self {
        Self {
            directory: None,
            path,
            last,
            restrictions: Restrictions(0),
            turn: None,
        }
    }

    /// The path in argument `directory + 1`, relative ones below the directory of argument
    /// `directory`.
    pub const fn below(directory: usize, last: LastStep) -> Self {
        Self {
            directory: Some(directory),
            path: directory + 1,
            last,
            restrictions: Restrictions(0),
            turn: None,
        }
    }

    /// The same, but a link at the end is followed where it would not be, or not where it would be,
    /// by a call with `bit` in argument `argument`.
    pub const fn turned_by(self, argument: usize, bit: usize) -> Self {
        Self {
            turn: Some((argument, bit)),
            ..self
        }
    }

    /// What the flags of `call` make of it.
    fn turned(self, call: &Call) -> Self {
        let last = match (self.turn, self.last) {
            (Some((argument, bit)), last) if call.args[argument] & bit == 0 => last,
            (Some(_), LastStep::Follow) => LastStep::NoFollow,
            (Some(_), LastStep::NoFollow) => LastStep::Follow,
            (_, last) => last,
        };
        Self { last, ..self }
    }

    /// The descriptor of the directory that a relative path starts from.
    pub fn directory_of(&self, call: &Call) -> i32 {
        self.directory
            .map_or(AT_FDCWD, |index| call.args[index] as i32)
    }
}

/// What a path argument comes to.
#[allow(clippy::large_enum_variant)] // made once for a call, on the stack: a box would cost each path an allocation
pub enum Found<'p> {
    /// Something in a mount.
    Inside(Inside<'p>),
    /// Something in the backing tree of a mount.
    Backed(Backed<'p>),
    /// The kernel gets this absolute path (NUL-terminated) instead.
    Outside(Vec<u8>),
    /// A link of proc(5) to something of ours, not followed.
    MagicLink(Magic),
    /// The kernel gets the call as it is.
    Kernel,
}

/// The directory that a descriptor argument stands for; none for a foreign one. ENOTDIR when it is
/// a file of ours.
fn place_of(fd: i32) -> Result<Option<Place>, Errno> {
    match process::get().table.get(fd) {
        None => Ok(None),
        Some(held) if held.kind == FileKind::Directory => Ok(Some(Place::Mount {
            mount: held.mount,
            node: held.node,
        })),
        Some(_) => Err(Errno::ENOTDIR),
    }
}

/// The directory behind the foreign descriptor `fd`, by its path.
fn foreign_place(process: &Process, fd: i32) -> Option<Place> {
    let path = run::descriptor_path(fd).ok()?;
    (path.first() == Some(&b'/'))
        .then(|| process.mounts.place(&path).ok())
        .flatten()
}

/// The place of a working directory, for a walk.
pub(super) fn place_of_here(here: Here) -> Result<Place, Errno> {
    match here {
        Here::Place(place) => Ok(place),
        Here::Backed(mount) => {
            let path = run::read_link(b"/proc/self/cwd\0")?;
            crate::backing::seen(mount, &path)
                .map(Place::Host)
                .ok_or(Errno::ENOENT)
        }
    }
}

/// Whether `fd` is open on something that no path begins at, whatever its name leads to by now.
fn is_no_directory(fd: i32) -> bool {
    run::stat_descriptor(fd).is_ok_and(|found| found.st_mode & S_IFMT != S_IFDIR)
}

/// Where a path starts: `Err` is the call's answer, `Ok(None)` a directory that cannot be named.
fn base(process: &Process, directory: i32) -> Result<Option<Place>, Errno> {
    if directory == AT_FDCWD {
        return process
            .with_working_directory(|here| here.cloned())
            .map(place_of_here)
            .transpose();
    }
    if let Some(place) = place_of(directory)? {
        return Ok(Some(place));
    }
    match process.table.backed(directory) {
        Some(mount) => crate::backing::directory(mount, directory).map(|p| Some(Place::Host(p))),
        None if is_no_directory(directory) => Err(Errno::ENOTDIR),
        None => Ok(foreign_place(process, directory)),
    }
}

/// Finds out what `path` is, by text, and by walking the mounts where text does not tell.
pub fn find<'p>(
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    match find_straight(directory, path, last, restrictions) {
        Some(Ok(inside)) => Ok(Found::Inside(inside)),
        Some(Err(error)) => Err(errno_of(&error)),
        None => find_by_text(directory, path, last, restrictions),
    }
}

/// The quickest answer inside a mount: plain names all the way, which the driver takes at once. Not
/// inlined, so that its large answer is made where it stays.
#[inline(never)]
fn find_straight<'p>(
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
) -> Option<culvert::Result<Inside<'p>>> {
    let process = process::get();
    if restrictions != Restrictions(0) || process.has_left() {
        return None;
    }
    let (mount, dir, names) = match path.first()? {
        b'/' => {
            let (mount, names) = process.mounts.deepest(path.bytes())?;
            if crate::exec::origin(path.bytes()).is_some() {
                return None;
            }
            (mount, None, names)
        }
        _ => {
            let (mount, node) = directory_inside(process, directory)?;
            (mount, Some(node), path.bytes())
        }
    };
    crate::looked_at::bring_all();
    let mounts = &process.mounts;
    mounts.straight_in(&process::caller(), mount, dir, names, last)
}

/// The directory of a driver's that descriptor `directory`, or the working directory, is.
#[inline]
fn directory_inside(process: &Process, directory: i32) -> Option<(MountId, Node)> {
    if directory == AT_FDCWD {
        return process.with_working_directory(|here| match here {
            Some(Here::Place(Place::Mount { mount, node })) => Some((*mount, *node)),
            _ => None,
        });
    }
    let held = process.table.get(directory)?;
    (held.kind == FileKind::Directory).then_some((held.mount, held.node))
}

/// The errno of a failed look at a path; its cause goes to the log.
fn errno_of(error: &culvert::Error) -> Errno {
    if let Some(cause) = error.cause() {
        crate::log!("a path on a mount cannot be followed: {cause}");
    }
    error.errno()
}

/// What [`find`] does where that is not enough.
fn find_by_text<'p>(
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    let process = process::get();
    if path.is_empty() || process.has_left() {
        return Ok(Found::Kernel);
    }
    let absolute = path[0] == b'/' && restrictions.0 & Restrictions::IN_ROOT == 0;
    if restrictions == Restrictions(0)
        && let Some(place) = find_backed(process, directory, path, last)
    {
        return Ok(Found::Backed(place));
    }
    // A program from a mount runs as a file of the run directory: paths made from its own place
    // mean the mount.
    if let Some(original) = absolute
        .then(|| crate::exec::origin(path.bytes()))
        .flatten()
        .filter(|original| !original.is_empty())
    {
        let start = Place::Host(b"/".to_vec());
        return walk(process, &start, original, last, restrictions);
    }
    let mut known = None;
    let quick = if absolute {
        process.mounts.quick(None, path.bytes())
    } else if directory == AT_FDCWD {
        process.with_working_directory(|here| match here {
            Some(Here::Place(place)) => {
                let quick = process.mounts.quick(Some(place), path.bytes());
                if quick != Quick::Untouched {
                    known = Some(place.clone());
                }
                quick
            }
            Some(Here::Backed(_)) => Quick::Walk,
            None => Quick::Untouched,
        })
    } else {
        known = place_of(directory)?;
        match known.is_none() && process.table.backed(directory).is_some() {
            true => Quick::Walk,
            false => process.mounts.quick(known.as_ref(), path.bytes()),
        }
    };
    // A link into a mount is a crossing that the kernel cannot see; with RESOLVE_IN_ROOT the text
    // of a path says little.
    let text_decides = restrictions.0 & (Restrictions::NO_XDEV | Restrictions::IN_ROOT) == 0;
    if quick == Quick::Untouched && text_decides {
        return Ok(Found::Kernel);
    }
    let start = match known {
        Some(place) => place,
        None if absolute => Place::Host(Vec::new()),
        None => match base(process, directory)? {
            Some(place) => place,
            None => return Ok(Found::Kernel),
        },
    };
    walk(process, &start, path.bytes(), last, restrictions)
}

/// The quickest answer of all: the path begins in a backing tree that no other mount has to do
/// with, so that only links could lead elsewhere.
#[inline]
fn find_backed<'p>(
    process: &Process,
    directory: i32,
    path: Path<'p>,
    last: LastStep,
) -> Option<Backed<'p>> {
    if path[0] == b'/' {
        let (mount, backing) = process.mounts.direct_above(path.bytes())?;
        return Some(Backed::below_target(mount, backing, path));
    }
    let mount = process.backed_directory(directory)?;
    let backing = process.mounts.direct(mount)?;
    if path.starts_with(b"..") && matches!(path.get(2), None | Some(b'/')) {
        return Backed::above_directory(mount, backing, directory, path, last);
    }
    Some(Backed::below_directory(mount, backing, directory, path))
}

/// Resolves `path` component by component, in any case.
#[cold]
pub fn find_by_walking<'p>(
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    let process = process::get();
    let start = if path.first() == Some(&b'/') && restrictions.0 & Restrictions::IN_ROOT == 0 {
        Place::Host(b"/".to_vec())
    } else {
        base(process, directory)?.ok_or(Errno::ENOENT)?
    };
    walk(process, &start, path.bytes(), last, restrictions)
}

#[inline]
fn walk<'p>(
    process: &'static Process,
    start: &Place,
    path: &'p [u8],
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    let caller = process::caller();
    resolved(
        process
            .mounts
            .walk(&Kernel, &caller, start, path, last, restrictions),
    )
}

#[inline(always)]
fn resolved<'p>(answer: culvert::Result<Resolved<'p>>) -> Result<Found<'p>, Errno> {
    match answer {
        Ok(Resolved::Inside(inside)) => Ok(Found::Inside(inside)),
        Ok(Resolved::Outside { path }) => Ok(match Backed::resolved(&path) {
            Some(backed) => Found::Backed(backed),
            None => Found::Outside(c_string(&path)),
        }),
        Ok(Resolved::MagicLink(magic)) => Ok(Found::MagicLink(magic)),
        Ok(Resolved::Untouched) => Ok(Found::Kernel),
        Err(error) => Err(errno_of(&error)),
    }
}

/// A second look at a path that the kernel did not find, or (`certain`) that led it to the empty
/// directory under a mount.
pub fn look_again<'p>(
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
    certain: bool,
) -> Result<Found<'p>, Errno> {
    let process = process::get();
    let absolute = path.first() == Some(&b'/') && restrictions.0 & Restrictions::IN_ROOT == 0;
    let Some(start) = (if absolute {
        Some(Place::Host(b"/".to_vec()))
    } else {
        base(process, directory)?
    }) else {
        return Ok(Found::Kernel);
    };
    if certain {
        return walk(process, &start, path.bytes(), last, restrictions);
    }
    let (mounts, caller, path) = (&process.mounts, process::caller(), path.bytes());
    resolved(mounts.after_miss(&Kernel, &caller, &start, path, last, restrictions))
}

/// Whether the kernel finds a symbolic link at `path` below `directory`.
pub fn is_link(directory: i32, path: Path<'_>) -> bool {
    stat_at(directory, path, AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|found| found.st_mode & S_IFMT == S_IFLNK)
}

/// Tells the `(st_dev, st_ino)` of what a successful native call has found.
pub type Identity = fn(&Call) -> Option<(u64, u64)>;

/// Answers a call on a path: `inside` when it is something in a mount, else the kernel, with a
/// second look when that finds nothing.
///
/// `identity` tells the `(st_dev, st_ino)` of what a successful native call has found, where the
/// call reports it.
pub fn on_path(
    call: &mut Call,
    at: At,
    identity: Option<Identity>,
    inside: impl FnOnce(&Call, &mut Inside<'_>) -> Answer,
) -> Outcome {
    let mut room = PathBuffer::new();
    let path = match room.read(call.args[at.path]) {
        Ok(path) => path,
        Err(errno) => return done(Err(errno)),
    };
    let directory = at.directory_of(call);
    let by_name = match path.first() {
        Some(b'/') => None,
        _ => backed::by_name(call, at, directory, path),
    };
    let mut found = match by_name {
        Some(Some(answer)) => return done(answer),
        Some(None) => find_by_walking(directory, path, at.last, at.restrictions),
        // Used where it lies: it is large.
        None => match &mut find_straight(directory, path, at.last, at.restrictions) {
            Some(Ok(found)) => return done(inside(call, found)),
            Some(Err(error)) => return done(Err(errno_of(error))),
            None => find_by_text(directory, path, at.last, at.restrictions),
        },
    };
    if let Ok(Found::Backed(place)) = &found {
        if let Some(answer) = backed::perform(call, at, place) {
            return done(answer);
        }
        found = find_by_walking(directory, path, at.last, at.restrictions);
    }
    match &mut found {
        Err(errno) => return done(Err(*errno)),
        Ok(Found::Inside(found)) => return done(inside(call, found)),
        Ok(Found::Backed(place)) => return done(backed::perform_resolved(call, at, place)),
        Ok(Found::Outside(path)) => return outside(call, at, path),
        Ok(Found::MagicLink(_) | Found::Kernel) => {}
    }
    let process = process::get();
    if path.is_empty() {
        return Outcome::Forward;
    }
    let changes = !matches!(at.last, LastStep::Follow | LastStep::NoFollow);
    let mut certain = changes && process.targets_open && parent_is_target(directory, path.bytes());
    let answer = if certain {
        Err(Errno::ENOENT)
    } else {
        native(call)
    };
    if identity.is_none()
        && !changes
        && process.targets_open
        && matches!(answer, Ok(_) | Err(Errno::EACCES | Errno::EPERM))
    {
        // A link to the directory under a mount: what it says of itself is not what the mount says.
        certain = target_at(directory, path).is_some();
    } else if answer.is_ok() {
        certain = identity
            .and_then(|identity| identity(call))
            .is_some_and(|(dev, ino)| process.mounts.is_target(dev, ino).is_some());
    }
    if !certain && !matches!(answer, Err(Errno::ENOENT | Errno::ENOTDIR)) {
        return done(answer);
    }
    match look_again(directory, path, at.last, at.restrictions, certain) {
        Ok(Found::Inside(mut found)) => done(inside(call, &mut found)),
        Ok(Found::Backed(place)) => done(backed::perform_resolved(call, at, &place)),
        Ok(Found::Outside(path)) => outside(call, at, &path),
        Err(errno) if answer.is_err() => done(Err(errno)),
        _ => done(answer),
    }
}

/// The program's own call, executed here.
pub fn native(call: &Call) -> Answer {
    // SAFETY: the program's own call with its own arguments.
    unsafe { syscall::call(call.number, call.args) }
}

/// The call with `path` (NUL-terminated, absolute) in place of its own.
pub fn outside(call: &Call, at: At, path: &[u8]) -> Outcome {
    let mut args = call.args;
    args[at.path] = path.as_ptr() as usize;
    if let Some(directory) = at.directory {
        args[directory] = AT_FDCWD as usize;
    }
    // SAFETY: the program's own call, its path replaced by one that ends in NUL.
    done(unsafe { syscall::call(call.number, args) })
}

/// Answers a call that Culvert has no way to do on a mount (quotas, mounting over it): `errno` for
/// paths in mounts and, where the call takes one by itself, for descriptors of theirs, else the
/// kernel. What is wrong with the call's other arguments comes first.
pub fn refuse_inside(call: &mut Call, at: At, errno: Errno) -> Outcome {
    let at = at.turned(call);
    // Without AT_EMPTY_PATH that is an error of the kernel's, too.
    let path = call.args[at.path];
    let is_empty = || path == 0 || crate::memory::get::<u8>(path) == Ok(0);
    if let Some(directory) = at.directory
        && is_empty()
        && super::descriptor(call.args[directory]).is_some()
    {
        return done(Err(wrong_before_path(call, at).unwrap_or(errno)));
    }
    // No path: it is about the descriptor (fanotify_mark(2)), or about none (acct(2)).
    if path == 0 {
        let names = at.directory.map(|directory| call.args[directory] as i32);
        let hidden = names.is_some_and(|fd| process::get().table.is_internal(fd));
        return match hidden {
            true => done(Err(Errno::EBADF)),
            false => Outcome::Forward,
        };
    }
    on_path(call, at, None, |call, found| {
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
    let mut args = call.args;
    args[at.path] = c"/proc/self/culvert".as_ptr() as usize;
    // SAFETY: the program's own call, of a path that does not exist: all it does is fail.
    match unsafe { syscall::call(call.number, args) } {
        Err(Errno::ENOENT | Errno::ENOTDIR) | Ok(_) => None,
        Err(wrong) => Some(wrong),
    }
}

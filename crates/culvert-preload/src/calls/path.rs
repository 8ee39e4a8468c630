//! What all calls that take a path have in common: is it ours, where does it lead, and what if the kernel does not find it.

use super::backed::{self, Backed};
use super::{Answer, done};
use crate::description::{Held, Object};
use crate::memory::{Path, PathBuffer, c_string};
use crate::process::{self, Here, Process};
use crate::resolver::{
    Host, HostFile, HostKind, Inside, LastStep, Magic, MountId, Place, Quick, Resolved,
    Restrictions,
};
use crate::run;
use crate::shadow::Descriptor;
use alloc::vec::Vec;
use culvert::{Errno, FileKind, Node};
use culvert_intercept::{Call, Outcome};
use culvert_sys::{nr, raw::general, syscall};

/// AT_FDCWD.
pub const AT_FDCWD: i32 = -100;

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
}

impl At {
    /// The path in argument `path`, relative ones below the working directory.
    pub const fn new(path: usize, last: LastStep) -> Self {
        Self {
            directory: None,
            path,
            last,
            restrictions: Restrictions(0),
        }
    }

    /// The path in argument `directory + 1`, relative ones below the directory of argument `directory`.
    pub const fn below(directory: usize, last: LastStep) -> Self {
        Self {
            directory: Some(directory),
            path: directory + 1,
            last,
            restrictions: Restrictions(0),
        }
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

/// The real file system, for the resolver.
pub struct Kernel;

impl Host for Kernel {
    fn lstat(&self, path: &[u8]) -> Result<HostFile, Errno> {
        let (directory, path) = backed::native_place(path);
        let found = stat_at(directory, Path::of(&path), AT_SYMLINK_NOFOLLOW)?;
        let kind = match FileKind::of_mode(found.st_mode) {
            Some(FileKind::Directory) => HostKind::Directory,
            Some(FileKind::Symlink) => HostKind::Symlink,
            _ => HostKind::Other,
        };
        Ok(HostFile {
            kind,
            dev: found.st_dev,
            ino: found.st_ino,
        })
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let (directory, path) = backed::native_place(path);
        run::read_link_at(directory, &path)
    }

    fn magic(&self, path: &[u8]) -> Magic {
        let mut parts = path
            .split(|&b| b == b'/')
            .filter(|part| !part.is_empty())
            .skip(1);
        let number = |part: Option<&[u8]>| core::str::from_utf8(part?).ok()?.parse::<i32>().ok();
        // SAFETY: getpid has no arguments.
        let me = unsafe { syscall::raw(nr::GETPID, [0; 6]) } as i32;
        if number(parts.next()) != Some(me) {
            return Magic::No;
        }
        let mut what = parts.next();
        if what == Some(b"task") {
            parts.next();
            what = parts.next();
        }
        match what {
            Some(b"cwd") => match process::get().with_working_directory(|here| here.cloned()) {
                Some(Here::Place(place @ Place::Mount { .. })) => Magic::Directory(place),
                Some(here @ Here::Backed(_)) => match place_of_here(here) {
                    Ok(place) => Magic::Directory(place),
                    Err(_) => Magic::Kernel,
                },
                _ => Magic::No,
            },
            Some(b"exe") => own_executable().unwrap_or(Magic::No),
            Some(b"fd") => {
                match number(parts.next()).map(|fd| (fd, process::get().table.get(fd))) {
                    Some((_, Some(held))) if held.kind == FileKind::Directory => {
                        Magic::Directory(Place::Mount {
                            mount: held.mount,
                            node: held.node,
                        })
                    }
                    Some((_, Some(held))) => Magic::File {
                        mount: held.mount,
                        node: held.node,
                    },
                    Some((fd, None)) => match process::get().table.backed(fd) {
                        Some(mount) => crate::backing::directory(mount, fd)
                            .map_or(Magic::Kernel, |path| Magic::Directory(Place::Host(path))),
                        None => Magic::Kernel,
                    },
                    None => Magic::Kernel,
                }
            }
            _ => Magic::No,
        }
    }

    fn link_free(&self, path: &[u8]) -> bool {
        const RESOLVE_NO_SYMLINKS: u64 = 4;
        const O_PATH: u64 = 0o10000000;
        match open_restricted(
            AT_FDCWD,
            Path::of(&c_string(path)),
            O_PATH,
            0,
            RESOLVE_NO_SYMLINKS,
        ) {
            Ok(_) => true,
            Err(error) => matches!(error, Errno::ENOENT | Errno::ENOTDIR),
        }
    }
}

/// openat2(2), close-on-exec.
pub fn open_restricted(
    directory: i32,
    path: Path<'_>,
    flags: u64,
    mode: u64,
    resolve: u64,
) -> Result<Descriptor, Errno> {
    const O_CLOEXEC: u64 = 0o2000000;
    let how = [flags | O_CLOEXEC, mode, resolve];
    let arguments = [
        directory as usize,
        path.address(),
        how.as_ptr() as usize,
        24,
    ];
    // SAFETY: the path ends in NUL; `how` is a `struct open_how` of the length given.
    unsafe { syscall::call(nr::OPENAT2, arguments) }.map(|fd| Descriptor(fd as i32))
}

const AT_SYMLINK_NOFOLLOW: usize = 0x100;

/// newfstatat(2).
pub fn stat_at(directory: i32, path: Path<'_>, flags: usize) -> Result<general::stat, Errno> {
    let mut out = core::mem::MaybeUninit::<general::stat>::zeroed();
    let arguments = [
        directory as usize,
        path.address(),
        out.as_mut_ptr() as usize,
        flags,
    ];
    // SAFETY: the path ends in NUL, the buffer is a `struct stat`, plain data.
    unsafe {
        syscall::call(nr::NEWFSTATAT, arguments)?;
        Ok(out.assume_init())
    }
}

/// `/proc/self/exe` of a program that was started from a mount.
fn own_executable() -> Option<Magic> {
    let path = run::read_link(b"/proc/self/exe\0").ok()?;
    let original = crate::exec::origin(&path)?;
    match process::get().mounts.walk(
        &Kernel,
        &process::caller(),
        &Place::Host(b"/".to_vec()),
        original,
        LastStep::Follow,
        Restrictions(0),
    ) {
        Ok(Resolved::Inside(Inside {
            mount,
            entry: Some(entry),
            ..
        })) => Some(Magic::File {
            mount,
            node: entry.attributes.node,
        }),
        _ => None,
    }
}

/// The directory that a descriptor argument stands for; none for a foreign one. ENOTDIR when it is a file of ours.
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
fn place_of_here(here: Here) -> Result<Place, Errno> {
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

/// The quickest answer inside a mount: plain names all the way, which the driver takes at once. Not inlined, so that its large answer is made
/// where it stays.
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
        crate::log!("path resolution: {cause}");
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
    // A program from a mount runs as a file of the run directory: paths made from its own place mean the mount.
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
    // A link into a mount is a crossing that the kernel cannot see; with RESOLVE_IN_ROOT the text of a path says little.
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

/// The quickest answer of all: the path begins in a backing tree that no other mount has to do with, so that only links could lead elsewhere.
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

/// A second look at a path that the kernel did not find, or (`certain`) that led it to the empty directory under a mount.
pub fn look_again<'p>(
    directory: i32,
    path: Path<'p>,
    last: LastStep,
    restrictions: Restrictions,
    certain: bool,
) -> Result<Found<'p>, Errno> {
    let process = process::get();
    let Some(start) = (if path.first() == Some(&b'/') {
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

/// Whether the kernel would create or remove a name in the empty directory under a mount, reached by a link outside.
pub fn parent_is_target(directory: i32, path: &[u8]) -> bool {
    let trimmed = &path[..path
        .iter()
        .rposition(|&b| b != b'/')
        .map_or(0, |end| end + 1)];
    let parent: Vec<u8> = match trimmed.iter().rposition(|&b| b == b'/') {
        Some(slash) => c_string(&trimmed[..slash + 1]),
        None => c_string(b"."),
    };
    target_at(directory, Path::of(&parent)).is_some()
}

/// Whether the kernel finds a symbolic link at `path` below `directory`.
pub fn is_link(directory: i32, path: Path<'_>) -> bool {
    const S_IFMT: u32 = 0o170000;
    const S_IFLNK: u32 = 0o120000;
    stat_at(directory, path, AT_SYMLINK_NOFOLLOW)
        .is_ok_and(|found| found.st_mode & S_IFMT == S_IFLNK)
}

/// The mount whose target the kernel finds at `path` below `directory`.
fn target_at(directory: i32, path: Path<'_>) -> Option<MountId> {
    let found = stat_at(directory, path, 0).ok()?;
    process::get().mounts.is_target(found.st_dev, found.st_ino)
}

/// Tells the `(st_dev, st_ino)` of what a successful native call has found.
pub type Identity = fn(&Call) -> Option<(u64, u64)>;

/// Answers a call on a path: `inside` when it is something in a mount, else the kernel, with a second look when that finds nothing.
///
/// `identity` tells the `(st_dev, st_ino)` of what a successful native call has found, where the call reports it.
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
        None => match find_straight(directory, path, at.last, at.restrictions) {
            Some(Ok(mut found)) => return done(inside(call, &mut found)),
            Some(Err(error)) => return done(Err(errno_of(&error))),
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

/// Answers a call that Culvert has no way to do on a mount (quotas, mounting over it): `errno` for paths in mounts, else the kernel.
pub fn refuse_inside(call: &mut Call, at: At, errno: Errno) -> Outcome {
    on_path(call, at, None, |_, found| {
        if found.entry.is_some() {
            Err(errno)
        } else {
            Err(Errno::ENOENT)
        }
    })
}

/// getdents64 on a foreign descriptor: it may be the empty directory under a mount, opened through a link outside.
pub fn list_foreign(call: &mut Call) -> Outcome {
    let process = process::get();
    let fd = call.args[0] as i32;
    if !process.targets_exist {
        return Outcome::Forward;
    }
    let Ok(found) = run::stat_descriptor(fd) else {
        return Outcome::Forward;
    };
    let Some(mount) = process.mounts.is_target(found.st_dev, found.st_ino) else {
        return Outcome::Forward;
    };
    match adopt_target(fd, mount) {
        Ok(()) => super::directory::getdents(call),
        Err(errno) => done(Err(errno)),
    }
}

/// Makes descriptor `fd`, which the kernel opened on the empty directory under `mount`, one of the mount's root.
pub fn adopt_target(fd: i32, mount: MountId) -> Result<(), Errno> {
    use crate::description::Description;
    use culvert_sys::raw::general::{O_ACCMODE, O_NONBLOCK};
    const F_GETFL: usize = 3;
    let process = process::get();
    let file_system = process::file_system(mount)?;
    if let Some(backing) = file_system.backing() {
        return backed::take_over(fd, mount, backing);
    }
    let root = file_system.root();
    // SAFETY: F_GETFL only reads.
    let flags = unsafe { syscall::call(nr::FCNTL, [fd as usize, F_GETFL]) }? as u32;
    let object = if flags & crate::description::O_PATH != 0 {
        Object::Path
    } else {
        Object::Directory
    };
    let keep = flags & (O_ACCMODE | O_NONBLOCK | crate::description::O_PATH | 0o200000);
    let description = Description::new(mount, root, FileKind::Directory, object, keep);
    let new = process.table.add(description, 0, true)?;
    let on_exec = if crate::descriptors::close_on_exec(fd)? {
        0o2000000
    } else {
        0
    };
    let reference = process.table.reference(new).ok_or(Errno::EBADF)?;
    // SAFETY: replaces the program's descriptor by our placeholder's dup at the same number.
    let moved = unsafe { syscall::call(nr::DUP3, [new as usize, fd as usize, on_exec]) };
    if moved.is_ok() {
        process.table.install(fd, reference);
    }
    process.table.remove(new);
    drop(crate::shadow::Descriptor(new));
    moved.map(|_| ())
}

/// The path that the kernel's link to a description of ours would show.
pub fn shown_path(held: &Held) -> Result<Vec<u8>, Errno> {
    let mounts = &process::get().mounts;
    let path = match &held.opened_as {
        Some((parent, name)) => mounts
            .path_of_node(held.mount, *parent)
            .map(|parent| [&parent[..], b"/", name].concat()),
        None => mounts.path_of_node(held.mount, held.node),
    };
    path.map_err(|error| error.errno())
}

/// What readlink gives for a magic link to something of ours.
pub fn magic_text(magic: &Magic) -> Result<Vec<u8>, Errno> {
    let mounts = &process::get().mounts;
    match magic {
        Magic::Directory(place) => mounts.path_of(place).map_err(|error| error.errno()),
        Magic::File { mount, node } => mounts
            .path_of_node(*mount, *node)
            .map_err(|error| error.errno()),
        _ => Err(Errno::EINVAL),
    }
}

//! What all calls that take a path have in common: is it ours, where does it lead, and what if the kernel does not find it.

use super::{Answer, done};
use crate::description::{Held, Object};
use crate::memory::{PathBuffer, c_string};
use crate::process::{self, Process};
use crate::resolver::{
    Host, HostFile, HostKind, Inside, LastStep, Magic, MountId, Place, Quick, Resolved,
    Restrictions,
};
use crate::run;
use alloc::vec::Vec;
use culvert::{Errno, FileKind};
use culvert_intercept::{Call, Outcome};
use culvert_sys::{nr, syscall};

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

    fn directory_of(&self, call: &Call) -> i32 {
        self.directory
            .map_or(AT_FDCWD, |index| call.args[index] as i32)
    }
}

/// What a path argument comes to.
pub enum Found<'p> {
    /// Something in a mount.
    Inside(Inside<'p>),
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
        let path = c_string(path);
        let mut out = core::mem::MaybeUninit::<culvert_sys::raw::general::stat>::zeroed();
        // SAFETY: the path ends in NUL, the buffer is a `struct stat`, plain data.
        let found = unsafe {
            syscall::call(
                nr::LSTAT,
                [path.as_ptr() as usize, out.as_mut_ptr() as usize],
            )?;
            out.assume_init()
        };
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
        run::read_link(&c_string(path))
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
            Some(b"cwd") => match process::get().with_working_directory(|place| place.cloned()) {
                Some(place @ Place::Mount { .. }) => Magic::Directory(place),
                _ => Magic::No,
            },
            Some(b"exe") => own_executable().unwrap_or(Magic::No),
            Some(b"fd") => match number(parts.next()).and_then(|fd| process::get().table.get(fd)) {
                Some(held) if held.kind == FileKind::Directory => Magic::Directory(Place::Mount {
                    mount: held.mount,
                    node: held.node,
                }),
                Some(held) => Magic::File {
                    mount: held.mount,
                    node: held.node,
                },
                None => Magic::Kernel,
            },
            _ => Magic::No,
        }
    }

    fn link_free(&self, path: &[u8]) -> bool {
        const RESOLVE_NO_SYMLINKS: u64 = 4;
        const O_PATH_CLOEXEC: u64 = 0o10000000 | 0o2000000;
        let how: [u64; 3] = [O_PATH_CLOEXEC, 0, RESOLVE_NO_SYMLINKS];
        let path = c_string(path);
        // SAFETY: the path ends in NUL; `how` is a `struct open_how` of the length given.
        match unsafe {
            syscall::call(
                nr::OPENAT2,
                [
                    AT_FDCWD as usize,
                    path.as_ptr() as usize,
                    how.as_ptr() as usize,
                    24,
                ],
            )
        } {
            Ok(fd) => {
                drop(crate::shadow::Descriptor(fd as i32));
                true
            }
            Err(error) => matches!(error, Errno::ENOENT | Errno::ENOTDIR),
        }
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

/// Where a path starts: `Err` is the call's answer, `Ok(None)` a directory that cannot be named.
fn base(process: &Process, directory: i32) -> Result<Option<Place>, Errno> {
    if directory == AT_FDCWD {
        return Ok(process.with_working_directory(|place| place.cloned()));
    }
    Ok(place_of(directory)?.or_else(|| foreign_place(process, directory)))
}

/// Finds out what `path` is, by text and by walking the mounts.
pub fn find<'p>(
    directory: i32,
    path: &'p [u8],
    last: LastStep,
    restrictions: Restrictions,
) -> Result<Found<'p>, Errno> {
    let process = process::get();
    if path.is_empty() || process.has_left() {
        return Ok(Found::Kernel);
    }
    let absolute = path[0] == b'/' && restrictions.0 & Restrictions::IN_ROOT == 0;
    // A program from a mount runs as a file of the run directory: paths made from its own place mean the mount.
    if let Some(original) = absolute
        .then(|| crate::exec::origin(path))
        .flatten()
        .filter(|original| !original.is_empty())
    {
        let start = Place::Host(b"/".to_vec());
        return resolved(process.mounts.walk(
            &Kernel,
            &process::caller(),
            &start,
            original,
            last,
            restrictions,
        ));
    }
    let mut known = None;
    let quick = if absolute {
        process.mounts.quick(None, path)
    } else if directory == AT_FDCWD {
        process.with_working_directory(|place| match place {
            Some(place) => {
                let quick = process.mounts.quick(Some(place), path);
                if quick != Quick::Untouched {
                    known = Some(place.clone());
                }
                quick
            }
            None => Quick::Untouched,
        })
    } else {
        known = place_of(directory)?;
        process.mounts.quick(known.as_ref(), path)
    };
    // A link into a mount is a crossing that the kernel cannot see; with RESOLVE_IN_ROOT the text of a path says little.
    let text_decides = restrictions.0 & (Restrictions::NO_XDEV | Restrictions::IN_ROOT) == 0;
    if quick == Quick::Untouched && text_decides {
        return Ok(Found::Kernel);
    }
    let start = match known {
        Some(place) => place,
        None if absolute => Place::Host(b"/".to_vec()),
        None => match base(process, directory)? {
            Some(place) => place,
            None => return Ok(Found::Kernel),
        },
    };
    resolved(process.mounts.walk(
        &Kernel,
        &process::caller(),
        &start,
        path,
        last,
        restrictions,
    ))
}

fn resolved<'p>(answer: culvert::Result<Resolved<'p>>) -> Result<Found<'p>, Errno> {
    match answer {
        Ok(Resolved::Inside(inside)) => Ok(Found::Inside(inside)),
        Ok(Resolved::Outside { path }) => Ok(Found::Outside(c_string(&path))),
        Ok(Resolved::MagicLink(magic)) => Ok(Found::MagicLink(magic)),
        Ok(Resolved::Untouched) => Ok(Found::Kernel),
        Err(error) => {
            if let Some(cause) = error.cause() {
                crate::log!("path resolution: {cause}");
            }
            Err(error.errno())
        }
    }
}

/// A second look at a path that the kernel did not find, or (`certain`) that led it to the empty directory under a mount.
pub fn look_again<'p>(
    directory: i32,
    path: &'p [u8],
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
    let caller = process::caller();
    resolved(if certain {
        process
            .mounts
            .walk(&Kernel, &caller, &start, path, last, restrictions)
    } else {
        process
            .mounts
            .after_miss(&Kernel, &caller, &start, path, last, restrictions)
    })
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
    target_at(directory, &parent).is_some()
}

/// The mount whose target the kernel finds at `path` (NUL-terminated) below `directory`.
fn target_at(directory: i32, path: &[u8]) -> Option<MountId> {
    let mut out = core::mem::MaybeUninit::<culvert_sys::raw::general::stat>::zeroed();
    // SAFETY: the path ends in NUL, the buffer is a `struct stat`, plain data.
    let found = unsafe {
        syscall::call(
            nr::NEWFSTATAT,
            [
                directory as usize,
                path.as_ptr() as usize,
                out.as_mut_ptr() as usize,
                0,
            ],
        )
        .ok()?;
        out.assume_init()
    };
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
    inside: impl FnOnce(&Call, Inside<'_>) -> Answer,
) -> Outcome {
    let mut room = PathBuffer::new();
    let path = match room.read(call.args[at.path]) {
        Ok(path) => path,
        Err(errno) => return done(Err(errno)),
    };
    let directory = at.directory_of(call);
    match find(directory, path, at.last, at.restrictions) {
        Err(errno) => return done(Err(errno)),
        Ok(Found::Inside(found)) => return done(inside(call, found)),
        Ok(Found::Outside(path)) => return outside(call, at, &path),
        Ok(Found::MagicLink(_) | Found::Kernel) => {}
    }
    let process = process::get();
    if path.is_empty() {
        return Outcome::Forward;
    }
    let changes = !matches!(at.last, LastStep::Follow | LastStep::NoFollow);
    let mut certain = changes && process.targets_open && parent_is_target(directory, path);
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
        certain = target_at(directory, &c_string(path)).is_some();
    } else if answer.is_ok() {
        certain = identity
            .and_then(|identity| identity(call))
            .is_some_and(|(dev, ino)| process.mounts.is_target(dev, ino).is_some());
    }
    if !certain && !matches!(answer, Err(Errno::ENOENT | Errno::ENOTDIR)) {
        return done(answer);
    }
    match look_again(directory, path, at.last, at.restrictions, certain) {
        Ok(Found::Inside(found)) => done(inside(call, found)),
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
    let root = process::file_system(mount)?.root();
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

//! Which program a path or a descriptor leads to.

use super::Program;
use crate::process::Process;
use crate::vfs::backed::{Backed, through_proc};
use crate::vfs::misses;
use crate::vfs::native::{AT_SYMLINK_NOFOLLOW, stat_at};
use crate::vfs::path::{Found, Given, existing, find_resolved, look_again};
use crate::vfs::permission::granted;
use alloc::format;
use culvert::{Attributes, Errno, FileKind};
use culvert_intercept::images::Key;
use culvert_mounts::resolver::{Inside, LastStep};
use culvert_mounts::{MountId, References};
use culvert_run::{ShadowName, files::c_string, memory::Path, stat_descriptor, stat_path};
use culvert_sys::own_descriptors;
use culvert_sys::raw::general::AT_FDCWD;

fn may_be_executed(mount: MountId, attributes: &Attributes) -> Result<(), Errno> {
    const EXECUTE: u32 = 1;
    match attributes.kind {
        FileKind::Regular => {
            let file_system = culvert_cache::file_system(mount)?;
            granted(
                file_system,
                &culvert_run::task::caller(),
                attributes,
                EXECUTE,
            )
        }
        FileKind::Symlink => Err(Errno::ELOOP),
        _ => Err(Errno::EACCES),
    }
}

fn of_mount(process: &Process, mut found: Inside<'_>) -> Result<Program, Errno> {
    let attributes = *existing(&found)?;
    may_be_executed(found.mount, &attributes)?;
    let path = process
        .mounts
        .path_of_node(found.mount, attributes.node)
        .map_err(|error| error.errno())?;
    Ok(Program::Mount {
        path,
        name: ShadowName {
            mount: found.mount,
            node: attributes.node,
        },
        keeper: found.references.take_all(process.mounts),
    })
}

/// A program in the backing tree of a mount, which the kernel starts from the source.
fn backed_program(place: &Backed<'_>) -> Result<Program, Errno> {
    let mut path = culvert_run::descriptor_path(place.base)?;
    path.push(b'/');
    path.extend_from_slice(place.path().bytes());
    let seen = crate::backing::seen(place.mount, &path);
    Ok(Program::Backed {
        host: c_string(path),
        seen,
    })
}

/// Where the program at `path` is, for a caller in `directory`.
pub fn locate(
    process: &Process,
    directory: i32,
    path: &[u8],
    last: LastStep,
) -> Result<Program, Errno> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let host = || {
        let absolute = path[0] == b'/' || directory == AT_FDCWD;
        match absolute {
            true => c_string(path),
            false => through_proc(directory, path),
        }
    };
    let owned = c_string(path);
    let given = Given::new(directory, Path::of(&owned), last);
    let mut found = find_resolved(process, given)?;
    if let Found::MagicLink(_) | Found::Kernel = found {
        let there = stat_path(&host());
        let missing = match &there {
            Err(errno @ (Errno::ENOENT | Errno::ENOTDIR)) => *errno,
            // Who looks for a program in PATH executes all names on the way.
            Err(Errno::EACCES) if misses::is_out_of_reach(process, directory, given.path) => {
                return Err(Errno::EACCES);
            }
            _ => return Ok(Program::Host(host(), there.ok().as_ref().map(Key::of))),
        };
        found = look_again(process, given, false)?;
        // A link that is not followed is there.
        if matches!(found, Found::Kernel) && last == LastStep::Follow {
            return Err(missing);
        }
    }
    match found {
        Found::Inside(found) => of_mount(process, found),
        Found::Backed(place) => backed_program(&place),
        Found::Outside(path) => Ok(Program::Host(path, None)),
        Found::MagicLink(_) | Found::Kernel => Ok(Program::Host(host(), None)),
    }
}

/// The program behind descriptor `fd`.
pub fn of_descriptor(process: &Process, fd: i32) -> Result<Program, Errno> {
    let Some(held) = process.table.get(fd) else {
        let host = c_string(format!("{}{fd}", own_descriptors::directory()).as_bytes());
        let table = &process.table;
        let mount = table.backed(fd).or_else(|| table.opened_through(fd));
        return Ok(match mount {
            Some(mount) => Program::Backed {
                host,
                seen: crate::backing::seen(mount, &culvert_run::descriptor_path(fd)?),
            },
            None => Program::Host(host, None),
        });
    };
    let attributes = crate::description::described(&held)?;
    may_be_executed(held.mount, &attributes)?;
    Ok(Program::Mount {
        path: crate::vfs::shown::shown_path(process, &held)?,
        name: ShadowName {
            mount: held.mount,
            node: held.node,
        },
        // The description keeps it.
        keeper: References::default(),
    })
}

/// Whether the kernel's own descriptor `fd` is one that execveat(2) of `path` can start from
/// (`path_init`, fs/namei.c, and `do_open_execat`, fs/exec.c).
pub fn may_start_below(process: &Process, fd: i32, path: Path<'_>) -> Result<(), Errno> {
    if fd == AT_FDCWD {
        return match path.is_empty() {
            true => Err(Errno::EACCES), // a directory
            false => Ok(()),
        };
    }
    if path.bytes().first() == Some(&b'/') {
        return Ok(());
    }
    if process.run.is_internal(fd) {
        return Err(Errno::EBADF);
    }
    let mode = stat_descriptor(fd)?.st_mode;
    match FileKind::of_mode(mode) == Some(FileKind::Directory) || path.is_empty() {
        true => Ok(()),
        false => Err(Errno::ENOTDIR),
    }
}

impl Program {
    /// Whether the kernel would find a symbolic link there, and follow it.
    pub fn is_link(&self) -> bool {
        let (Self::Host(host, _) | Self::Backed { host, .. }) = self else {
            return false;
        };
        let found = stat_at(AT_FDCWD, Path::of(host), AT_SYMLINK_NOFOLLOW);
        found.is_ok_and(|found| FileKind::of_mode(found.st_mode) == Some(FileKind::Symlink))
    }
}

//! A directory that only a driver knows, copied into the run directory with all that is below it:
//! what a program that is not intercepted sees of it.
//!
//! The copy shows how the tree is when it is made; the next one made of the same directory brings
//! it up to date in place. It is bounded, since each such program that is started pays for it.

use crate::process::Process;
use alloc::ffi::CString;
use alloc::{boxed::Box, format, vec, vec::Vec};
use core::ffi::CStr;
use culvert::{Attributes, Errno, FileKind, FileSystem, Node, OpenFlags, Opened};
use culvert_cache::shadow;
use culvert_mounts::MountId;
use culvert_run::files::{c_string, times};
use culvert_run::{ShadowName, list, make_directory, read_file, read_link, stat_path};
use culvert_sys::fd::CWD;
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::plain::Plain;
use culvert_sys::raw::general::{O_CREAT, O_DIRECTORY, O_EXCL, O_WRONLY, stat};

/// What is copied at most: names, bytes, and directories below each other (of a hook's stack).
const NAMES: usize = 1000;
const BYTES: u64 = 8 << 20;
const DEPTH: usize = 12;

/// One name of the tree, with what is below it.
struct Branch {
    name: Vec<u8>,
    /// Of one that was not found no more than its type.
    attributes: Attributes,
    below: Vec<Branch>,
    found: bool,
}

/// Where the tree goes.
struct Target<'a> {
    file_system: &'a dyn FileSystem,
    mount: MountId,
    /// The path (ending in NUL) of a file until it is whole: of this copy only, for others are made
    /// at the same time.
    fresh: CString,
}

/// What is left of the bounds.
struct Room {
    names: usize,
    bytes: u64,
}

/// The path of the copy of the directory `name`, which is up to date.
///
/// - `EFBIG`: the tree is larger than what is copied.
/// - `EOPNOTSUPP`: it holds devices.
/// - What the driver and the run directory say.
pub fn copy(process: &Process, name: ShadowName) -> Result<CString, Errno> {
    let file_system = culvert_cache::file_system(name.mount)?;
    let mut room = Room {
        names: NAMES,
        bytes: BYTES,
    };
    let attributes = file_system
        .attributes(&culvert_run::task::caller(), name.node)
        .map_err(errno)?;
    let below = look(file_system, &attributes, &mut room, DEPTH)?;
    let run = &process.run;
    make_directory(&run.file("shown"))?;
    let path = run.shown(name);
    let _lock = process.node_locks.lock(name);
    let root = Branch {
        name: Vec::new(),
        attributes,
        below,
        found: true,
    };
    let target = Target {
        file_system,
        mount: name.mount,
        fresh: run.file(&format!("shown/new-{}", name.text())),
    };
    write(process, &target, &path, &root.attributes, &root)?;
    Ok(path)
}

fn errno(error: culvert::Error) -> Errno {
    error.errno()
}

/// Whether a name is gone since the directory was read, or what it stood for is.
fn is_gone(error: Errno) -> bool {
    matches!(error, Errno::ENOENT | Errno::ESTALE)
}

/// What is in the directory, as far as this process may see it.
fn look(
    file_system: &dyn FileSystem,
    directory: &Attributes,
    room: &mut Room,
    depth: usize,
) -> Result<Vec<Branch>, Errno> {
    let caller = culvert_run::task::caller();
    if !crate::vfs::permission::permits(&caller, directory, 4) {
        return Ok(Vec::new());
    }
    let mut names: Vec<(Vec<u8>, FileKind)> = Vec::new();
    let left = room.names;
    let node = directory.node;
    file_system
        .read_directory(&culvert_run::task::caller(), node, 0, &mut |entry| {
            names.push((entry.name.to_vec(), entry.kind));
            names.len() <= left
        })
        .map_err(errno)?;
    room.names = left.checked_sub(names.len()).ok_or(Errno::EFBIG)?;
    let mut branches = Vec::with_capacity(names.len());
    let searchable = crate::vfs::permission::permits(&caller, directory, 1);
    for (name, kind) in names {
        if !searchable {
            branches.push(unseen(name, kind));
            continue;
        }
        let found = match file_system.lookup(&caller, node, &name).map_err(errno) {
            Err(error) if is_gone(error) || error == Errno::EACCES => continue,
            found => found?,
        };
        let branch = branch(file_system, name, found.attributes, room, depth);
        file_system.forget(found.attributes.node, 1);
        match branch {
            // A directory that was removed before it was read.
            Err(error) if is_gone(error) => {}
            branch => branches.push(branch?),
        }
    }
    Ok(branches)
}

/// A name in a directory that may be listed, but not searched: neither may its copy.
fn unseen(name: Vec<u8>, kind: FileKind) -> Branch {
    let kind = match kind {
        FileKind::Directory => kind,
        _ => FileKind::Regular,
    };
    Branch {
        name,
        attributes: Attributes::new(kind, 0),
        below: Vec::new(),
        found: false,
    }
}

fn branch(
    file_system: &dyn FileSystem,
    name: Vec<u8>,
    attributes: Attributes,
    room: &mut Room,
    depth: usize,
) -> Result<Branch, Errno> {
    let below = match attributes.kind {
        FileKind::Directory => {
            let depth = depth.checked_sub(1).ok_or(Errno::EFBIG)?;
            look(file_system, &attributes, room, depth)?
        }
        FileKind::Regular => {
            room.bytes = room
                .bytes
                .checked_sub(attributes.size)
                .ok_or(Errno::EFBIG)?;
            Vec::new()
        }
        FileKind::CharacterDevice | FileKind::BlockDevice => return Err(Errno::EOPNOTSUPP),
        _ => Vec::new(),
    };
    Ok(Branch {
        name,
        attributes,
        below,
        found: true,
    })
}

/// Makes what is at `path` (ending in NUL) equal to `branch`, which has `attributes` by now; to be
/// called with a reference on its node.
fn write(
    process: &Process,
    target: &Target<'_>,
    path: &CStr,
    attributes: &Attributes,
    branch: &Branch,
) -> Result<(), Errno> {
    let there = stat_path_itself(path);
    let kind = attributes.kind;
    if there.is_some_and(|found| FileKind::of_mode(found.st_mode) != Some(kind)) {
        remove(path);
    }
    match kind {
        FileKind::Directory => write_directory(process, target, path, attributes, branch),
        FileKind::Regular => write_file(target, path, attributes),
        FileKind::Symlink => write_link(target.file_system, path, attributes.node),
        FileKind::Fifo | FileKind::Socket => {
            let stands_for = process.run.fifo(ShadowName {
                mount: target.mount,
                node: Node(attributes.inode),
            });
            // The FIFO itself, where programs have opened it: who writes there is heard.
            let linked = kind == FileKind::Fifo && fs::link(&stands_for, path).is_ok();
            match linked {
                true => Ok(()),
                false => exists(fs::mknod(path, kind as u32 | 0o400, 0)),
            }
        }
        FileKind::CharacterDevice | FileKind::BlockDevice => Err(Errno::EOPNOTSUPP),
    }
}

/// What this process may do to it but write, as the owner's permissions: in a copy nothing is
/// written.
fn mode_of(attributes: &Attributes) -> u32 {
    let caller = culvert_run::task::caller();
    [4u32, 1]
        .into_iter()
        .filter(|&wanted| crate::vfs::permission::permits(&caller, attributes, wanted))
        .fold(0, |mode, wanted| mode | wanted << 6)
}

fn write_directory(
    process: &Process,
    target: &Target<'_>,
    path: &CStr,
    attributes: &Attributes,
    branch: &Branch,
) -> Result<(), Errno> {
    make_directory(path)?;
    fs::chmod(path, 0o700)?;
    let opened = culvert_run::files::open(path, O_DIRECTORY, 0)?;
    let old = list(&opened);
    let gone = old.iter().filter(|old| {
        !matches!(&old[..], b"." | b"..") && !branch.below.iter().any(|it| it.name == **old)
    });
    for name in gone {
        remove(&below(path, name));
    }
    // tmpfs lists the newest name first: so the copy has the driver's order.
    for entry in branch.below.iter().rev() {
        let place = below(path, &entry.name);
        match write_entry(process, target, &place, attributes.node, entry) {
            Err(error) if is_gone(error) => remove(&place),
            written => written?,
        }
    }
    fs::chmod(path, mode_of(attributes))?;
    set_times(path, attributes)
}

/// Makes `place` equal to what `directory` has at the name of `entry` now: drivers whose nodes are
/// transient find them by name only.
fn write_entry(
    process: &Process,
    target: &Target<'_>,
    place: &CStr,
    directory: Node,
    entry: &Branch,
) -> Result<(), Errno> {
    if !entry.found {
        return write(process, target, place, &entry.attributes, entry);
    }
    let caller = culvert_run::task::caller();
    let found = target
        .file_system
        .lookup(&caller, directory, &entry.name)
        .map_err(errno)?;
    let now = &found.attributes;
    let written = match now.kind == entry.attributes.kind {
        // Another one since it was counted.
        true if now.kind == FileKind::Regular && now.size > BYTES => Err(Errno::EFBIG),
        true => write(process, target, place, now, entry),
        false => Err(Errno::ENOENT),
    };
    target.file_system.forget(now.node, 1);
    written
}

fn write_file(target: &Target<'_>, path: &CStr, attributes: &Attributes) -> Result<(), Errno> {
    let mode = mode_of(attributes);
    let bytes = match mode & 0o400 {
        0 => Vec::new(),
        _ => bytes_of(target.file_system, attributes)?,
    };
    if !read_file(path).is_ok_and(|old| old == bytes) {
        // Who has the old one open keeps that.
        remove(&target.fresh);
        let opened = culvert_run::files::open(&target.fresh, O_WRONLY | O_CREAT | O_EXCL, 0o600)?;
        shadow::write_all(opened.raw(), 0, &bytes).map_err(errno)?;
        fs::rename(&target.fresh, path)?;
    }
    fs::chmod(path, mode)?;
    set_times(path, attributes)
}

fn bytes_of(file_system: &dyn FileSystem, attributes: &Attributes) -> Result<Vec<u8>, Errno> {
    let file: Box<dyn culvert::File> = match file_system
        .open(&culvert_run::task::caller(), attributes.node, OpenFlags(0))
        .map_err(errno)?
    {
        Opened::Driven(file) => file,
        Opened::Backed(_) => return Err(Errno::EOPNOTSUPP),
    };
    let mut bytes = vec![0u8; usize::try_from(attributes.size).map_err(|_| Errno::EFBIG)?];
    let mut at = 0;
    while at < bytes.len() {
        let Some(mut rest) = bytes.get_mut(at..) else {
            break;
        };
        match file.read_at(at as u64, &mut rest).map_err(errno)? {
            // It was cut meanwhile.
            0 => break,
            count => at += count,
        }
    }
    bytes.truncate(at);
    Ok(bytes)
}

fn write_link(file_system: &dyn FileSystem, path: &CStr, node: Node) -> Result<(), Errno> {
    let target = file_system
        .readlink(&culvert_run::task::caller(), node)
        .map_err(errno)?;
    if read_link(path).is_ok_and(|old| old == target) {
        return Ok(());
    }
    remove(path);
    fs::symlink(&c_string(target), path)
}

fn below(path: &CStr, name: &[u8]) -> CString {
    c_string([path.to_bytes(), b"/", name].concat())
}

fn stat_path_itself(path: &CStr) -> Option<stat> {
    match read_link(path) {
        // Only its type is asked for.
        Ok(_) => {
            let st_mode = FileKind::Symlink as u32;
            Some(stat {
                st_mode,
                ..stat::zeroed()
            })
        }
        Err(_) => stat_path(path).ok(),
    }
}

/// Removes `path` with all that is below it.
fn remove(path: &CStr) {
    if fs::unlink(path) != Err(Errno::EISDIR) {
        return;
    }
    let _ = fs::chmod(path, 0o700);
    if let Ok(opened) = culvert_run::files::open(path, O_DIRECTORY, 0) {
        for name in list(&opened) {
            if !matches!(&name[..], b"." | b"..") {
                remove(&below(path, &name));
            }
        }
    }
    let _ = fs::rmdir(path);
}

fn set_times(path: &CStr, attributes: &Attributes) -> Result<(), Errno> {
    let times = times([attributes.atime, attributes.mtime].map(|it| (it.seconds, it.nanoseconds)));
    fs::utimensat(CWD, Some(path), Some(&times), AtFlags::empty())
}

fn exists(made: Result<(), Errno>) -> Result<(), Errno> {
    match made {
        Err(Errno::EEXIST) => Ok(()),
        made => made,
    }
}

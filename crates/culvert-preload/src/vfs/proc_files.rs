//! Files of proc(5) in which the kernel tells a program of itself: our mounts are added to the
//! lists of mounts; of mappings see `proc_maps`. Each is a file in memory, so that where a
//! description stands is the kernel's to know, in each process that has it.

use super::own_file::is_this_process;
use super::proc_maps::{self, device};
use crate::answer::Answer;
use crate::description::{Held, Object};
use crate::descriptors::mount_tables;
use crate::process::Process;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::{Errno, mount::Mount};
use culvert_drivers::binding::is_bound;
use culvert_intercept::Call;
use culvert_mounts::MountId;
use culvert_run::files::on_exec;
use culvert_run::internal::with_more;
use culvert_run::task::process_number;
use culvert_sys::BorrowedFd;
use culvert_sys::fd::memfd_create;
use culvert_sys::raw::general::MFD_CLOEXEC;
use culvert_sys::raw::general::{O_CLOEXEC, O_DIRECTORY, O_PATH};
use culvert_sys::{fs, nr};

/// The mount's number, as in the first field of mountinfo and in statx.
pub fn mount_number(mount: MountId) -> u64 {
    (1 << 30) + u64::from(mount.0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MountList {
    MountInfo,
    Mounts,
    MountStats,
}

fn table(path: &[u8]) -> Option<MountList> {
    if path == b"/etc/mtab" {
        return Some(MountList::Mounts);
    }
    let rest = path.strip_prefix(b"/proc/")?;
    let (who, name) = match rest.iter().position(|&b| b == b'/') {
        None => (&b"self"[..], rest),
        Some(slash) => (&rest[..slash], &rest[slash + 1..]),
    };
    if !is_this_process(who) {
        return None;
    }
    match name {
        b"mountinfo" => Some(MountList::MountInfo),
        b"mounts" => Some(MountList::Mounts),
        b"mountstats" => Some(MountList::MountStats),
        _ => None,
    }
}

/// Blanks and backslashes as the kernel writes them (`mangle_path`).
fn escaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for &byte in text {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => {
                out.extend_from_slice(format!("\\{byte:03o}").as_bytes())
            }
            _ => out.push(byte),
        }
    }
    out
}

/// Whether `path` is the directory of this process's descriptors.
fn is_descriptor_listing(path: &[u8]) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    path == b"/dev/fd" || is_own(path, b"/fd")
}

/// Whether `path` is this process's directory in proc(5) with `below` behind it.
fn is_own(path: &[u8], below: &[u8]) -> bool {
    let rest = path.strip_prefix(b"/proc/");
    rest.and_then(|rest| rest.strip_suffix(below))
        .is_some_and(is_this_process)
}

/// The descriptor whose link `path` is: `/proc/self/fd/N` and the like.
pub fn descriptor_link(path: &[u8]) -> Option<i32> {
    if !path.starts_with(b"/proc/") && !path.starts_with(b"/dev/fd/") {
        return None;
    }
    let slash = path.iter().rposition(|&b| b == b'/')?;
    is_descriptor_listing(&path[..slash])
        .then(|| number_in(&path[slash + 1..]))
        .flatten()
}

/// The descriptor whose name in this process's directory `below` of proc(5) `path` is.
fn descriptor_named(path: &[u8], below: &[u8]) -> Option<i32> {
    let slash = path.iter().rposition(|&b| b == b'/')?;
    is_own(&path[..slash], below)
        .then(|| number_in(&path[slash + 1..]))
        .flatten()
}

fn number_in(name: &[u8]) -> Option<i32> {
    core::str::from_utf8(name).ok()?.parse().ok()
}

/// What proc_pid_fdinfo(5) says of `fd`, a descriptor of ours, where the kernel says it of what
/// stands for it.
fn about_descriptor(path: &[u8], held: &Held, fd: i32) -> Result<Vec<u8>, Errno> {
    const SEEK_CUR: usize = 1;
    let kernel = culvert_run::read_file(&culvert_run::files::c_string(path))?;
    let on_exec = on_exec(fd)?;
    let position = match held.object {
        // The kernel's own.
        _ if held.is_direct() => crate::description::kernel_seek(fd, 0, SEEK_CUR).unwrap_or(0),
        Object::File(_) | Object::Directory => held.at_offset(fd, |offset| *offset)?,
        _ => 0,
    };
    let inode = crate::description::described(held)?.inode;
    let status = match held.is_direct() {
        true => culvert_run::files::kernel_flags(fd)?,
        false => held.flags(fd)?,
    };
    let mut text = format!(
        "pos:\t{position}\nflags:\t0{:o}\nmnt_id:\t{}\nino:\t{inode}\n",
        status | on_exec,
        mount_number(held.mount),
    )
    .into_bytes();
    let ours = [&b"pos:"[..], b"flags:", b"mnt_id:", b"ino:"];
    // Its locks, which the kernel keeps.
    for line in kernel.split_inclusive(|&b| b == b'\n') {
        if !ours.iter().any(|name| line.starts_with(name)) {
            text.extend_from_slice(line);
        }
    }
    Ok(text)
}

/// Opens one of the lists with our mounts in it; none for any other path, or one opened for
/// writing, or as the directory that it is not.
pub fn open(process: &Process, path: &[u8], flags: u32) -> Option<Answer> {
    if !(path.starts_with(b"/proc/") || path == b"/etc/mtab")
        || flags & (3 | O_PATH | O_DIRECTORY) != 0
    {
        return None;
    }
    if let Some(fd) = descriptor_named(path, b"/fdinfo") {
        let held = process.table.get(fd)?;
        return Some(
            about_descriptor(path, &held, fd)
                .and_then(|it| memory_file(process, c"fdinfo", &it, flags)),
        );
    }
    if proc_maps::is_told(path) {
        // Where it cannot be opened the kernel says why. Its number is the program's next one.
        drop(culvert_run::files::open(&culvert_run::files::c_string(path), 0, 0).ok()?);
        let made = memory_file(process, c"maps", b"", flags);
        if let Ok(fd) = made {
            mount_tables::note(fd as i32, path, None);
            if culvert_run::task::is_confined() || !mount_tables::postpone(fd as i32) {
                tell_mappings(fd as i32, path);
            }
        }
        return Some(made);
    }
    let table = table(path)?;
    if culvert_run::task::has_left() || process.mounts.is_empty() {
        return None;
    }
    let kernel = match table {
        MountList::MountStats => None,
        MountList::MountInfo | MountList::Mounts => mount_tables::open_kernels(path),
    };
    let content = content(process, path)?;
    let made = memory_file(process, c"mounts", &content, flags);
    if let (Some(_), Ok(fd)) = (&kernel, made) {
        mount_tables::note(fd as i32, path, kernel);
    }
    Some(made)
}

/// What the list at `path` says, with our mounts in it.
pub fn content(process: &Process, path: &[u8]) -> Option<Vec<u8>> {
    let (table, process) = (table(path)?, process);
    if culvert_run::task::has_left() || process.mounts.is_empty() {
        return None;
    }
    let mut content = culvert_run::read_file(&culvert_run::files::c_string(path)).ok()?;
    // What covers a target in the kernel's view is not what is seen there.
    let point = if table == MountList::MountInfo { 4 } else { 1 };
    let covered = |line: &&[u8]| {
        let name = line.split(|&b| b == b' ').nth(point);
        table != MountList::MountStats
            && process
                .specifications
                .iter()
                .any(|mount| !is_bound(mount) && name == Some(&escaped(&mount.target)))
    };
    // Below a root on a mount, that of the kernel's mounts which is seen there.
    let mounts = &process.mounts;
    let is_seen = |line: &&[u8]| {
        let name = line.split(|&b| b == b' ').nth(point);
        mounts.root().is_none()
            || name.is_some_and(|name| {
                mounts
                    .deepest(name)
                    .is_some_and(|(it, _)| mounts.is_kernels(it))
            })
    };
    content = content
        .split_inclusive(|&b| b == b'\n')
        .filter(|line| !covered(line) && is_seen(line))
        .collect::<Vec<_>>()
        .concat();
    for (mount, specification) in process.mounts.ids().zip(process.specifications) {
        // The kernel lists that one itself.
        if is_bound(specification) || mounts.is_kernels(mount) {
            continue;
        }
        let line = line_of(process, table, &content, mount, specification);
        content.extend(line.unwrap_or_default());
    }
    Some(content)
}

/// The line of `mount` in a `table` that has this `content` so far; none: it is not seen.
fn line_of(
    process: &Process,
    table: MountList,
    content: &[u8],
    mount: MountId,
    specification: &Mount,
) -> Option<Vec<u8>> {
    let target = match process.mounts.target(mount) {
        [] => b"/",
        target => target,
    };
    if target[0] != b'/' {
        return None; // the root does not lead there
    }
    let (source, target) = (escaped(&specification.source), escaped(target));
    let driver = &specification.driver;
    let file_system = culvert_cache::file_system(mount);
    let mode = if file_system.is_ok_and(|fs| !fs.capabilities().read_only) {
        "rw"
    } else {
        "ro"
    };
    // As stat(2) has it: of the tree that stands behind, else the mount's own.
    let (major, minor) = file_system
        .ok()
        .and_then(|fs| culvert_run::stat_descriptor(fs.backing()?.root).ok())
        .map_or((0, 0xc0000 + u64::from(mount.0)), |root| {
            device(root.st_dev)
        });
    let line = |parts: &[&[u8]]| parts.concat();
    Some(match table {
        MountList::MountInfo => {
            let above = process.mounts.parent(mount);
            let above = above.filter(|above| {
                let above = process.specifications.get(usize::from(above.0));
                above.is_some_and(|above| !is_bound(above))
            });
            let parent = above.map_or_else(|| parent_number(content, &target), mount_number);
            let head = format!("{} {parent} {major}:{minor} / ", mount_number(mount));
            line(&[
                head.as_bytes(),
                &target,
                format!(" {mode},nosuid,nodev,relatime - culvert.{driver} ").as_bytes(),
                &source,
                format!(" {mode}\n").as_bytes(),
            ])
        }
        MountList::Mounts => line(&[
            &source,
            b" ",
            &target,
            format!(" culvert.{driver} {mode},nosuid,nodev,relatime 0 0\n").as_bytes(),
        ]),
        MountList::MountStats => line(&[
            b"device ",
            &source,
            b" mounted on ",
            &target,
            format!(" with fstype culvert.{driver}\n").as_bytes(),
        ]),
    })
}

/// The number of the kernel's mount that `target` lies on, by the longest mount point.
fn parent_number(mountinfo: &[u8], target: &[u8]) -> u64 {
    let mut best = (0, 0);
    for line in mountinfo.split(|&b| b == b'\n') {
        let mut fields = line.split(|&b| b == b' ');
        let (Some(number), Some(point)) = (fields.next(), fields.nth(3)) else {
            continue;
        };
        let below = point == b"/"
            || target
                .strip_prefix(point)
                .is_some_and(|rest| rest.first() == Some(&b'/'));
        if below
            && point.len() >= best.0
            && let Some(number) = core::str::from_utf8(number)
                .ok()
                .and_then(|number: &str| number.parse().ok())
        {
            best = (point.len(), number);
        }
    }
    best.1
}

/// Writes `content` to the start of `fd`.
fn write(fd: i32, content: &[u8]) -> Result<(), Errno> {
    let mut done = 0;
    while done < content.len() {
        done += fs::pwrite(BorrowedFd::number(fd), &content[done..], done as u64)?;
    }
    Ok(())
}

/// A descriptor that reads `content`.
fn memory_file(process: &Process, name: &CStr, content: &[u8], flags: u32) -> Answer {
    let close_on_exec = flags & O_CLOEXEC != 0;
    let how = if close_on_exec { MFD_CLOEXEC } else { 0 };
    let fd = memfd_create(name, how)?;
    write(fd.raw(), content)?;
    let table = &process.table;
    Ok(table.opened_by_kernel(fd.into_raw(), close_on_exec) as usize)
}

/// lseek(2) of `fd` to its start: what is read there is as it is now.
pub fn renew(process: &Process, fd: i32) {
    let Some((path, opener)) = mount_tables::path_of(fd) else {
        return;
    };
    // What is known of the number is what it is in the parent of a child of vfork.
    if culvert_run::task::vfork_child_with_table().is_some() {
        return;
    }
    // What another process has opened says what that has mapped. Under a filter what was said
    // before is better than the program's end.
    if proc_maps::is_told(&path) {
        if !culvert_run::task::is_confined() && opener == process_number() {
            mount_tables::postpone(fd);
        }
    } else if let Some(found) = content(process, &path) {
        replace(fd, &found);
    }
}

/// Writes what `fd` is to say of this process's mappings, as the kernel has it at `path`. False:
/// there is no number left to read that by.
fn tell_mappings(fd: i32, path: &[u8]) -> bool {
    let told = proc_maps::content(path);
    let told = told.or_else(|| with_more(|| proc_maps::content(path)).flatten());
    if let Some(content) = &told {
        replace(fd, content);
    }
    told.is_some() || !proc_maps::is_told(path)
}

/// `fd` says `content` from here on.
fn replace(fd: i32, content: &[u8]) {
    // In this order the pages of what it has said serve again.
    let _ = write(fd, content);
    let _ = culvert_cache::bytes::set_length(fd, content.len() as u64);
}

/// Before `call`: what is said of mappings is written now, unless the call cannot tell whether it
/// is. The kernel makes each such text when it is read, and takes long: some programs (grep) go to
/// the beginning twice before they do.
///
/// - `EMFILE`: it reads one that could not be written.
#[cold]
pub fn write_due(call: &Call) -> Result<(), Errno> {
    const MAP_ANONYMOUS: usize = 0x20;
    let [_, offset, whence, flags, ..] = call.args;
    let waits = match call.number {
        nr::LSEEK => (offset, whence as u32) == (0, 0),
        nr::MMAP => flags & MAP_ANONYMOUS != 0,
        nr::MUNMAP => true,
        _ => false,
    };
    if waits {
        return Ok(());
    }
    write_all_due();
    let reads = matches!(call.number, nr::READ | nr::READV | nr::PREAD64 | nr::PREADV);
    match reads && mount_tables::is_due(call.args[0] as i32) {
        true => Err(Errno::EMFILE),
        false => Ok(()),
    }
}

/// The same before others get the descriptors.
pub fn write_all_due() {
    mount_tables::write_due(tell_mappings);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_lists() {
        let own = std::format!("/proc/{}/mounts", std::process::id());
        for (path, is_list) in [
            ("/proc/self/mountinfo", true),
            ("/proc/mounts", true),
            (own.as_str(), true),
            ("/etc/mtab", true),
            ("/proc/1/mounts", false),
            ("/proc/self/maps", false),
            ("/proc/self/task/1/mounts", false),
        ] {
            assert_eq!(table(path.as_bytes()).is_some(), is_list, "{path}");
        }
    }

    #[test]
    fn the_parent_is_the_deepest_mount_above() {
        let info = b"20 1 0:1 / / rw - ext4 a rw\n30 20 0:2 / /mnt rw - tmpfs b rw\n40 30 0:3 / \
            /mntx rw - tmpfs c rw\n";
        assert_eq!(parent_number(info, b"/mnt/a"), 30);
        assert_eq!(parent_number(info, b"/other"), 20);
        assert_eq!(parent_number(info, b"/mnty"), 20);
    }

    #[test]
    fn blanks_are_escaped() {
        assert_eq!(escaped(b"a b\\c"), b"a\\040b\\134c");
    }
}

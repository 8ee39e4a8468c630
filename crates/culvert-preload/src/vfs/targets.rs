//! The empty directories under mounts, where the kernel finds one by a link that text did not show.

use super::backed::take_over;
use super::native::stat_at;
use crate::description::Object;
use crate::process::Process;
use alloc::ffi::CString;
use culvert::{Errno, FileKind};
use culvert_mounts::MountId;
use culvert_run::files::{kernel_flags, on_exec};
use culvert_run::{files::c_string, memory::Path};
use culvert_sys::{BorrowedFd, OwnedFd};

/// Whether the kernel would create or remove a name in the empty directory under a mount, reached
/// by a link outside.
pub fn parent_is_target(process: &Process, directory: i32, path: &[u8]) -> bool {
    target_at(process, directory, Path::of(&parent_of(path))).is_some()
}

/// The path of the directory that the last name of `path` lies in, by text.
pub fn parent_of(path: &[u8]) -> CString {
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
    match path[..end].iter().rposition(|&b| b == b'/') {
        Some(slash) => c_string(&path[..slash + 1]),
        None => c_string(b"."),
    }
}

/// The mount whose target the kernel finds at `path` below `directory`.
pub fn target_at(process: &Process, directory: i32, path: Path<'_>) -> Option<MountId> {
    let found = stat_at(directory, path, 0).ok()?;
    process.mounts.is_target(found.st_dev, found.st_ino)
}

/// Whether the kernel finds something at `path` below `directory` that is the target of no mount.
pub fn is_another(process: &Process, directory: i32, path: Path<'_>) -> bool {
    let found = stat_at(directory, path, 0);
    found.is_ok_and(|it| process.mounts.is_target(it.st_dev, it.st_ino).is_none())
}

/// Makes descriptor `fd`, which the kernel opened on the empty directory under `mount`, one of the
/// mount's root.
pub fn adopt_target(process: &Process, fd: i32, mount: MountId) -> Result<(), Errno> {
    use crate::description::Description;
    use culvert_sys::raw::general::{O_ACCMODE, O_NONBLOCK};
    let file_system = culvert_cache::file_system(mount)?;
    if let Some(backing) = file_system.backing() {
        return take_over(process, fd, mount, backing);
    }
    let root = file_system.root();
    let flags = kernel_flags(fd)?;
    let object = if flags & culvert_sys::raw::general::O_PATH != 0 {
        Object::Path
    } else {
        Object::Directory
    };
    let keep = flags & (O_ACCMODE | O_NONBLOCK | culvert_sys::raw::general::O_PATH | 0o200000);
    let description = Description::new(mount, root, FileKind::Directory, object, keep);
    let new = process.table.add(description, 0, true)?;
    let on_exec = on_exec(fd)?;
    let reference = process.table.reference(new).ok_or(Errno::EBADF)?;
    // The program's descriptor becomes our placeholder's dup, at the same number.
    let moved = culvert_sys::fd::replace(BorrowedFd::number(new), fd, on_exec);
    if moved.is_ok() {
        process.table.install(fd, reference);
    }
    process.table.remove(new);
    drop(OwnedFd::from_raw(new));
    moved.map(|_| ())
}

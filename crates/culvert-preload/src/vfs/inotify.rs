//! Watching something in a mount that is served by driver calls (inotify_add_watch(2)).

use super::node::On;
use super::permission::granted;
use crate::answer::Answer;
use crate::{process, watch};
use alloc::format;
use culvert::{Errno, FileKind};
use culvert_sys::{nr, own_descriptors, syscall};

/// IN_ACCESS, IN_CLOSE_WRITE, IN_CLOSE_NOWRITE and IN_OPEN: all that happens to what never changes.
const IN_USED: usize = 0x1 | 0x8 | 0x10 | 0x20;
const IN_ONLYDIR: usize = 0x0100_0000;
/// IN_DONT_FOLLOW.
pub const IN_DONT_FOLLOW: usize = 0x0200_0000;

/// A watch on what the kernel has of it: the driver's own file or directory, which others may
/// change beside us, or the mirror.
pub fn add_watch(on: On<'_>, inotify: usize, mask: usize) -> Answer {
    let attributes = on.attributes()?;
    let directory = attributes.kind == FileKind::Directory;
    if mask & IN_ONLYDIR != 0 && !directory {
        return Err(Errno::ENOTDIR);
    }
    let file_system = on.file_system()?;
    granted(file_system, &process::caller(), &attributes, 4)?;
    let path = match file_system.kernel_node(attributes.node) {
        Some(own) => format!("{}{own}\0", own_descriptors::directory()).into_bytes(),
        None => {
            let changes_only = file_system.capabilities().immutable && mask & IN_USED == 0;
            let name = on.name()?;
            match changes_only && directory {
                // Copying the names of a large archive for who waits for changes only would be in
                // vain.
                true => watch::silent_mirror(name)?,
                false => watch::mirror(name, directory)?,
            }
        }
    };
    let arguments = [
        inotify,
        path.as_ptr() as usize,
        // The path is a link to it, or it itself.
        mask & !(IN_ONLYDIR | IN_DONT_FOLLOW),
    ];
    // SAFETY: the path ends in NUL.
    unsafe { syscall::call(nr::INOTIFY_ADD_WATCH, arguments) }
}

//! Watching something in a mount that is served by driver calls (inotify_add_watch(2)).

use super::node::On;
use crate::answer::Answer;
use crate::vfs::permission::granted;
use crate::watch;
use culvert::{Errno, FileKind};
use culvert_run::files::own_descriptor;
use culvert_sys::{BorrowedFd, fs};

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
    granted(file_system, &culvert_run::task::caller(), &attributes, 4)?;
    let path = match file_system.kernel_node(attributes.node) {
        Some(own) => own_descriptor(own),
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
    // The path is a link to it, or it itself.
    let mask = (mask & !(IN_ONLYDIR | IN_DONT_FOLLOW)) as u32;
    let list = BorrowedFd::number(inotify as i32);
    fs::inotify_add_watch(list, &path, mask).map(|watch| watch as usize)
}

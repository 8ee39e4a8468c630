//! inotify_add_watch(2) on something in a mount that is served by driver calls.

use super::arguments::At;
use super::path::on_path;
use crate::answer::Answer;
use crate::resolver::{Inside, LastStep};
use crate::run::ShadowName;
use crate::vfs::path::existing;
use crate::vfs::permission::granted;
use crate::{process, watch};
use alloc::format;
use culvert::{Errno, FileKind};
use culvert_intercept::{Call, Outcome};
use culvert_sys::{nr, own_descriptors, syscall};

const IN_ALL_EVENTS: usize = 0xfff;
/// IN_ACCESS, IN_CLOSE_WRITE, IN_CLOSE_NOWRITE and IN_OPEN: all that happens to what never changes.
const IN_USED: usize = 0x1 | 0x8 | 0x10 | 0x20;
const IN_ONLYDIR: usize = 0x0100_0000;
const IN_DONT_FOLLOW: usize = 0x0200_0000;

/// inotify_add_watch(2)
pub fn inotify_add_watch(call: &mut Call) -> Outcome {
    // The kernel says EINVAL before it looks at the path.
    if call.args[2] & IN_ALL_EVENTS == 0 {
        return Outcome::Forward;
    }
    let last = if call.args[2] & IN_DONT_FOLLOW != 0 {
        LastStep::NoFollow
    } else {
        LastStep::Follow
    };
    on_path(call, At::new(1, last), None, |call, found| add(call, found))
}

/// A watch on what the kernel has of it: the driver's own file or directory, which others may
/// change beside us, or the mirror.
fn add(call: &Call, found: &Inside<'_>) -> Answer {
    let attributes = existing(found)?;
    let (mask, directory) = (call.args[2], attributes.kind == FileKind::Directory);
    if mask & IN_ONLYDIR != 0 && !directory {
        return Err(Errno::ENOTDIR);
    }
    let file_system = process::file_system(found.mount)?;
    granted(file_system, &process::caller(), attributes, 4)?;
    let path = match file_system.kernel_node(attributes.node) {
        Some(own) => format!("{}{own}\0", own_descriptors::directory()).into_bytes(),
        None => {
            let changes_only = file_system.capabilities().immutable && mask & IN_USED == 0;
            let name = ShadowName {
                mount: found.mount.0,
                node: attributes.node,
            };
            match changes_only && directory {
                // Copying the names of a large archive for who waits for changes only would be in
                // vain.
                true => watch::silent_mirror(name)?,
                false => watch::mirror(name, directory)?,
            }
        }
    };
    let arguments = [
        call.args[0],
        path.as_ptr() as usize,
        // The path is a link to it, or it itself.
        mask & !(IN_ONLYDIR | IN_DONT_FOLLOW),
    ];
    // SAFETY: the path ends in NUL.
    unsafe { syscall::call(nr::INOTIFY_ADD_WATCH, arguments) }
}

//! mount(2) and umount2(2): the kernel mounts on directories of a mount that it has itself, and on
//! no other.

use super::arguments::At;
use super::path::{on_path, refuse_inside};
use crate::answer::{Answer, FORWARD};
use crate::fuse_server;
use crate::process::Process;
use crate::vfs::backed::through_proc;
use crate::vfs::path::{Found, Given, existing, find_resolved};
use alloc::ffi::CString;
use alloc::format;
use culvert::{Errno, Node};
use culvert_intercept::Call;
use culvert_mounts::resolver::{Inside, Last, LastStep};
use culvert_run::files::{c_string, own_descriptor};
use culvert_run::memory::PathBuffer;
use culvert_sys::own_descriptors;
use culvert_sys::raw::general::MOVE_MOUNT_T_SYMLINKS;

const MS_BIND: usize = 0x1000;
const MS_MOVE: usize = 0x2000;

/// mount(2)
pub fn mount(process: &Process, call: &mut Call) -> Answer {
    if let Some(answer) = fuse_server::mount(call) {
        return answer;
    }
    process.forget_what_kernel_sees();
    let source = match call.args[3] & (MS_BIND | MS_MOVE) {
        0 => None,
        _ => source_for_kernel(process, call.args[0])?,
    };
    let given = call.args[0];
    if let Some(source) = &source {
        call.args[0] = source.as_ptr() as usize;
    }
    let at = At::new(1, LastStep::Follow);
    let answer = match on_path(process, call, at, None, |call, found| mount_on(call, found)) {
        // With the path that the kernel finds.
        Err(FORWARD) if source.is_some() => call.execute(),
        answer => answer,
    };
    // The dispatch may make the call once more.
    call.args[0] = given;
    answer
}

/// The path (NUL-terminated) by which the kernel finds what the program at `address` names, if that
/// is another one.
fn source_for_kernel(process: &Process, address: usize) -> Result<Option<CString>, Errno> {
    let mut room = PathBuffer::new();
    let path = room.read(address)?;
    match find_resolved(process, Given::here(path, LastStep::Follow))? {
        Found::Inside(found) => {
            let own = kernel_node(&found, existing(&found)?.node)?.ok_or(Errno::EOPNOTSUPP)?;
            Ok(Some(c_string(culvert_run::descriptor_path(own)?)))
        }
        Found::Backed(place) => Ok(Some(through_proc(place.base, place.path().bytes()))),
        Found::Outside(path) => Ok(Some(path)),
        Found::MagicLink(_) | Found::Kernel => Ok(None),
    }
}

/// The descriptor by which the kernel knows `node` of the mount that `found` is in.
fn kernel_node(found: &Inside<'_>, node: Node) -> Result<Option<i32>, Errno> {
    Ok(culvert_cache::file_system(found.mount)?.kernel_node(node))
}

fn mount_on(call: &Call, found: &Inside<'_>) -> Answer {
    let node = existing(found)?.node;
    let own = kernel_node(found, node)?.ok_or(Errno::EOPNOTSUPP)?;
    let path = own_descriptor(own);
    call.replacing().path(1, &path).execute()
}

/// move_mount(2)
pub fn move_mount(process: &Process, call: &mut Call) -> Answer {
    let at = At::below(2, LastStep::NoFollow).turned_by(4, MOVE_MOUNT_T_SYMLINKS as usize);
    process.forget_what_kernel_sees();
    refuse_inside(process, call, at, Errno::EOPNOTSUPP)
}

/// umount2(2)
pub fn umount(process: &Process, call: &mut Call) -> Answer {
    const UMOUNT_NOFOLLOW: usize = 8;
    if let Some(answer) = fuse_server::unmount(call) {
        return answer;
    }
    process.forget_what_kernel_sees();
    let last = match call.args[1] & UMOUNT_NOFOLLOW {
        0 => LastStep::Follow,
        _ => LastStep::NoFollow,
    };
    on_path(process, call, At::new(0, last), None, |call, found| {
        unmount(process, call, found)
    })
}

/// By its name in the directory above: a descriptor of it would keep it busy, so ours is given back
/// first. What the driver alone has, like the mounts of the run, is busy.
fn unmount(process: &Process, call: &Call, found: &mut Inside<'_>) -> Answer {
    let node = existing(found)?.node;
    let above = kernel_node(found, found.parent)?;
    let (Some(above), Last::Name(name)) = (above, &found.last) else {
        return Err(Errno::EBUSY);
    };
    let mut path = format!("{}{above}/", own_descriptors::directory()).into_bytes();
    path.extend_from_slice(name);
    let path = c_string(path);
    let mounts = &process.mounts;
    drop(found.references.take(mounts, found.mount, node));
    call.replacing().path(0, &path).execute()
}

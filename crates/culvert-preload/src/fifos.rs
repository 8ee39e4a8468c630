//! FIFOs of mounts. One of the run's own stands for each, the same for all its processes: its bytes are the kernel's. What it *is*, mode, owner, times and number, the
//! driver knows: its descriptors are of descriptions that are always direct ([`Object::Fifo`](crate::description::Object)).

use crate::calls::{Answer, RESTART};
use crate::description::Description;
use crate::descriptors::{kernel_flags, walk_to_node};
use crate::process;
use crate::resolver::{Hold, Inside, MountId, References};
use crate::run::{ShadowName, descriptor_path, read_link};
use alloc::{sync::Arc, vec::Vec};
use culvert::{Attributes, Errno, FileKind, Node};
use culvert_sys::raw::general::stat;
use culvert_sys::{nr, syscall};

const O_CREAT: u32 = 0o100;
const O_TRUNC: u32 = 0o1000;
const O_CLOEXEC: u32 = 0o2000000;
/// The folder of the run directory, and what the link beside a FIFO is called by which other processes find its node.
const FOLDER: &[u8] = b"/fifos/";
const PATH: &[u8] = b".path\0";

/// Of all processes' numbers for a FIFO the one that is the same.
fn name_of(mount: MountId, inode: u64) -> ShadowName {
    ShadowName {
        mount: mount.0,
        node: Node(inode),
    }
}

/// The link whose text is the path of the FIFO of `name` below its mount's root, NUL-terminated.
fn path_link(name: ShadowName) -> Vec<u8> {
    let fifo = process::get().run.fifo(name);
    [&fifo[..fifo.len() - 1], PATH].concat()
}

/// open(2) of a FIFO. Waits for the other end, unless a signal comes first.
pub fn open(found: &mut Inside<'_>, attributes: &Attributes, flags: u32) -> Answer {
    let process = process::get();
    let name = name_of(found.mount, attributes.inode);
    let path = process.run.fifo(name);
    // Its number must not become another one's while the other end is waited for.
    let _hold = Hold::of(found.mount, attributes.node);
    let _ = crate::run::make_directory(&process.run.file("fifos"));
    // SAFETY: the paths end in NUL; what exists already is fine.
    let opened = unsafe {
        let _ = syscall::call(nr::MKNOD, [path.as_ptr() as usize, 0o010600, 0]);
        let flags = (flags & !(O_CREAT | O_TRUNC)) as usize;
        let arguments = [path.as_ptr() as usize, flags, 0, 0, 0, 0];
        culvert_intercept::wait::interruptible(nr::OPEN, arguments)
    };
    let fd = Errno::check(opened.map_err(|_| RESTART)?)? as i32;
    note(name, attributes.node);
    let fd = process.table.opened_by_kernel(fd, flags & O_CLOEXEC != 0);
    let mut description = Description::fifo(found.mount, attributes.node, flags, true);
    let itself = found
        .references
        .take(&process.mounts, found.mount, attributes.node);
    description.references.join(itself);
    process.table.install(fd, Arc::new(description));
    Ok(fd as usize)
}

/// Notes where `node` is, for processes that get a descriptor of it. What has no path any more is a FIFO of the run's to them.
fn note(name: ShadowName, node: Node) {
    let link = path_link(name);
    let path = process::file_system(MountId(name.mount))
        .ok()
        .and_then(|file_system| file_system.path_of(node).ok());
    let Some(mut path) = path else {
        return;
    };
    if read_link(&link).is_ok_and(|noted| noted == path) {
        return;
    }
    path.push(0);
    // SAFETY: both strings end in NUL. Without the link the bytes are right all the same.
    unsafe {
        let _ = syscall::call(nr::UNLINK, [link.as_ptr() as usize]);
        let _ = syscall::call(
            nr::SYMLINK,
            [path.as_ptr() as usize, link.as_ptr() as usize],
        );
    }
}

/// What `fd`, of which the kernel says `found`, is if it stands for a FIFO of a mount that still is where it was.
pub fn recognise(fd: i32, found: &stat) -> Option<Description> {
    let process = process::get();
    let is_fifo = FileKind::of_mode(found.st_mode) == Some(FileKind::Fifo);
    if !is_fifo || found.st_dev != process.run.device {
        return None;
    }
    let path = descriptor_path(fd).ok()?;
    let below = path.strip_prefix(&process.run.path[..])?;
    let name = ShadowName::of_text(below.strip_prefix(FOLDER)?)?;
    let (mount, inode) = (MountId(name.mount), name.node.0);
    let file_system = process::file_system(mount).ok()?;
    let node = walk_to_node(file_system, &read_link(&path_link(name)).ok()?).ok()?;
    let same = file_system
        .attributes(node)
        .is_ok_and(|it| it.inode == inode && it.kind == FileKind::Fifo);
    if !same {
        file_system.forget(node, 1);
        return None;
    }
    let mut description = Description::fifo(mount, node, kernel_flags(fd).ok()?, false);
    description.references = References::new(&process.mounts);
    description.references.push(mount, node);
    Some(description)
}

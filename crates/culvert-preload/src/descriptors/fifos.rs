//! Descriptors of what stands for a FIFO of a mount.

use crate::description::Description;
use culvert::{Caller, FileKind};
use culvert_mounts::References;
use culvert_run::files::{c_string, kernel_flags};
use culvert_run::{ShadowName, descriptor_path, node_paths, read_link, stat_path};
use culvert_sys::raw::general::stat;

/// The folder of the run directory, and what the link beside a FIFO is called by which other
/// processes find its node.
pub const FOLDER: &[u8] = b"/fifos/";

pub const PATH: &[u8] = b".path";

/// What `fd`, of which the kernel says `found`, is if it stands for a FIFO of a mount that still is
/// where it was.
pub fn recognise(fd: i32, found: &stat) -> Option<Description> {
    let run = culvert_run::get();
    let is_fifo = FileKind::of_mode(found.st_mode) == Some(FileKind::Fifo);
    if !is_fifo || found.st_dev != run.device {
        return None;
    }
    let path = descriptor_path(fd).ok()?;
    let below = path.strip_prefix(&run.path[..])?;
    let name = ShadowName::of_text(below.strip_prefix(FOLDER)?)?;
    let (mount, inode) = (name.mount, name.node.0);
    let file_system = culvert_cache::file_system(mount).ok()?;
    let fifo = run.fifo(name);
    // Another user's FIFO can have any path (`Run::name_of`).
    if stat_path(&fifo).is_ok_and(|it| (it.st_dev, it.st_ino) != (found.st_dev, found.st_ino)) {
        return None;
    }
    let noted = c_string([fifo.to_bytes(), PATH].concat());
    let node = node_paths::walk(file_system, &read_link(&noted).ok()?).ok()?;
    let same = file_system
        .attributes(&Caller::SYSTEM, node)
        .is_ok_and(|it| it.inode == inode && it.kind == FileKind::Fifo);
    if !same {
        file_system.forget(node, 1);
        return None;
    }
    let mut description = Description::fifo(mount, node, kernel_flags(fd).ok()?, false);
    description.references = References::new(&run.mounts);
    description.references.push(mount, node);
    Some(description)
}

//! The paths that links of proc(5) show for what is ours.

use crate::description::{Held, Object};
use crate::process::Process;
use alloc::format;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_mounts::resolver::Magic;

/// The path that the kernel's link to a description of ours would show.
pub fn shown_path(process: &Process, held: &Held) -> Result<Vec<u8>, Errno> {
    let mounts = &process.mounts;
    let opened_as = held.opened_as.lock().clone();
    let path = match &opened_as {
        Some((parent, name)) => mounts
            .path_of_node(held.mount, *parent)
            .map(|parent| [&parent[..], b"/", name].concat()),
        None => mounts.path_of_node(held.mount, held.node),
    };
    path.map_err(|error| error.errno())
        .or_else(|errno| match errno {
            // Stale: to a process that has not looked for it before.
            Errno::ENOENT | Errno::ESTALE => removed_path(process, held),
            errno => Err(errno),
        })
}

/// The same of a file that has no name any more: the one that it had, where its back end is a file
/// of the kernel's, which remembers it; else its number, as the kernel shows files that never had
/// one (`O_TMPFILE`, open(2)). Both are marked as proc(5) says.
fn removed_path(process: &Process, held: &Held) -> Result<Vec<u8>, Errno> {
    let target = process.mounts.target(held.mount);
    let own = match &held.object {
        Object::File(file) => file.descriptor(),
        _ => None,
    };
    let specification = process.specifications.get(usize::from(held.mount.0));
    if let Some((own, specification)) = own.zip(specification)
        && let Ok(path) = culvert_run::descriptor_path(own)
        && let Some(below) = path.strip_prefix(&specification.source[..])
        && below.first() == Some(&b'/')
    {
        return Ok([target, below].concat());
    }
    let attributes = held.attributes().map_err(|error| error.errno())?;
    match attributes.links {
        0 => Ok([
            target,
            format!("/#{} (deleted)", attributes.inode).as_bytes(),
        ]
        .concat()),
        _ => Err(Errno::ENOENT),
    }
}

/// What readlink gives for a magic link to something of ours.
pub fn magic_text(process: &Process, magic: &Magic) -> Result<Vec<u8>, Errno> {
    let mounts = &process.mounts;
    match magic {
        Magic::Directory(place) => mounts.path_of(place).map_err(|error| error.errno()),
        Magic::File { mount, node, .. } => mounts
            .path_of_node(*mount, *node)
            .map_err(|error| error.errno()),
        _ => Err(Errno::EINVAL),
    }
}

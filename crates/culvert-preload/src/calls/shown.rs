//! The paths that links of proc(5) show for what is ours.

use crate::description::Held;
use crate::process;
use crate::resolver::Magic;
use alloc::vec::Vec;
use culvert::Errno;

/// The path that the kernel's link to a description of ours would show.
pub fn shown_path(held: &Held) -> Result<Vec<u8>, Errno> {
    let mounts = &process::get().mounts;
    let path = match &held.opened_as {
        Some((parent, name)) => mounts
            .path_of_node(held.mount, *parent)
            .map(|parent| [&parent[..], b"/", name].concat()),
        None => mounts.path_of_node(held.mount, held.node),
    };
    path.map_err(|error| error.errno())
}

/// What readlink gives for a magic link to something of ours.
pub fn magic_text(magic: &Magic) -> Result<Vec<u8>, Errno> {
    let mounts = &process::get().mounts;
    match magic {
        Magic::Directory(place) => mounts.path_of(place).map_err(|error| error.errno()),
        Magic::File { mount, node, .. } => mounts
            .path_of_node(*mount, *node)
            .map_err(|error| error.errno()),
        _ => Err(Errno::EINVAL),
    }
}

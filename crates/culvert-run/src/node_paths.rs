//! Nodes of drivers whose numbers say nothing to another process
//! ([`culvert::Capabilities::transient_nodes`]): the path goes with the shadow.

use super::{ShadowName, read_link};
use crate::files::c_string;
use crate::task;
use culvert::{Caller, Errno, FileSystem, Node, Result};
use culvert_sys::fs;

/// Notes the path of the node of `name` beside its shadow, where its driver needs that. A node
/// without a path (removed) gets none: other processes do not find it, and say so.
pub fn note(name: ShadowName) {
    let Ok(file_system) = super::get().mounts.file_system(name.mount) else {
        return;
    };
    // Every process knows the root.
    if !file_system.capabilities().transient_nodes || name.node == file_system.root() {
        return;
    }
    let link = super::get().node_path(name);
    let Ok(path) = file_system.path_of(name.node) else {
        return;
    };
    if read_link(&link).is_ok_and(|noted| noted == path) {
        return;
    }
    // One of an earlier description: the file was renamed since.
    let _ = fs::unlink(&link);
    if let Err(error) = fs::symlink(&c_string(path), &link) {
        culvert_sys::log!("the path of {name} is not noted: {error}");
    }
}

/// Finds the node of `name` by the path that was noted, so that this process has a reference on it,
/// which it keeps: `ESTALE` when there is another file by now.
pub fn find(name: ShadowName) -> Result<()> {
    let file_system = super::get().mounts.file_system(name.mount)?;
    if file_system.attributes(&Caller::SYSTEM, name.node).is_ok() {
        return Ok(());
    }
    let path = read_link(&super::get().node_path(name)).map_err(|_| Errno::ESTALE)?;
    find_by(file_system, name.node, &path).or_else(|error| {
        // Others have moved it since, and its driver may know where.
        let path = file_system.path_of(name.node).map_err(|_| error)?;
        find_by(file_system, name.node, &path)
    })
}

/// Finds `node` by `path`, as [`find`] does.
fn find_by(file_system: &dyn FileSystem, node: Node, path: &[u8]) -> Result<()> {
    let found = walk(file_system, path)?;
    if found != node {
        file_system.forget(found, 1);
        return Err(Errno::ESTALE.into());
    }
    Ok(())
}

/// Whether another process with the rights of this one finds `node` by its path.
pub fn is_found(file_system: &dyn FileSystem, node: Node) -> bool {
    // Its path has no component.
    if node == file_system.root() {
        return true;
    }
    let found = file_system
        .path_of(node)
        .and_then(|path| walk(file_system, &path));
    found.is_ok_and(|found| {
        file_system.forget(found, 1);
        found == node
    })
}

/// What `path` leads to below the root, with a reference.
pub fn walk(file_system: &dyn FileSystem, path: &[u8]) -> Result<Node> {
    let caller = task::caller();
    let mut node = file_system.root();
    for component in path.split(|&byte| byte == b'/') {
        let entry = file_system.lookup(&caller, node, component);
        if node != file_system.root() {
            // The one below keeps it.
            file_system.forget(node, 1);
        }
        node = entry?.attributes.node;
    }
    Ok(node)
}

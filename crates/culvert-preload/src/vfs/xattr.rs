//! Extended attributes: who may see and change which (`xattr_permission`, fs/xattr.c), and who is
//! told.

use super::node::On;
use super::permission::allowed;
use crate::process;
use crate::watch::Event;
use alloc::vec::Vec;
use culvert::{Errno, FileKind, FileSystem, Node, Rights};

/// Whether the caller may not see attributes of this name (`xattr_permission`, fs/xattr.c;
/// `simple_xattr_list` leaves them out).
fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b"trusted.") && !process::caller().has(Rights::SYS_ADMIN)
}

/// `names`, each ending in NUL, without those that the caller may not see.
fn visible(mut names: Vec<u8>) -> Vec<u8> {
    if names.split(|&b| b == 0).any(is_hidden) {
        names = names
            .split_inclusive(|&b| b == 0)
            .filter(|name| !is_hidden(name))
            .flatten()
            .copied()
            .collect();
    }
    names
}

/// `xattr_permission`, fs/xattr.c: what belongs to users wants the right to read or write the file,
/// and is kept for files and directories only; in a directory where only owners remove names only
/// its owner writes it. Whatever else changes is the superuser's.
fn permitted(
    file_system: &dyn FileSystem,
    node: Node,
    name: &[u8],
    writes: bool,
) -> Result<(), Errno> {
    if file_system.capabilities().checks_permissions {
        return Ok(());
    }
    let caller = process::caller();
    if !name.starts_with(b"user.") {
        // `cap_inode_setxattr`, security/commoncap.c
        let needed = match name {
            b"security.capability" => Rights::SETFCAP,
            _ => Rights::SYS_ADMIN,
        };
        return match writes && name.starts_with(b"security.") && !caller.has(needed) {
            true => Err(Errno::EPERM),
            false => Ok(()),
        };
    }
    let attributes = file_system
        .attributes(node)
        .map_err(|error| error.errno())?;
    let sticky = attributes.mode() & 0o1000 != 0;
    let owner = caller.is_owner(attributes.uid);
    match attributes.kind {
        FileKind::Directory if writes && sticky && !owner => Err(Errno::EPERM),
        FileKind::Directory | FileKind::Regular => {
            allowed(file_system, &attributes, if writes { 2 } else { 4 })
        }
        _ if writes => Err(Errno::EPERM),
        _ => Err(Errno::ENODATA),
    }
}

/// listxattr(2): the names, each ending in NUL.
pub fn list(on: On<'_>) -> Result<Vec<u8>, Errno> {
    let names = on.file_system()?.list_xattr(on.name()?.node);
    names.map(visible).map_err(|error| error.errno())
}

/// getxattr(2)
pub fn get(on: On<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let (file_system, node) = (on.file_system()?, on.name()?.node);
    if is_hidden(name) {
        return Err(Errno::ENODATA);
    }
    permitted(file_system, node, name, false)?;
    file_system
        .get_xattr(node, name)
        .map_err(|error| error.errno())
}

/// What setxattr(2) is given.
pub struct NewValue<'n> {
    /// The name.
    pub name: &'n [u8],
    /// The value.
    pub value: Vec<u8>,
    /// XATTR_CREATE, XATTR_REPLACE.
    pub flags: u32,
}

/// setxattr(2) of what `given` says, which is asked for it where the mount can be written.
pub fn set<'n>(
    on: On<'_>,
    given: impl FnOnce() -> Result<NewValue<'n>, Errno>,
) -> Result<(), Errno> {
    let (file_system, node) = (on.to_be_changed()?, on.name()?.node);
    let NewValue { name, value, flags } = given()?;
    may_change(file_system, node, name)?;
    file_system
        .set_xattr(&process::caller(), node, name, &value, flags)
        .map_err(|error| error.errno())?;
    on.tell(Event::Attributes);
    Ok(())
}

/// removexattr(2) of the name that `name` says, likewise.
pub fn remove<'n>(on: On<'_>, name: impl FnOnce() -> Result<&'n [u8], Errno>) -> Result<(), Errno> {
    let (file_system, node) = (on.to_be_changed()?, on.name()?.node);
    let name = name()?;
    may_change(file_system, node, name)?;
    file_system
        .remove_xattr(&process::caller(), node, name)
        .map_err(|error| error.errno())?;
    on.tell(Event::Attributes);
    Ok(())
}

fn may_change(file_system: &dyn FileSystem, node: Node, name: &[u8]) -> Result<(), Errno> {
    match is_hidden(name) {
        true => Err(Errno::EPERM),
        false => permitted(file_system, node, name, true),
    }
}

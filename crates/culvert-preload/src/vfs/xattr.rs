//! Extended attributes: who may see and change which (`xattr_permission`, fs/xattr.c), and who is
//! told.

use super::node::On;
use super::permission::{allowed, permits};
use crate::watch::Event;
use alloc::{ffi::CString, vec::Vec};
use culvert::{Errno, File, FileKind, FileSystem, Node, Rights};
use culvert_cache::orphan_file::OrphanFile;

/// Whether the caller may not see attributes of this name (`xattr_permission`, fs/xattr.c;
/// `simple_xattr_list` leaves them out).
fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b"trusted.") && !culvert_run::task::caller().has(Rights::SYS_ADMIN)
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
    let caller = culvert_run::task::caller();
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
        .attributes(&caller, node)
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

/// What the file is, where that is its shadow: it has no name any more.
fn orphan<'a>(on: &'a On<'_>) -> Option<&'a OrphanFile> {
    match on {
        On::Held(held) => held.orphan(),
        _ => None,
    }
}

/// [`permitted`] for a regular file that is its shadow, which is the run's: whose it is stands
/// beside it. EOPNOTSUPP: what does not belong to users is not kept.
fn permitted_on_orphan(orphan: &OrphanFile, name: &[u8], writes: bool) -> Result<(), Errno> {
    match name.starts_with(b"user.") {
        true => {}
        false if writes => return Err(Errno::EOPNOTSUPP),
        false => return Err(Errno::ENODATA),
    }
    let attributes = orphan
        .attributes(&culvert_run::task::caller())
        .map_err(|error| error.errno())?;
    let wanted = if writes { 2 } else { 4 };
    match permits(&culvert_run::task::caller(), &attributes, wanted) {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

fn terminated(name: &[u8]) -> Result<CString, Errno> {
    CString::new(name).map_err(|_| Errno::EINVAL)
}

/// listxattr(2): the names, each ending in NUL.
pub fn list(on: On<'_>) -> Result<Vec<u8>, Errno> {
    if let Some(orphan) = orphan(&on) {
        let names = orphan.xattr_names()?;
        let names = names.split_inclusive(|&b| b == 0);
        let names = names.filter(|name| name.starts_with(b"user."));
        return Ok(names.flatten().copied().collect());
    }
    let names = on
        .file_system()?
        .list_xattr(&culvert_run::task::caller(), on.name()?.node);
    names.map(visible).map_err(|error| error.errno())
}

/// getxattr(2)
pub fn get(on: On<'_>, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let (file_system, node) = (on.file_system()?, on.name()?.node);
    if is_hidden(name) {
        return Err(Errno::ENODATA);
    }
    if let Some(orphan) = orphan(&on) {
        permitted_on_orphan(orphan, name, false)?;
        return orphan.xattr(&terminated(name)?);
    }
    permitted(file_system, node, name, false)?;
    file_system
        .get_xattr(&culvert_run::task::caller(), node, name)
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
    match orphan(&on) {
        Some(orphan) => {
            permitted_on_orphan(orphan, name, true)?;
            orphan.set_xattr(&terminated(name)?, &value, flags)?;
        }
        None => {
            may_change(file_system, node, name)?;
            file_system
                .set_xattr(&culvert_run::task::caller(), node, name, &value, flags)
                .map_err(|error| error.errno())?;
        }
    }
    on.tell(Event::Attributes);
    Ok(())
}

/// removexattr(2) of the name that `name` says, likewise.
pub fn remove<'n>(on: On<'_>, name: impl FnOnce() -> Result<&'n [u8], Errno>) -> Result<(), Errno> {
    let (file_system, node) = (on.to_be_changed()?, on.name()?.node);
    let name = name()?;
    match orphan(&on) {
        Some(orphan) => {
            permitted_on_orphan(orphan, name, true)?;
            orphan.remove_xattr(&terminated(name)?)?;
        }
        None => {
            may_change(file_system, node, name)?;
            file_system
                .remove_xattr(&culvert_run::task::caller(), node, name)
                .map_err(|error| error.errno())?;
        }
    }
    on.tell(Event::Attributes);
    Ok(())
}

fn may_change(file_system: &dyn FileSystem, node: Node, name: &[u8]) -> Result<(), Errno> {
    match is_hidden(name) {
        true => Err(Errno::EPERM),
        false => permitted(file_system, node, name, true),
    }
}

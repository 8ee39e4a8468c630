//! The file that a shadow has become.

use super::record::{InodeRecord, open_record, path_of};
use crate::shadow::{self, OwnedFd};
use alloc::{ffi::CString, vec::Vec};
use core::{any::Any, ffi::CStr};
use culvert::{Attributes, Caller, Errno, File, FileKind, FileSystem, Node, Result};
use culvert::{SetAttributes, Sink, Source, Whence};
use culvert_drivers::{DescriptorFile, Keeper};
use culvert_run::{self as run, ShadowName};
use culvert_run::{files::c_string, task};
use culvert_sys::fs;
use culvert_sys::raw::general::{O_RDWR, stat};

/// A file that is its shadow.
pub struct OrphanFile {
    bytes: DescriptorFile,
    name: ShadowName,
    /// The shadow's inode.
    shadow: u64,
}

impl OrphanFile {
    /// That of `opened`, a description of its own on the shadow of `name`.
    pub(super) fn new(name: ShadowName, opened: OwnedFd, found: &stat) -> Self {
        let keeper = Keeper {
            adopt: Some(|fd| run::get().adopt_internal(fd)),
            table: Some(task::tables::number),
            lends: None,
        };
        let own = OwnedFd::from_raw(opened.into_raw());
        Self {
            bytes: DescriptorFile::new(own, keeper, name.node, found.st_ino),
            name,
            shadow: found.st_ino,
        }
    }

    /// That of `fd`, the program's descriptor of the shadow of `name`: to close one of ours would
    /// drop the record locks that its table has on the file.
    pub(super) fn lent(name: ShadowName, fd: i32, found: &stat) -> Self {
        let lent = run::internal::keeper().borrow(fd);
        Self {
            bytes: DescriptorFile::on(lent, name.node, found.st_ino),
            name,
            shadow: found.st_ino,
        }
    }

    /// Another description of the shadow, with the access mode and those status flags of `flags`
    /// that a shadow has.
    pub fn shadow(&self, flags: u32) -> core::result::Result<OwnedFd, Errno> {
        shadow::open_path(self.name, &path_of(self.shadow), shadow::kept_flags(flags))
    }

    /// listxattr(2). Extended attributes of users (`user.`) are the shadow's own; others there are
    /// none.
    pub fn xattr_names(&self) -> core::result::Result<Vec<u8>, Errno> {
        with_path(self.shadow, |path| {
            read_all(|into| fs::listxattr(path, into))
        })
    }

    /// getxattr(2)
    pub fn xattr(&self, name: &CStr) -> core::result::Result<Vec<u8>, Errno> {
        with_path(self.shadow, |path| {
            read_all(|into| fs::getxattr(path, name, into))
        })
    }

    /// setxattr(2)
    pub fn set_xattr(
        &self,
        name: &CStr,
        value: &[u8],
        flags: u32,
    ) -> core::result::Result<(), Errno> {
        with_path(self.shadow, |path| fs::setxattr(path, name, value, flags))
    }

    /// removexattr(2)
    pub fn remove_xattr(&self, name: &CStr) -> core::result::Result<(), Errno> {
        with_path(self.shadow, |path| fs::removexattr(path, name))
    }

    /// Changes what the shadow cannot say.
    fn change(&self, changes: &SetAttributes) -> Result<()> {
        let _lock = run::get().node_locks.lock(self.name);
        let record = open_record(self.shadow, O_RDWR)?;
        let mut kept = InodeRecord::read(&record)?;
        kept.permissions = changes.permissions.unwrap_or(kept.permissions);
        kept.owner.0 = changes.uid.unwrap_or(kept.owner.0);
        kept.owner.1 = changes.gid.unwrap_or(kept.owner.1);
        kept.write(&record)?;
        let own = self.bytes.descriptor().ok_or(Errno::EIO)?;
        Ok(crate::state::touch(own)?)
    }
}

/// The extended attributes of users that a file has: names, and values where they can be read.
pub(crate) type Xattrs = Vec<(CString, core::result::Result<Vec<u8>, Errno>)>;

/// Those of `node`, which loses its last name, or has lost it: not every driver knows them then.
pub(crate) fn xattrs_of(file_system: &dyn FileSystem, node: Node) -> Xattrs {
    let names = file_system
        .list_xattr(&Caller::SYSTEM, node)
        .unwrap_or_else(|error| {
            if !matches!(error.errno(), Errno::EOPNOTSUPP | Errno::ENOSYS) {
                culvert_sys::log!(
                    "the extended attributes of node {:x}, which has no name any more, are lost: \
                {error}",
                    node.0
                );
            }
            Vec::new()
        });
    names
        .split(|&byte| byte == 0)
        .filter(|name| name.starts_with(b"user."))
        .map(|name| {
            let value = file_system.get_xattr(&Caller::SYSTEM, node, name);
            (c_string(name), value.map_err(|error| error.errno()))
        })
        .collect()
}

/// Gives `xattrs` to the shadow with the inode number `shadow`, which becomes the file of `node`.
/// What the run directory has no room for is gone, with a line in the log. An access list would
/// change the mode of the shadow, which says what that is.
pub(crate) fn hand_over_xattrs(xattrs: Xattrs, node: Node, shadow: u64) {
    for (name, value) in xattrs {
        let kept =
            value.and_then(|value| with_path(shadow, |path| fs::setxattr(path, &name, &value, 0)));
        if let Err(error) = kept {
            culvert_sys::log!(
                "extended attribute {} of node {:x}, which has no name any more, is lost: {error}",
                name.to_string_lossy(),
                node.0
            );
        }
    }
}

fn with_path<T>(
    shadow: u64,
    run: impl FnOnce(&CStr) -> core::result::Result<T, Errno>,
) -> core::result::Result<T, Errno> {
    run(&path_of(shadow))
}

/// What `call` writes, as many bytes as it says.
fn read_all(
    call: impl Fn(&mut [u8]) -> core::result::Result<usize, Errno>,
) -> core::result::Result<Vec<u8>, Errno> {
    let mut all = alloc::vec![0; call(&mut [])?];
    let length = call(&mut all)?;
    all.truncate(length);
    Ok(all)
}

impl File for OrphanFile {
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        self.bytes.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        self.bytes.write_at(offset, from)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        self.bytes.append(from)
    }

    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        let shadow = self.bytes.attributes(&Caller::SYSTEM)?;
        let kept = InodeRecord::read(&open_record(self.shadow, 0)?)?;
        Ok(Attributes {
            inode: kept.inode,
            kind: FileKind::Regular,
            permissions: kept.permissions,
            links: 0,
            uid: kept.owner.0,
            gid: kept.owner.1,
            block_size: kept.block_size,
            ctime: match shadow.ctime == kept.since {
                true => kept.changed,
                false => shadow.ctime,
            },
            btime: kept.made,
            ..shadow
        })
    }

    fn set_attributes(&self, _: &Caller<'_>, changes: &SetAttributes) -> Result<Attributes> {
        let of_bytes = SetAttributes {
            permissions: None,
            uid: None,
            gid: None,
            ..*changes
        };
        self.bytes.set_attributes(&Caller::SYSTEM, &of_bytes)?;
        if changes
            .permissions
            .or(changes.uid)
            .or(changes.gid)
            .is_some()
        {
            self.change(changes)?;
        }
        self.attributes(&Caller::SYSTEM)
    }

    fn allocate(&self, mode: u32, offset: u64, length: u64) -> Result<()> {
        self.bytes.allocate(mode, offset, length)
    }

    fn seek(&self, offset: u64, whence: Whence) -> Result<u64> {
        self.bytes.seek(offset, whence)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }

    fn descriptor(&self) -> Option<i32> {
        self.bytes.descriptor()
    }

    fn with_kernel_file(
        &self,
        _range: (u64, u64),
        stores: bool,
        map: &mut dyn FnMut(i32),
    ) -> Result<bool> {
        // By a descriptor that may write, a mapping could be made writable later.
        let opened = self.shadow(if stores { O_RDWR } else { 0 })?;
        map(opened.raw());
        run::get().posix_locks.close(self.name, opened);
        Ok(true)
    }
}

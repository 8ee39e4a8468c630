//! The file that a shadow has become.

use super::record::{Kept, open_record, path_of};
use crate::shadow::{self, OwnedFd};
use core::any::Any;
use culvert::{Attributes, Errno, File, FileKind, Result, SetAttributes, Sink, Source, Whence};
use culvert_drivers::{DescriptorFile, Keeper};
use culvert_mounts::MountId;
use culvert_run::task;
use culvert_run::{self as run, ShadowName};
use culvert_sys::raw::general::{O_RDWR, stat};

/// A file that is its shadow.
pub struct GoneFile {
    bytes: DescriptorFile,
    name: ShadowName,
    /// The shadow's inode.
    shadow: u64,
}

impl GoneFile {
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

    /// Another description of the shadow, with the access mode and those status flags of `flags`
    /// that a shadow has.
    pub fn shadow(&self, flags: u32) -> core::result::Result<OwnedFd, Errno> {
        shadow::open_path(self.name, &path_of(self.shadow), shadow::kept_flags(flags))
    }

    /// Changes what the shadow cannot say.
    fn change(&self, changes: &SetAttributes) -> Result<()> {
        let _lock = run::get()
            .node_locks
            .lock(MountId(self.name.mount), self.name.node);
        let record = open_record(self.shadow, O_RDWR)?;
        let mut kept = Kept::read(&record)?;
        kept.permissions = changes.permissions.unwrap_or(kept.permissions);
        kept.owner.0 = changes.uid.unwrap_or(kept.owner.0);
        kept.owner.1 = changes.gid.unwrap_or(kept.owner.1);
        kept.write(&record)?;
        let own = self.bytes.descriptor().ok_or(Errno::EIO)?;
        Ok(shadow::touch(own)?)
    }
}

impl File for GoneFile {
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        self.bytes.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, from: &mut dyn Source) -> Result<usize> {
        self.bytes.write_at(offset, from)
    }

    fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        self.bytes.append(from)
    }

    fn attributes(&self) -> Result<Attributes> {
        let shadow = self.bytes.attributes()?;
        let kept = Kept::read(&open_record(self.shadow, 0)?)?;
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

    fn set_attributes(&self, changes: &SetAttributes) -> Result<Attributes> {
        let of_bytes = SetAttributes {
            permissions: None,
            uid: None,
            gid: None,
            ..*changes
        };
        self.bytes.set_attributes(&of_bytes)?;
        if changes
            .permissions
            .or(changes.uid)
            .or(changes.gid)
            .is_some()
        {
            self.change(changes)?;
        }
        self.attributes()
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

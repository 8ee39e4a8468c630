//! Block devices that are shown as regular files.

use super::core::Core;
use crate::DescriptorFile;
use crate::passthrough::reopen;
use alloc::boxed::Box;
use culvert::{Attributes, Caller, Errno, Error, FileKind, Node, OpenFlags, Opened, Result};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::{fs, raw::general as linux};

impl Core {
    /// The device behind `node`, if that is one that is shown as a file: opened with `O_PATH`, the
    /// file system's below.
    pub fn device(&self, node: Node) -> Result<Option<BorrowedFd<'_>>> {
        if !self.settings.block_files {
            return Ok(None);
        }
        let own = self.inner.attributes(&Caller::SYSTEM, node)?;
        match own.kind {
            FileKind::BlockDevice => self.place(node).map(Some),
            _ => Ok(None),
        }
    }

    fn place(&self, node: Node) -> Result<BorrowedFd<'_>> {
        let place = self.inner.kernel_node(node);
        let place = place.ok_or_else(|| {
            let why = "block-devices-as-files: this file system has no devices of the kernel's";
            Error::because(Errno::ENXIO, why)
        });
        place.map(BorrowedFd::number)
    }

    /// Opens it.
    pub fn open_device(
        &self,
        device: BorrowedFd<'_>,
        node: Node,
        flags: OpenFlags,
    ) -> Result<Opened> {
        let inode = self.inner.attributes(&Caller::SYSTEM, node)?.inode;
        let kept = linux::O_ACCMODE | linux::O_SYNC | linux::O_DSYNC;
        let file = reopen(device, flags.0 & kept)?;
        let file = DescriptorFile::new(file, self.keeper, node, inode);
        Ok(Opened::Driven(Box::new(file)))
    }

    /// Makes the attributes of a device those of a file with its bytes.
    pub fn show_device(&self, shown: &mut Attributes) -> Result<()> {
        let file = reopen(self.place(shown.node)?, linux::O_RDONLY)?;
        shown.size = fs::seek(&file, 0, linux::SEEK_END)?;
        shown.kind = FileKind::Regular;
        shown.rdev = 0;
        Ok(())
    }
}

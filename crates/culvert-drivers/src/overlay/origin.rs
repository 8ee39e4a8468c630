//! Which lower file a copy is of: the file handle that overlayfs keeps with it (`struct ovl_fb`,
//! fs/overlayfs/overlayfs.h), or, where there are no handles, our number of it.

use super::own_origin::{self, MAGIC};
use super::state::{Core, Layer, Part};
use crate::passthrough::{file_handle, file_system_identity};
use alloc::vec::Vec;
use core::convert::Infallible;
use culvert::{Caller, Node, OpenFlags, OpenedDirectory};
use culvert_sys::fd::BorrowedFd;

/// Bytes before the handle: version, magic, length, flags, kind, identity of the file system.
const HEADER: usize = 21;

/// The inode that a handle of this `kind` says, as the file systems make it.
fn inode(kind: u8, handle: &[u8]) -> Option<u64> {
    let word = |at: usize| {
        let bytes = handle.get(at..at + 4)?.first_chunk()?;
        Some(u64::from(u32::from_ne_bytes(*bytes)))
    };
    let long = |at: usize| Some(word(at)? | word(at + 4)? << 32);
    match (kind, handle.len()) {
        // `generic_encode_ino32_fh`: ext2 to ext4, F2FS.
        (1, 8) => word(0),
        // `shmem_encode_fh`: generation, inode.
        (1, 12) => long(4),
        // `xfs_fs_encode_fh`.
        (0x81, 12) => long(0),
        // `btrfs_encode_fh`.
        (0x4d..=0x4f, 20..) => long(0),
        _ => None,
    }
}

impl Layer {
    /// The identity of its file system, where the kernel says it; zeroes where it has none.
    fn uuid(&self) -> Option<[u8; 16]> {
        let ask = || {
            self.device?;
            let flags = OpenFlags::READ;
            let opened = self.fs.open_directory(&Caller::SYSTEM, self.root, flags);
            let OpenedDirectory::Backed(root) = opened.ok()? else {
                return None;
            };
            Some(file_system_identity(root.borrow()).unwrap_or_default())
        };
        *self
            .uuid
            .get_or_try_init(|| Ok::<_, Infallible>(ask()))
            .unwrap_or(&None)
    }
}

impl Core {
    /// The mark for a copy of `part`, which has the number `node`: the kernel's, or, where there is
    /// none (a file in an archive, or one with several names), ours.
    pub fn origin_of(&self, part: Part, node: Node) -> Vec<u8> {
        let kernels = || {
            // What asks whether a copy in memory is in use knows ours alone
            // ([`own_origin::numbers`]).
            if node.0 & super::MADE != 0 || self.layers[0].device.is_none() {
                return None;
            }
            let layer = &self.layers[part.layer];
            let uuid = layer.uuid()?;
            let fd = layer.fs.handed_down(part.node)?;
            let (kind, handle) = file_handle(BorrowedFd::number(fd)).ok()?;
            let kind = u8::try_from(kind).ok()?;
            let length = u8::try_from(HEADER + handle.len()).ok()?;
            let head = [
                0,
                MAGIC,
                length,
                u8::from(cfg!(target_endian = "big")),
                kind,
            ];
            let made = [&head[..], &uuid, &handle].concat();
            // One that we would not know again is none.
            (self.origin(&made)? == node).then_some(made)
        };
        kernels().unwrap_or_else(|| own_origin::of(node))
    }

    /// The number of the file that the mark `origin` says; none: it is not known.
    pub fn origin(&self, origin: &[u8]) -> Option<Node> {
        if let Some(number) = own_origin::number(origin) {
            return Some(number);
        }
        if origin.len() < HEADER || origin[..2] != [0, MAGIC] {
            return None;
        }
        // `OVL_FH_FLAG_BIG_ENDIAN`, unless any order will do (`OVL_FH_FLAG_ANY_ENDIAN`).
        let flags = origin[3];
        if flags & 2 == 0 && flags & 1 != u8::from(cfg!(target_endian = "big")) {
            return None;
        }
        let inode = inode(origin[4], origin.get(HEADER..usize::from(origin[2]))?)?;
        let lowest = usize::from(self.settings.upper);
        let mut lowers = self.layers.iter().enumerate().skip(lowest);
        let its =
            lowers.find(|(_, layer)| layer.uuid().is_some_and(|uuid| uuid == origin[5..HEADER]));
        its.map(|(index, _)| self.number(index, Node(inode)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_say_their_inode() {
        assert_eq!(inode(1, &[5, 0, 0, 0, 9, 9, 9, 9]), Some(5));
        assert_eq!(
            inode(1, &[9, 9, 9, 9, 5, 0, 0, 0, 1, 0, 0, 0]),
            Some(1 << 32 | 5)
        );
        assert_eq!(inode(0x81, &[5, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9]), Some(5));
        assert_eq!(inode(7, &[0; 8]), None);
        assert_eq!(inode(1, &[0; 4]), None);
    }
}

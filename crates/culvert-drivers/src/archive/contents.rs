//! An archive that is open: its bytes, its index, and what its nodes are.

use super::bytes::Bytes;
use super::codec::Stream;
use super::format::{NONE, NodeRecord, Storage};
use super::index::Index;
use super::options::{Options, Owner};
use super::warning::printable;
use alloc::{format, sync::Arc};
use culvert::{Attributes, Entry, Errno, Error, FileKind, Node, Result};

/// `st_blksize` and the unit of statfs(2), bytes.
pub const BLOCK_SIZE: u32 = 4096;
/// Longest name of a directory entry, bytes.
pub const NAME_MAX: usize = 255;

/// What all open files of a mount share.
pub struct Archive {
    /// The archive file.
    pub raw: Arc<dyn Bytes>,
    /// Its index.
    pub index: Index,
    /// The plain bytes of a compressed archive.
    pub stream: Option<Stream>,
    uid: Owner,
    gid: Owner,
    umask: u32,
    /// The record of the mount's root.
    pub root: u32,
}

impl Archive {
    /// `ENOENT` or `ENOTDIR` with a cause when option `subdir` names no directory.
    pub fn new(
        raw: Arc<dyn Bytes>,
        index: Index,
        stream: Option<Stream>,
        options: &Options,
    ) -> Result<Self> {
        let mut archive = Self {
            raw,
            index,
            stream,
            uid: options.uid,
            gid: options.gid,
            umask: options.umask,
            root: 0,
        };
        if !options.subdir.is_empty() {
            archive.root = archive.subdirectory(&options.subdir)?;
        }
        Ok(archive)
    }

    fn subdirectory(&self, path: &[u8]) -> Result<u32> {
        let missing = |errno, why| {
            Error::because(
                errno,
                format!("option subdir: \"{}\" {why}", printable(path)),
            )
        };
        let mut node = 0;
        for name in path.split(|&byte| byte == b'/') {
            let entry = self
                .index
                .find(node, name)?
                .ok_or_else(|| missing(Errno::ENOENT, "is not in the archive"))?;
            node = entry.node;
        }
        self.directory(Node(u64::from(node) + 1))
            .map_err(|_| missing(Errno::ENOTDIR, "is not a directory"))?;
        Ok(node)
    }

    /// The record of `node`. `ESTALE` for a number that the index does not have.
    #[inline]
    pub fn record(&self, node: Node) -> Result<NodeRecord> {
        let number = node.0.wrapping_sub(1);
        if number >= self.index.nodes() as u64 {
            return Err(Errno::ESTALE.into());
        }
        self.index.node(number)
    }

    /// The record of `node`, a directory. `ENOTDIR`.
    pub fn directory(&self, node: Node) -> Result<NodeRecord> {
        let record = self.record(node)?;
        if !record.is_directory() {
            return Err(Errno::ENOTDIR.into());
        }
        Ok(record)
    }

    /// Attributes of the node of `record`.
    pub fn attributes(&self, node: Node, record: &NodeRecord) -> Result<Attributes> {
        let kind = FileKind::of_mode(record.mode).ok_or_else(|| {
            Error::because(Errno::EIO, "the index is damaged (file type); delete it")
        })?;
        let owner = |option, stated| match option {
            Owner::Fixed(number) => number,
            _ if stated == NONE => 0,
            _ => stated,
        };
        let mut attributes = Attributes {
            node,
            inode: node.0,
            kind,
            permissions: record.mode & 0o7777 & !self.umask,
            links: record.links,
            uid: owner(self.uid, record.uid),
            gid: owner(self.gid, record.gid),
            rdev: 0,
            size: record.size,
            blocks: record.size.div_ceil(512),
            block_size: BLOCK_SIZE,
            atime: record.mtime,
            mtime: record.mtime,
            ctime: record.mtime,
            btime: None,
        };
        match kind {
            FileKind::Regular if record.storage == Storage::Sparse => {
                attributes.blocks = self.index.stored(record.extent)?.div_ceil(512);
            }
            FileKind::Regular => {}
            FileKind::CharacterDevice | FileKind::BlockDevice => attributes.rdev = record.place,
            // A link's target lies in the index.
            _ => attributes.blocks = 0,
        }
        Ok(attributes)
    }

    /// The entry `name` in the directory of record `directory`.
    #[inline]
    pub fn look_up(&self, directory: u32, name: &[u8]) -> Result<Entry> {
        let Some(entry) = self.index.find(directory, name)? else {
            return Err(if name.len() > NAME_MAX {
                Errno::ENAMETOOLONG
            } else {
                Errno::ENOENT
            }
            .into());
        };
        let record = self.index.node(entry.node.into())?;
        let node = Node(u64::from(entry.node) + 1);
        Ok(Entry {
            attributes: self.attributes(node, &record)?,
        })
    }
}

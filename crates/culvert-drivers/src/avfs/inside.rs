//! A file that is looked into.

use super::table::encode;
use super::within::{Within, Writers};
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use culvert::{
    Attributes, Caller, Errno, FileKind, FileSystem, Node, Result, Timespec, sync::Mutex,
};

/// A file that is looked into.
pub struct Inside {
    /// Its directory.
    pub directory: Node,
    /// Its name, and how it is looked into.
    pub name: Vec<u8>,
    pub depth: u32,
    /// Owner and permissions of the file, as they were when it was looked up last: who may not
    /// read it may not look into it.
    pub rights: Mutex<FileRights>,
    pub writers: Writers,
    pub mtime: Timespec,
    pub what: What,
    pub used: AtomicU64,
}

/// Owner and group, and the permissions.
pub type FileRights = ((u32, u32), u32);

pub enum What {
    Within(Within),
    /// Such a link to a file.
    Link(Vec<u8>),
}

impl Inside {
    pub fn within(&self) -> Result<&Within> {
        match &self.what {
            What::Within(within) => Ok(within),
            What::Link(_) => Err(Errno::ENOTDIR.into()),
        }
    }

    /// Attributes of what is in it, for outside.
    pub fn shown(&self, number: u32, mut found: Attributes) -> Attributes {
        let is_root = match &self.what {
            What::Within(Within::Tree(archive)) => found.node == archive.root(),
            What::Within(Within::File(_, file)) => found.node == *file,
            What::Link(_) => false,
        };
        if is_root {
            let (owner, permissions) = *self.rights.lock();
            (found.uid, found.gid) = owner;
            found.permissions = match found.kind {
                // Who may read it may search in it.
                FileKind::Directory => permissions & 0o777 | (permissions & 0o444) >> 2,
                _ => permissions & 0o666,
            };
            (found.mtime, found.ctime, found.atime) = (self.mtime, self.mtime, self.mtime);
        }
        found.node = encode(number, found.node);
        found.inode = found.node.0;
        found
    }

    /// Its own attributes, and the node.
    pub fn attributes(&self, number: u32, inner: Node) -> Result<Attributes> {
        match &self.what {
            What::Within(within) => {
                let found = within.archive().attributes(&Caller::SYSTEM, inner)?;
                Ok(self.shown(number, found))
            }
            What::Link(target) => {
                let mut link = Attributes::new(FileKind::Symlink, 0o777);
                link.node = encode(number, inner);
                link.inode = link.node.0;
                link.size = target.len() as u64;
                (link.uid, link.gid) = self.rights.lock().0;
                (link.mtime, link.ctime, link.atime) = (self.mtime, self.mtime, self.mtime);
                Ok(link)
            }
        }
    }

    /// The node that stands for all of it.
    pub fn top(&self) -> Node {
        match &self.what {
            What::Within(Within::Tree(archive)) => archive.root(),
            What::Within(Within::File(_, file)) => *file,
            What::Link(_) => Node(1),
        }
    }
}

/// What of `found` says who may look into it.
pub fn rights_of(found: &Attributes) -> FileRights {
    ((found.uid, found.gid), found.permissions)
}

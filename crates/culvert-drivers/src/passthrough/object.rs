//! What a node is: a descriptor on a file, whose device and inode are known.

use crate::descriptor::{KeptFd, NodeBook};
use culvert::{FileKind, Node};
use culvert_sys::fd::BorrowedFd;

/// What a node is.
pub(super) struct Object {
    pub(super) held: KeptFd,
    pub(super) book: Option<&'static dyn NodeBook>,
    /// `st_dev` and `st_ino`.
    pub identity: (u64, u64),
    /// Its type, which no inode changes.
    pub kind: FileKind,
}

impl Object {
    /// The `O_PATH` descriptor, as it is now.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.held.fd()
    }

    /// For tests of the table: there is no such file.
    #[cfg(test)]
    pub(super) fn fake(identity: (u64, u64)) -> alloc::sync::Arc<Self> {
        alloc::sync::Arc::new(Self {
            held: crate::Keeper::default().borrow(-1),
            book: None,
            identity,
            kind: FileKind::Regular,
        })
    }

    /// Writes down that it is `node`, on which the front end has `references`.
    pub(super) fn note(&self, node: Node, references: u64) {
        if let Some(book) = self.book {
            book.note(self.held.raw(), node.0, references);
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if let Some(book) = self.book {
            book.erase(self.held.raw());
        }
    }
}

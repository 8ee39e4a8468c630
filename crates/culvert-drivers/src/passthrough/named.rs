//! Nodes that are known by their names alone, in programs.
//!
//! A descriptor for each node that a path leads to would cost stat(2) six system calls besides its
//! own: open, statx, two to move it out of the program's way, two closes. So what a lookup finds is
//! a directory, a name in it and what statx(2) said of that, and no more. What the program does to
//! it by the same path, while its lookup is the only one, is done by that name, as the kernel would
//! do it at that moment; everything else opens it first and compares device, inode and time of
//! birth: `ESTALE` should the name be another's by then, whereupon front ends look for it again.
//!
//! A file that is opened so is kept by its own descriptor. Directories that were looked in stay
//! open for a while: then a path of two names is two system calls.

use super::closed::birth;
use super::file::Held;
use super::kernel::{self, Name, identity, kind};
use super::nodes::{Nodes, Place};
use super::object::Object;
use super::seen::Seen;
use super::table::{Key, Known, NodeState};
use crate::descriptor::OwnedFd;
use alloc::{boxed::Box, sync::Arc};
use culvert::{Errno, Error, FileKind, Node, Result};
use culvert_sys::raw::general::statx;

/// How many directories stay open after their use.
const RECENT: usize = 8;

/// A node to be used by its name.
pub(super) struct Named {
    /// The directory.
    pub directory: Arc<Object>,
    /// The name in it.
    pub name: Name,
    /// What it was.
    pub kind: FileKind,
    identity: (u64, u64),
    birth: u64,
}

impl Named {
    /// Whether `status` describes what it was.
    pub fn is(&self, status: &statx) -> bool {
        (self.identity, self.birth) == (identity(status), birth(status))
    }

    /// Whether `status` describes an inode of the same number: what it was, though a change may
    /// have given it another time of birth (overlayfs, which copies it up first).
    pub fn has_identity(&self, status: &statx) -> bool {
        self.identity == identity(status)
    }

    /// What it is, if it is what it was.
    pub fn status(&self) -> Result<statx> {
        let status = kernel::status(self.directory.fd(), Some(&self.name)).map_err(changed)?;
        match self.is(&status) {
            true => Ok(status),
            false => Err(Errno::ESTALE.into()),
        }
    }
}

/// The error of what was done by a name that is not there any more, or a link, or in no directory:
/// nothing was done, and who looks again finds what there is.
pub(super) fn changed(error: impl Into<Error>) -> Error {
    match error.into() {
        error if matches!(error.errno(), Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {
            Errno::ESTALE.into()
        }
        error => error,
    }
}

impl Nodes {
    /// One reference on what `status` describes, which was seen in `place`, without a descriptor.
    /// None: it needs one, because it is known by another name, or its file system tells no times
    /// of birth.
    pub fn see(&self, status: &statx, (dir, name): Place<'_>) -> Option<Node> {
        let kind = kind(status).ok()?;
        let of = self.keeper.table();
        if !self.sees || of != 0 || birth(status) == 0 {
            return None;
        }
        let mut table = self.table.lock();
        let node = self.node(&table, status);
        if node == self.root().0 {
            return None;
        }
        let key = (of, node);
        let dir = (dir != self.root().0).then_some((of, dir));
        match table.known.get_mut(&key) {
            Some(known) => {
                let NodeState::Seen(seen) = &known.state else {
                    return None;
                };
                let same = known.parent == dir && known.name.as_deref() == Some(name.bytes());
                if !same || !seen.is(status) || seen.file.is_some() {
                    return None;
                }
                known.references += 1;
            }
            None => {
                let mut known = Known::new(NodeState::Seen(Box::new(Seen::new(status, kind))));
                known.references = 1;
                table.entered += 1;
                known.entered = table.entered;
                table.known.insert(key, known);
                table.name(key, dir, name.bytes());
                let known = table.known.get_mut(&key)?;
                if known.name.is_none() {
                    // Its directory is not known.
                    table.release(key, |known| known.references = 0);
                    return None;
                }
            }
        }
        Some(node)
    }

    /// Whether `node` is known, though it may be gone.
    pub fn knows(&self, node: Node) -> bool {
        let table = self.table.lock();
        let key = self.key(&table, node);
        key.is_some_and(|key| table.known.contains_key(&key))
    }

    /// `node` where it is to be used by its name: who asks has found it by that, and nobody else
    /// knows it.
    pub fn named(&self, node: Node) -> Option<Named> {
        if !self.sees {
            return None;
        }
        let of = self.keeper.table();
        let table = self.table.lock();
        let known = table.known.get(&(of, node))?;
        let NodeState::Seen(seen) = &known.state else {
            return None;
        };
        if known.files > 0 || known.references > 1 {
            return None;
        }
        let directory = match known.parent {
            None => self.root_object(),
            Some(parent) => table.known.get(&parent)?.object()?.clone(),
        };
        Some(Named {
            directory,
            name: Name::new(known.name.as_deref()?).ok()?,
            kind: seen.kind,
            identity: seen.identity,
            birth: seen.birth,
        })
    }

    /// Opens `key`, which has no descriptor yet.
    pub(super) fn open_seen(&self, key: Key) -> Result<Arc<Object>> {
        let (what, file, parent, name) = {
            let table = self.table.lock();
            let known = table.known.get(&key).ok_or(Errno::ESTALE)?;
            match &known.state {
                NodeState::Open { object, .. } => return Ok(object.clone()),
                NodeState::Closed(_) => return Err(Errno::ESTALE.into()),
                NodeState::Seen(seen) => (
                    (seen.identity, seen.birth, seen.kind),
                    seen.file.clone(),
                    known.parent,
                    known.name.clone(),
                ),
            }
        };
        let is = |descriptor: OwnedFd| {
            let status = kernel::status(&descriptor, None)?;
            match (what.0, what.1) == (identity(&status), birth(&status)) {
                true => Ok(descriptor),
                false => Err(Error::new(Errno::ESTALE)),
            }
        };
        let by_file = file.and_then(|file| reopened(&file, what.0));
        let descriptor = match by_file {
            Some(descriptor) => descriptor,
            None => {
                let name = Name::new(&name.ok_or(Errno::ESTALE)?)?;
                let above = match parent {
                    None => self.root_object(),
                    Some((_, dir)) => self.get(dir)?,
                };
                is(kernel::open_place(above.fd(), &name).map_err(changed)?)?
            }
        };
        let object = self.object(descriptor, what.0, what.2);
        let opened = self.table.lock().open(key, object);
        opened.ok_or(Errno::ESTALE.into())
    }

    /// What `node` is, for a child of vfork(2) whose parent knows it by its open file alone: its
    /// table has that file, too. None: it has not.
    pub(super) fn by_parents_file(&self, node: Node) -> Option<Arc<Object>> {
        if self.keeper.table() == 0 {
            return None;
        }
        let (identity, file) = match &self.table.lock().known.get(&(0, node))?.state {
            NodeState::Seen(seen) => (seen.identity, seen.file.clone()?),
            _ => return None,
        };
        let descriptor = reopened(&file, identity)?;
        let status = kernel::status(&descriptor, None).ok()?;
        self.keep(descriptor, &status).ok()
    }

    /// Directory `node` was looked in: it stays open for a while. Not where its descriptor has a
    /// number that the program may want, nor on other file systems than the root's, which
    /// somebody may want to unmount.
    pub fn looked_in(&self, node: Node) {
        if !self.sees || self.keeper.table() != 0 {
            return;
        }
        let key = (0, node);
        let mut table = self.table.lock();
        let Some(known) = table.known.get_mut(&key) else {
            return;
        };
        let stays = |object: &Arc<Object>| {
            object.identity.0 == self.root().1.identity.0 && object.held.is_out_of_the_way()
        };
        if known.recent || !known.object().is_some_and(stays) {
            return;
        }
        known.recent = true;
        known.pins += 1;
        table.recent.push_back(key);
        if table.recent.len() > RECENT
            && let Some(oldest) = table.recent.pop_front()
        {
            table.release(oldest, unused);
        }
    }

    /// No directory stays open for having been looked in: one of them may be gone.
    pub fn forget_recent(&self) {
        let mut table = self.table.lock();
        while let Some(key) = table.recent.pop_front() {
            table.release(key, unused);
        }
    }
}

/// What `file`, of this `identity`, is. None: the program closes it at this moment, and its number
/// is nobody's, or another's. The time of birth says nothing here: that of an inode on overlayfs is
/// another's once it is copied up, and the open file keeps the inode's number from any other.
fn reopened(file: &Held, identity: (u64, u64)) -> Option<OwnedFd> {
    let descriptor = kernel::reopen(file.fd(), kernel::O_PATH).ok()?;
    let status = kernel::status(&descriptor, None).ok()?;
    (kernel::identity(&status) == identity).then_some(descriptor)
}

/// It was looked in long ago.
fn unused(known: &mut Known) {
    known.recent = false;
    known.pins -= 1;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptor::Keeper;
    use crate::passthrough::nodes::tests::{descriptor, nodes_below};
    use culvert_sys::raw::general::STATX_BTIME;

    /// As on overlayfs, where the first change copies it.
    #[test]
    fn an_open_file_is_known_whatever_becomes_of_its_time_of_birth() {
        let directory = std::env::temp_dir();
        let root = descriptor(&directory);
        let mut nodes = nodes_below(root);
        nodes.sees = true;
        let nodes = Arc::new(nodes);
        let called = std::format!("culvert-copied-{}", std::process::id());
        let path = directory.join(&called);
        std::fs::write(&path, b"").expect("a file");
        let file = descriptor(&path);
        let mut before = kernel::status(&file, None).expect("it is open");
        before.stx_mask |= STATX_BTIME;
        before.stx_btime.tv_sec = 1;
        let name = Name::new(called.as_bytes()).expect("a name");
        let node = nodes.see(&before, (nodes.root().0, &name));
        let node = node.expect("it has a time of birth");
        let held = Arc::new(Held::Kept(Keeper::default().keep(file)));
        let pin = nodes.pin_file(node, &held);
        std::fs::remove_file(&path).expect("it is there");
        let found = nodes.get(node).map(|object| object.identity);
        assert_eq!(found.expect("it is open"), identity(&before));
        drop(pin);
    }
}

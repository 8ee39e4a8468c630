//! Where paths of directories lead, as this process found last: so that a long path costs what a
//! short one does.
//!
//! What is kept counts while [`header::PATHS`] stands, which every transaction increments that
//! removes, moves or closes a directory to somebody. It is read and compared within
//! [`Core::steady`], so that it belongs to the same state of the names as what is kept. New names,
//! and names of files, change nothing here.

use super::{
    core::{Core, Inode, split},
    known_paths::EVERYBODY,
    layout::{header, inode},
    transaction::Transaction,
};
use core::sync::atomic::{Ordering::*, fence};
use culvert::{Access, Caller, Errno, FileKind, Node, Result};

/// Whether `caller` may search `dir`: EACCES when not.
#[inline]
pub fn may_search(caller: &Caller<'_>, dir: &Inode<'_>) -> Result<()> {
    if dir.mode() & 0o111 == 0o111 {
        return Ok(());
    }
    let (uid, gid) = split(dir.get(inode::OWNER));
    caller.may_as(
        Access::EXECUTE,
        (uid, gid),
        dir.mode() & 0o7777,
        FileKind::Directory,
    )
}

impl Core {
    /// The directory that `path` leads to from `from`, every directory on the way searched by
    /// `caller`, but not that one. None: it must be walked step by step, for there is a link on the
    /// way. Within [`Core::steady`].
    #[inline]
    pub fn directory_at(
        &self,
        caller: &Caller<'_>,
        from: Node,
        path: &[u8],
    ) -> Result<Option<Node>> {
        let generation = self.header(header::PATHS)?;
        let place = self.paths.place(from, path);
        if let Some(known) = place.and_then(|place| place.get(generation, caller, from, path)) {
            return Ok(Some(known));
        }
        self.walk_to(caller, from, path)
    }

    #[cold]
    fn walk_to(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Option<Node>> {
        let sequence = self.image.header(header::SEQUENCE)?;
        let before = sequence.load(Acquire);
        let generation = self.header(header::PATHS)?;
        let (mut at, mut everybody, mut owner) = (self.directory(from)?, true, true);
        for name in path.split(|&byte| byte == b'/') {
            may_search(caller, &at)?;
            let mode = at.mode();
            let all = mode & 0o111 == 0o111;
            everybody &= all;
            owner &= all || at.get(inode::OWNER) as u32 == caller.uid && mode & 0o100 != 0;
            let found = self.find(&at, name)?.ok_or(Errno::ENOENT)?;
            at = self.inode(found.inode)?;
            match FileKind::of_mode(at.mode()) {
                Some(FileKind::Directory) => {}
                Some(FileKind::Symlink) => return Ok(None),
                _ => return Err(Errno::ENOTDIR.into()),
            }
        }
        let node = at.node();
        fence(Acquire);
        let steady = before & 1 == 0 && sequence.load(Relaxed) == before;
        if steady
            && (everybody || owner)
            && let Some(place) = self.paths.place(from, path)
        {
            let searcher = if everybody {
                EVERYBODY
            } else {
                caller.uid.into()
            };
            place.keep(generation, searcher, from, path, node);
        }
        Ok(Some(node))
    }
}

impl Transaction<'_> {
    /// A directory is removed, moved, or gets another owner or mode: paths through it are to be
    /// walked again.
    pub fn paths_change(&mut self) -> Result<()> {
        self.add(header::PATHS * 8, 1)
    }
}

//! A complete file system in memory: small, by the book, and the proof of the kit.
//!
//! One lock holds the whole state, so every operation happens at one moment; that is its point, not
//! speed. Nodes are counted: one that has neither name, reference nor open file is gone, and its
//! number is never used again.

mod file;
mod pages;
mod state;

use crate::{
    Attributes, Caller, Capabilities, DirectorySink, Entry, Errno, FileKind, FileSystem, Node,
    OpenFlags, Opened, RenameFlags, Result, Rights, SetAttributes, StatFs,
};
use file::MemoryFile;
use state::{Content, Inode, ROOT, State};
use std::{
    boxed::Box,
    sync::{Arc, Mutex, MutexGuard},
    vec::Vec,
};

type SharedState = Arc<Mutex<State>>;

/// A file system in memory, empty at first; clones show the same one.
#[derive(Clone)]
pub struct Memory {
    state: SharedState,
    read_only: bool,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory {
    /// An empty file system, its root owned by the superuser with mode 0755.
    pub fn new() -> Self {
        Self {
            state: Arc::new(Mutex::new(State::new())),
            read_only: false,
        }
    }

    /// The same file system, refusing every change.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self {
            state: Arc::clone(&self.state),
            read_only: true,
        }
    }

    /// How many nodes are kept, the root among them.
    pub fn nodes(&self) -> usize {
        self.reading().inodes.len()
    }

    fn reading(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no operation panics under the lock")
    }

    fn changing(&self) -> Result<MutexGuard<'_, State>> {
        match self.read_only {
            true => Err(Errno::EROFS.into()),
            false => Ok(self.reading()),
        }
    }

    fn opened(&self, state: &mut State, caller: &Caller<'_>, node: Node) -> Result<Opened> {
        state.inode_mut(node)?.opens += 1;
        Ok(Opened::Driven(Box::new(MemoryFile {
            state: Arc::clone(&self.state),
            node,
            superuser: caller.has(Rights::FSETID),
        })))
    }

    fn add(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        content: Content,
    ) -> Result<Entry> {
        let mut state = self.changing()?;
        state.room_for(dir, name)?;
        let node = state.new_inode(caller, dir, mode, content)?;
        state.put_name(dir, name, node);
        state.entry(node)
    }
}

impl FileSystem for Memory {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: self.read_only,
            xattrs: true,
            hard_links: true,
            ..Capabilities::default()
        }
    }

    fn root(&self) -> Node {
        ROOT
    }

    fn lookup(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let mut state = self.reading();
        let node = state.find(dir, name)?;
        state.entry(node)
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        let state = self.reading();
        state.directory(dir)?;
        match state.inode(dir)?.names.first() {
            Some((parent, _)) => Ok(*parent),
            None if dir == ROOT => Ok(ROOT),
            None => Err(Errno::ENOENT.into()),
        }
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        let state = self.reading();
        let (mut names, mut at) = (Vec::new(), node);
        while at != ROOT {
            let (dir, name) = state.inode(at)?.names.first().ok_or(Errno::ENOENT)?;
            names.push(name.as_slice());
            at = *dir;
        }
        names.reverse();
        Ok(names.join(&b'/'))
    }

    fn attributes(&self, _: &Caller<'_>, node: Node) -> Result<Attributes> {
        self.reading().attributes(node)
    }

    fn readlink(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        match &self.reading().inode(node)?.content {
            Content::Symlink(target) => Ok(target.clone()),
            _ => Err(Errno::EINVAL.into()),
        }
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let mut state = self.reading();
        if self.read_only && (flags.write() || flags.truncate()) {
            return Err(Errno::EROFS.into());
        }
        match state.inode(node)?.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR.into()),
            FileKind::Symlink => return Err(Errno::ELOOP.into()),
            _ => return Err(Errno::ENXIO.into()),
        }
        if flags.truncate() {
            state.truncate(node, 0, caller.has(Rights::FSETID))?;
        }
        self.opened(&mut state, caller, node)
    }

    fn read_directory(
        &self,
        _: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let mut at = from;
        // One entry per locking: the sink runs with the lock free, so that it may look names up.
        loop {
            let (position, name, inode, kind) = {
                let state = self.reading();
                let directory = state.directory(dir)?;
                let range = (std::ops::Bound::Excluded(at), std::ops::Bound::Unbounded);
                let Some((&position, (name, node))) = directory.listing.range(range).next() else {
                    return Ok(());
                };
                (position, name.clone(), node.0, state.inode(*node)?.kind)
            };
            let entry = crate::DirectoryEntry {
                inode,
                next: position,
                kind,
                name: &name,
            };
            if !sink(entry) {
                return Ok(());
            }
            at = position;
        }
    }

    fn statfs(&self) -> Result<StatFs> {
        let state = self.reading();
        let used = state.pages();
        Ok(StatFs {
            magic: 0x0102_1994, // TMPFS_MAGIC, include/uapi/linux/magic.h
            block_size: 4096,
            blocks: 1 << 20,
            blocks_free: (1 << 20) - used,
            blocks_available: (1 << 20) - used,
            files: 1 << 20,
            files_free: (1 << 20) - state.inodes.len() as u64,
            name_max: 255,
            read_only: self.read_only,
        })
    }

    fn get_xattr(&self, _: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        let state = self.reading();
        let value = state.inode(node)?.xattrs.get(name);
        Ok(value.ok_or(Errno::ENODATA)?.clone())
    }

    fn list_xattr(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let state = self.reading();
        let names = state.inode(node)?.xattrs.keys();
        Ok(names
            .flat_map(|name| name.iter().copied().chain([0]))
            .collect())
    }

    fn set_xattr(
        &self,
        _: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        const CREATE: u32 = 1;
        const REPLACE: u32 = 2;
        let mut state = self.changing()?;
        let now = state.now();
        let inode = state.inode_mut(node)?;
        let stored = matches!(inode.kind, FileKind::Regular | FileKind::Directory);
        if !stored && name.starts_with(b"user.") {
            return Err(Errno::EPERM.into());
        }
        match inode.xattrs.contains_key(name) {
            true if flags & CREATE != 0 => return Err(Errno::EEXIST.into()),
            false if flags & REPLACE != 0 => return Err(Errno::ENODATA.into()),
            _ => inode.xattrs.insert(name.to_vec(), value.to_vec()),
        };
        inode.ctime = now;
        Ok(())
    }

    fn remove_xattr(&self, _: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        let mut state = self.changing()?;
        let now = state.now();
        let inode = state.inode_mut(node)?;
        inode.xattrs.remove(name).ok_or(Errno::ENODATA)?;
        inode.ctime = now;
        Ok(())
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        let mut state = self.changing()?;
        let in_group = caller.keeps_set_group_id(state.inode(node)?.gid);
        state.change(node, changes, in_group, caller.has(Rights::FSETID))
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let mut state = self.changing()?;
        let node = match state.find(dir, name) {
            Err(error) if error.errno() == Errno::ENOENT => {
                state.room_for(dir, name)?;
                let mode = FileKind::Regular as u32 | mode;
                let node = state.new_inode(caller, dir, mode, Content::default())?;
                state.put_name(dir, name, node);
                node
            }
            Err(error) => return Err(error),
            Ok(_) if flags.exclusive() => return Err(Errno::EEXIST.into()),
            Ok(node) => {
                drop(state);
                return self.open_existing(caller, node, flags);
            }
        };
        Ok((state.entry(node)?, self.opened(&mut state, caller, node)?))
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        let mode = FileKind::Directory as u32 | (mode & 0o1777);
        self.add(
            caller,
            dir,
            name,
            mode,
            Content::Directory(Default::default()),
        )
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        match FileKind::of_mode(mode) {
            Some(FileKind::Regular) => self.add(caller, dir, name, mode, Content::default()),
            Some(FileKind::Directory | FileKind::Symlink) | None => Err(Errno::EINVAL.into()),
            Some(FileKind::CharacterDevice | FileKind::BlockDevice) => {
                self.add(caller, dir, name, mode, Content::Special(rdev))
            }
            Some(_) => self.add(caller, dir, name, mode, Content::Special(0)),
        }
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        let mode = FileKind::Symlink as u32 | 0o777;
        self.add(caller, dir, name, mode, Content::Symlink(target.to_vec()))
    }

    fn link(&self, _: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        let mut state = self.changing()?;
        let Inode { kind, linkable, .. } = *state.inode(node)?;
        if kind == FileKind::Directory {
            return Err(Errno::EPERM.into());
        }
        state.room_for(dir, name)?;
        if !linkable {
            return Err(Errno::ENOENT.into());
        }
        state.put_name(dir, name, node);
        state.entry(node)
    }

    fn unlink(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let mut state = self.changing()?;
        let node = state.find(dir, name)?;
        if state.inode(node)?.kind == FileKind::Directory {
            return Err(Errno::EISDIR.into());
        }
        state.take_name(dir, name);
        Ok(())
    }

    fn rmdir(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        let mut state = self.changing()?;
        let node = state.find(dir, name)?;
        if !state.directory(node)?.names.is_empty() {
            return Err(Errno::ENOTEMPTY.into());
        }
        state.take_name(dir, name);
        Ok(())
    }

    fn rename(
        &self,
        _: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.changing()?.rename(from, to, flags)
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        let mut state = self.changing()?;
        let mode = FileKind::Regular as u32 | mode;
        let node = state.new_inode(caller, dir, mode, Content::default())?;
        state.inode_mut(node)?.linkable = !flags.exclusive();
        Ok((state.entry(node)?, self.opened(&mut state, caller, node)?))
    }

    fn forget(&self, node: Node, count: u64) {
        let mut state = self.reading();
        if let Ok(inode) = state.inode_mut(node) {
            inode.references = inode.references.saturating_sub(count);
            state.drop_unused(node);
        }
    }
}

impl Memory {
    /// The second half of [`FileSystem::create`] for a name that exists.
    fn open_existing(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
    ) -> Result<(Entry, Opened)> {
        if self.attributes(&Caller::SYSTEM, node)?.kind == FileKind::Regular {
            let wanted = (u32::from(flags.read()) * 4) | (u32::from(flags.write()) * 2);
            self.access(caller, node, crate::Access(wanted))?;
        }
        let opened = self.open(caller, node, flags)?;
        Ok((self.reading().entry(node)?, opened))
    }
}

#[cfg(test)]
mod tests;

//! The driver: the operations of the API, each one transaction or one steady look.

use super::{
    core::{Core, Inode, node, split},
    file::{Keeps, MemoryFile},
    layout::{self, BLOCK, flag, header, inode},
    map::block_of,
    paths::may_search,
    transaction::Transaction,
};
use alloc::{boxed::Box, sync::Arc, vec::Vec};
use culvert::{
    Access, Attributes, Caller, Capabilities, DirectorySink, Entry, Errno, FileKind, FileSystem,
    Node, OpenFlags, Opened, Reached, RenameFlags, Result, SetAttributes, StatFs, Validity,
};

/// A file system in shared memory.
pub struct MemoryFs {
    pub(super) core: Arc<Core>,
    pub(super) read_only: bool,
    /// Nobody else has the file system: see [`crate::Environment::alone`].
    pub(super) alone: bool,
}

impl MemoryFs {
    fn writable(&self) -> Result<()> {
        match self.read_only {
            true => Err(Errno::EROFS.into()),
            false => Ok(()),
        }
    }

    /// One transaction, where the mount may be written.
    fn change<'a, R>(&'a self, run: impl FnOnce(&mut Transaction<'a>) -> Result<R>) -> Result<R> {
        self.writable()?;
        self.core.transact(run)
    }

    fn opened(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        let file = MemoryFile::new(&self.core, node, flags, caller)?;
        Ok(Opened::Driven(Box::new(file)))
    }

    /// A new inode with a name in `dir`; `content` fills it in.
    fn make(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        content: impl Fn(&mut Transaction<'_>, &Inode<'_>) -> Result<()>,
    ) -> Result<Entry> {
        self.writable()?;
        match self.make_once(caller, dir, name, mode, &content) {
            Err(error) if error.errno() == Errno::ENOSPC => {
                self.core.make_room(0)?;
                self.make_once(caller, dir, name, mode, &content)
            }
            made => made,
        }
    }

    fn make_once(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        content: &dyn Fn(&mut Transaction<'_>, &Inode<'_>) -> Result<()>,
    ) -> Result<Entry> {
        let attributes = self.core.transact(|change| {
            let parent = change.core.directory(dir)?;
            if self.core.find(&parent, name)?.is_some() {
                return Err(Errno::EEXIST.into());
            }
            let parent = change.open_to_names(dir)?;
            let made = change.new_inode(caller, Some(&parent), mode)?;
            content(change, &made)?;
            change.name_new(&parent, name, &made)?;
            self.core.attributes(&made)
        })?;
        Ok(Entry { attributes })
    }

    #[inline(always)]
    fn find(&self, dir: Node, name: &[u8]) -> Result<Entry> {
        let core = &self.core;
        core.steady(|| {
            let dir = core.directory(dir)?;
            let found = core.find(&dir, name)?.ok_or(Errno::ENOENT)?;
            let attributes = core.attributes(&core.inode(found.inode)?)?;
            Ok(Entry { attributes })
        })
    }
}

impl FileSystem for MemoryFs {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: self.read_only,
            xattrs: true,
            hard_links: true,
            ..Capabilities::default()
        }
    }

    fn validity(&self) -> Validity {
        match self.alone {
            true => Validity::FOREVER,
            false => Validity::SECOND,
        }
    }

    fn root(&self) -> Node {
        // The root is never freed, so its first generation is its only one.
        node(layout::ROOT, 1 << 32)
    }

    fn lookup(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        self.find(dir, name)
    }

    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        let core = &self.core;
        let (way, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (path.get(..slash), path.get(slash + 1..)),
            None => (None, Some(path)),
        };
        let name = name.unwrap_or_default();
        let mut entry = None;
        let found = core.steady(|| {
            let parent = match way {
                Some(way) => match core.directory_at(caller, from, way)? {
                    Some(parent) => parent,
                    None => return Ok(None),
                },
                None => from,
            };
            let dir = core.directory(parent)?;
            may_search(caller, &dir)?;
            // Made where it stays: it is large.
            entry = match core.find(&dir, name)? {
                Some(found) => Some(Entry {
                    attributes: core.attributes(&core.inode(found.inode)?)?,
                }),
                None => None,
            };
            Ok(Some(parent))
        });
        match found {
            Ok(parent) => parent.map(|parent| Ok(Reached { entry, parent })),
            Err(error) => Some(Err(error)),
        }
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        self.core.parent_of(dir)
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        self.core.path_of(node)
    }

    fn attributes(&self, _: &Caller<'_>, node: Node) -> Result<Attributes> {
        let core = &self.core;
        core.steady(|| core.attributes(&core.node(node)?))
    }

    fn readlink(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        let core = &self.core;
        core.steady(|| {
            let of = core.node(node)?;
            if of.mode() & 0o170000 != 0o120000 {
                return Err(Errno::EINVAL.into());
            }
            let block = block_of(of.get(inode::ROOT) as u32);
            let size = of.get(inode::SIZE).min(BLOCK - 1) as usize;
            let bytes = match block {
                0 => of.inline(),
                block => core.image.bytes(block)?,
            };
            Ok(bytes.part(0, size).shared().to_vec())
        })
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        if flags.write() || flags.truncate() {
            self.writable()?;
        }
        match FileKind::of_mode(self.core.node(node)?.mode()) {
            Some(FileKind::Regular) => {}
            Some(FileKind::Directory) => return Err(Errno::EISDIR.into()),
            Some(FileKind::Symlink) => return Err(Errno::ELOOP.into()),
            _ => return Err(Errno::ENXIO.into()),
        }
        let opened = self.opened(caller, node, flags)?;
        if let (true, Opened::Driven(file)) = (flags.truncate(), &opened) {
            file.set_attributes(
                caller,
                &SetAttributes {
                    size: Some(0),
                    ..SetAttributes::default()
                },
            )?;
        }
        Ok(opened)
    }

    fn hold(&self, node: Node) -> Result<()> {
        self.core.open(node, false).map(|_| ())
    }

    fn release(&self, node: Node) {
        self.core.close(node.0 as u32, false);
    }

    fn is_open_for_writing(&self, node: Node) -> Result<bool> {
        let number = self.core.node(node)?.number;
        self.core.is_written(number)
    }

    fn read_directory(
        &self,
        _: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        self.core.list_names(dir, from, sink)
    }

    fn statfs(&self) -> Result<StatFs> {
        let core = &self.core;
        let (orphan, _) = split(core.header(header::ORPHANS)?);
        if orphan != 0 {
            core.reclaim()?;
        }
        let free = core.free_blocks()?;
        let inodes = core.header(header::INODES)?;
        Ok(StatFs {
            magic: 0x0102_1994, // TMPFS_MAGIC, include/uapi/linux/magic.h
            block_size: BLOCK as u32,
            blocks: core.header(header::LIMIT)?,
            blocks_free: free,
            blocks_available: free,
            files: inodes,
            files_free: inodes.saturating_sub(core.header(header::USED_INODES)?),
            name_max: 255,
            read_only: self.read_only,
        })
    }

    fn get_xattr(&self, _: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.core.get_xattr(&self.core.node(node)?, name)
    }

    fn list_xattr(&self, _: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.core.list_xattr(&self.core.node(node)?)
    }

    fn set_xattr(
        &self,
        _: &Caller<'_>,
        node: Node,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.change(|change| change.set_xattr(&self.core.node(node)?, name, Some(value), flags))
    }

    fn remove_xattr(&self, _: &Caller<'_>, node: Node, name: &[u8]) -> Result<()> {
        self.change(|change| change.set_xattr(&self.core.node(node)?, name, None, 0))
    }

    fn set_attributes(
        &self,
        caller: &Caller<'_>,
        node: Node,
        changes: &SetAttributes,
    ) -> Result<Attributes> {
        self.writable()?;
        let of = self.core.node(node)?;
        let (uid, gid) = split(of.get(inode::OWNER));
        let keeps = Keeps::of(caller, gid);
        // A kernel mount sends on what the kernel refuses elsewhere: strangers take nothing from
        // the mode.
        let only_time = SetAttributes {
            touch: true,
            ..SetAttributes::default()
        };
        let stranger = !caller.is_owner(uid) && of.mode() & 0o6000 != 0;
        match changes.is_empty() && stranger {
            true => self.core.set_attributes(node, &only_time, keeps),
            false => self.core.set_attributes(node, changes, keeps),
        }
    }

    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        loop {
            let mode = FileKind::Regular as u32 | mode & 0o7777;
            let (entry, opened) = match self.make(caller, dir, name, mode, |_, _| Ok(())) {
                Ok(entry) => (entry, self.opened(caller, entry.attributes.node, flags)),
                Err(error) if error.errno() == Errno::EEXIST && !flags.exclusive() => {
                    let entry = match self.find(dir, name) {
                        Err(error) if error.errno() == Errno::ENOENT => continue,
                        other => other?,
                    };
                    if entry.attributes.kind == FileKind::Regular {
                        let wanted = (u32::from(flags.read()) * 4) | (u32::from(flags.write()) * 2);
                        caller.may(Access(wanted), &entry.attributes)?;
                    }
                    (entry, self.open(caller, entry.attributes.node, flags))
                }
                Err(error) => return Err(error),
            };
            match opened {
                Ok(opened) if flags.truncate() => {
                    let attributes = self.attributes(caller, entry.attributes.node)?;
                    return Ok((Entry { attributes }, opened));
                }
                Ok(opened) => return Ok((entry, opened)),
                // Removed between the two halves of this operation: it begins anew.
                Err(error) if error.errno() == Errno::ESTALE => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn mkdir(&self, caller: &Caller<'_>, dir: Node, name: &[u8], mode: u32) -> Result<Entry> {
        let mode = FileKind::Directory as u32 | mode & 0o1777;
        self.make(caller, dir, name, mode, |_, _| Ok(()))
    }

    fn mknod(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        name: &[u8],
        mode: u32,
        rdev: u64,
    ) -> Result<Entry> {
        let device = match FileKind::of_mode(mode) {
            Some(FileKind::Directory | FileKind::Symlink) | None => {
                return Err(Errno::EINVAL.into());
            }
            Some(FileKind::CharacterDevice | FileKind::BlockDevice) => rdev,
            Some(_) => 0,
        };
        self.make(caller, dir, name, mode & 0o177777, |_, made| {
            made.put(inode::ROOT, device);
            Ok(())
        })
    }

    fn symlink(&self, caller: &Caller<'_>, dir: Node, name: &[u8], target: &[u8]) -> Result<Entry> {
        if target.len() as u64 >= BLOCK {
            return Err(Errno::ENAMETOOLONG.into());
        }
        let mode = FileKind::Symlink as u32 | 0o777;
        self.make(caller, dir, name, mode, |change, made| {
            if target.len() as u64 <= inode::INLINE {
                made.inline().copy_from(target);
            } else {
                let block = change.allocate(1)?.start;
                self.core.image.bytes(block)?.copy_from(target);
                change.set_word(made, inode::ROOT, block)?;
                change.set_word(made, inode::BLOCKS, 1)?;
            }
            change.set_word(made, inode::SIZE, target.len() as u64)
        })
    }

    fn link(&self, _: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        let attributes = self.change(|change| change.link(node, dir, name))?;
        Ok(Entry { attributes })
    }

    fn unlink(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.change(|change| change.unlink(dir, name))
    }

    fn rmdir(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<()> {
        self.change(|change| change.rmdir(dir, name))
    }

    fn rename(
        &self,
        caller: &Caller<'_>,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        self.change(|change| change.rename(caller, from, to, flags))
    }

    fn tmpfile(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Entry, Opened)> {
        self.writable()?;
        loop {
            let mut change = self.core.change()?;
            let parent = change.open_to_names(dir)?;
            let mode = FileKind::Regular as u32 | mode & 0o7777;
            let made = change.new_inode(caller, Some(&parent), mode)?;
            if !flags.exclusive() {
                change.set_state(&made, flag::LINKABLE, 0)?;
            }
            change.enlist(&made)?;
            let attributes = self.core.attributes(&made)?;
            change.commit();
            match self.opened(caller, attributes.node, flags) {
                // Taken for one that nobody uses before it was opened.
                Err(error) if error.errno() == Errno::ESTALE => {}
                opened => return Ok((Entry { attributes }, opened?)),
            }
        }
    }

    fn forked(&self, _shared_descriptors: bool) {
        // Without a slot of its own the next operation of this process tries again, or fails.
        let _ = self.core.forked();
    }
}

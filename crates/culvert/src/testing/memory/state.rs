//! What [`super::Memory`] keeps under its lock: nodes, names, and the rules that join them.

use super::pages::Pages;
use crate::{
    Attributes, Caller, Entry, Errno, FileKind, Node, RenameFlags, Result, SetAttributes, Source,
    Timespec,
};
use std::{
    collections::{BTreeMap, HashMap},
    time::{SystemTime, UNIX_EPOCH},
    vec::Vec,
};

pub(super) const ROOT: Node = Node(1);
const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;

#[derive(Default)]
pub(super) struct Directory {
    /// By position, which only grows: a listing meets every entry that stays exactly once.
    pub(super) listing: BTreeMap<u64, (Vec<u8>, Node)>,
    pub(super) names: HashMap<Vec<u8>, u64>,
    last: u64,
}

pub(super) enum Content {
    File(Pages),
    Directory(Directory),
    Symlink(Vec<u8>),
    Special(u64),
}

impl Default for Content {
    fn default() -> Self {
        Self::File(Pages::default())
    }
}

pub(super) struct Inode {
    pub(super) kind: FileKind,
    pub(super) permissions: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) atime: Timespec,
    pub(super) mtime: Timespec,
    pub(super) ctime: Timespec,
    btime: Timespec,
    pub(super) content: Content,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Every name, with the directory that holds it.
    pub(super) names: Vec<(Node, Vec<u8>)>,
    pub(super) references: u64,
    pub(super) opens: u64,
    /// May (still) get a name: false once the last one is gone.
    pub(super) linkable: bool,
}

pub(super) struct State {
    pub(super) inodes: HashMap<u64, Inode>,
    last: u64,
}

impl State {
    pub(super) fn new() -> Self {
        let mut state = Self {
            inodes: HashMap::new(),
            last: 0,
        };
        let mode = FileKind::Directory as u32 | 0o755;
        state.insert(mode, (0, 0), Content::Directory(Directory::default()));
        state
    }

    pub(super) fn now(&self) -> Timespec {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timespec {
            seconds: now.as_secs() as i64,
            nanoseconds: now.subsec_nanos(),
        }
    }

    pub(super) fn inode(&self, node: Node) -> Result<&Inode> {
        Ok(self.inodes.get(&node.0).ok_or(Errno::ESTALE)?)
    }

    pub(super) fn inode_mut(&mut self, node: Node) -> Result<&mut Inode> {
        Ok(self.inodes.get_mut(&node.0).ok_or(Errno::ESTALE)?)
    }

    pub(super) fn directory(&self, node: Node) -> Result<&Directory> {
        match &self.inode(node)?.content {
            Content::Directory(directory) => Ok(directory),
            _ => Err(Errno::ENOTDIR.into()),
        }
    }

    pub(super) fn pages_of(&self, node: Node) -> Result<&Pages> {
        match &self.inode(node)?.content {
            Content::File(pages) => Ok(pages),
            _ => Err(Errno::EINVAL.into()),
        }
    }

    pub(super) fn pages(&self) -> u64 {
        let pages = |inode: &Inode| match &inode.content {
            Content::File(pages) => pages.count(),
            _ => 0,
        };
        self.inodes.values().map(pages).sum()
    }

    pub(super) fn find(&self, dir: Node, name: &[u8]) -> Result<Node> {
        let directory = self.directory(dir)?;
        let position = directory.names.get(name).ok_or(Errno::ENOENT)?;
        Ok(directory.listing[position].1)
    }

    pub(super) fn attributes(&self, node: Node) -> Result<Attributes> {
        let inode = self.inode(node)?;
        let (mut links, mut size, mut blocks, mut rdev) = (inode.names.len() as u32, 0, 0, 0);
        match &inode.content {
            Content::File(pages) => (size, blocks) = (pages.size, pages.count() * 8),
            Content::Symlink(target) => size = target.len() as u64,
            Content::Special(number) => rdev = *number,
            Content::Directory(directory) => {
                size = directory.names.len() as u64 * 32;
                let nodes = directory.listing.values().map(|(_, node)| *node);
                let below = nodes.filter(|&node| self.directory(node).is_ok()).count() as u32;
                links = match inode.names.is_empty() && node != ROOT {
                    true => 0,
                    false => 2 + below,
                };
            }
        }
        Ok(Attributes {
            node,
            inode: node.0,
            kind: inode.kind,
            permissions: inode.permissions,
            links,
            uid: inode.uid,
            gid: inode.gid,
            rdev,
            size,
            blocks,
            block_size: 4096,
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            btime: Some(inode.btime),
        })
    }

    /// One more reference on `node`, with its attributes.
    pub(super) fn entry(&mut self, node: Node) -> Result<Entry> {
        self.inode_mut(node)?.references += 1;
        let attributes = self.attributes(node)?;
        Ok(Entry { attributes })
    }

    fn insert(&mut self, mode: u32, owner: (u32, u32), content: Content) -> Node {
        self.last += 1;
        let now = self.now();
        let inode = Inode {
            kind: FileKind::of_mode(mode).unwrap_or(FileKind::Regular),
            permissions: mode & 0o7777,
            uid: owner.0,
            gid: owner.1,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            content,
            xattrs: BTreeMap::new(),
            names: Vec::new(),
            references: 0,
            opens: 0,
            linkable: true,
        };
        self.inodes.insert(self.last, inode);
        Node(self.last)
    }

    /// A new node without a name, owned as `inode_init_owner` (fs/inode.c) has it.
    pub(super) fn new_inode(
        &mut self,
        caller: &Caller<'_>,
        dir: Node,
        mut mode: u32,
        content: Content,
    ) -> Result<Node> {
        self.directory(dir)?;
        self.still_there(dir)?;
        let parent = self.inode(dir)?;
        let mut gid = caller.gid;
        if parent.permissions & SET_GID != 0 {
            gid = parent.gid;
            match content {
                Content::Directory(_) => mode |= SET_GID,
                _ if caller.keeps_set_group_id(gid) => {}
                _ if mode & 0o2010 == 0o2010 => mode &= !SET_GID,
                _ => {}
            }
        }
        Ok(self.insert(mode, (caller.uid, gid), content))
    }

    fn still_there(&self, dir: Node) -> Result<()> {
        match self.inode(dir)?.names.is_empty() && dir != ROOT {
            true => Err(Errno::ENOENT.into()),
            false => Ok(()),
        }
    }

    /// Whether `name` may be made in `dir`.
    pub(super) fn room_for(&self, dir: Node, name: &[u8]) -> Result<()> {
        match self.find(dir, name) {
            Ok(_) => Err(Errno::EEXIST.into()),
            Err(error) if error.errno() == Errno::ENOENT => self.still_there(dir),
            Err(error) => Err(error),
        }
    }

    fn touch_directory(&mut self, dir: Node) {
        let now = self.now();
        if let Some(inode) = self.inodes.get_mut(&dir.0) {
            (inode.mtime, inode.ctime) = (now, now);
        }
    }

    /// Gives `node` the name `name` in `dir`, which has none such.
    pub(super) fn put_name(&mut self, dir: Node, name: &[u8], node: Node) {
        if let Some(Content::Directory(directory)) =
            self.inodes.get_mut(&dir.0).map(|i| &mut i.content)
        {
            directory.last += 1;
            let position = directory.last;
            directory.names.insert(name.to_vec(), position);
            directory.listing.insert(position, (name.to_vec(), node));
        }
        self.touch_directory(dir);
        let now = self.now();
        if let Some(inode) = self.inodes.get_mut(&node.0) {
            inode.names.push((dir, name.to_vec()));
            inode.ctime = now;
        }
    }

    /// Takes `name` from `dir`, and returns the node that had it; the node itself may go with it.
    pub(super) fn take_name(&mut self, dir: Node, name: &[u8]) -> Option<Node> {
        let node = self.remove_name(dir, name)?;
        if let Some(inode) = self.inodes.get_mut(&node.0) {
            inode.linkable = !inode.names.is_empty();
        }
        self.drop_unused(node);
        Some(node)
    }

    fn remove_name(&mut self, dir: Node, name: &[u8]) -> Option<Node> {
        let Content::Directory(directory) = &mut self.inodes.get_mut(&dir.0)?.content else {
            return None;
        };
        let position = directory.names.remove(name)?;
        let (_, node) = directory.listing.remove(&position)?;
        self.touch_directory(dir);
        let now = self.now();
        let inode = self.inodes.get_mut(&node.0)?;
        inode
            .names
            .retain(|(holder, known)| (*holder, known.as_slice()) != (dir, name));
        inode.ctime = now;
        Some(node)
    }

    pub(super) fn drop_unused(&mut self, node: Node) {
        let unused =
            |inode: &Inode| inode.names.is_empty() && inode.references == 0 && inode.opens == 0;
        if node != ROOT && self.inodes.get(&node.0).is_some_and(unused) {
            self.inodes.remove(&node.0);
        }
    }

    /// Writes at `offset`, or at the end.
    pub(super) fn write(
        &mut self,
        node: Node,
        offset: Option<u64>,
        from: &mut dyn Source,
        superuser: bool,
    ) -> Result<(u64, usize)> {
        let now = self.now();
        let inode = self.inode_mut(node)?;
        let Content::File(pages) = &mut inode.content else {
            return Err(Errno::EINVAL.into());
        };
        let offset = offset.unwrap_or(pages.size);
        let count = pages.write(offset, from)?;
        if count > 0 {
            (inode.mtime, inode.ctime) = (now, now);
            inode.drop_privileges(superuser);
        }
        Ok((offset, count))
    }

    pub(super) fn truncate(&mut self, node: Node, size: u64, superuser: bool) -> Result<()> {
        let now = self.now();
        let inode = self.inode_mut(node)?;
        match &mut inode.content {
            Content::File(_) if size > i64::MAX as u64 => return Err(Errno::EFBIG.into()),
            Content::File(pages) => pages.resize(size),
            Content::Directory(_) => return Err(Errno::EISDIR.into()),
            _ => return Err(Errno::EINVAL.into()),
        }
        (inode.mtime, inode.ctime) = (now, now);
        inode.drop_privileges(superuser);
        Ok(())
    }

    pub(super) fn punch(&mut self, node: Node, offset: u64, length: u64) -> Result<()> {
        let now = self.now();
        let inode = self.inode_mut(node)?;
        if let Content::File(pages) = &mut inode.content {
            pages.punch(offset, length);
            (inode.mtime, inode.ctime) = (now, now);
        }
        Ok(())
    }

    pub(super) fn change(
        &mut self,
        node: Node,
        changes: &SetAttributes,
        in_group: bool,
        superuser: bool,
    ) -> Result<Attributes> {
        let now = self.now();
        if changes.permissions.is_some() && self.inode(node)?.kind == FileKind::Symlink {
            return Err(Errno::EOPNOTSUPP.into());
        }
        if let Some(size) = changes.size {
            self.truncate(node, size, superuser)?;
        }
        let inode = self.inode_mut(node)?;
        if changes.uid.is_some() || changes.gid.is_some() {
            inode.uid = changes.uid.unwrap_or(inode.uid);
            inode.gid = changes.gid.unwrap_or(inode.gid);
            if inode.kind != FileKind::Directory {
                inode.drop_privileges(false);
            }
        }
        if let Some(permissions) = changes.permissions {
            inode.permissions = permissions & 0o7777;
            if !in_group {
                inode.permissions &= !SET_GID;
            }
        }
        inode.atime = changes.atime.unwrap_or(inode.atime);
        inode.mtime = changes.mtime.unwrap_or(inode.mtime);
        inode.ctime = changes.ctime.unwrap_or(now);
        self.attributes(node)
    }

    /// Whether `node` is `above` or lies below it.
    fn is_below(&self, mut node: Node, above: Node) -> bool {
        loop {
            if node == above {
                return true;
            }
            match self
                .inodes
                .get(&node.0)
                .and_then(|inode| inode.names.first())
            {
                Some((dir, _)) => node = *dir,
                None => return false,
            }
        }
    }

    pub(super) fn rename(
        &mut self,
        from: (Node, &[u8]),
        to: (Node, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let known = RenameFlags::NO_REPLACE | RenameFlags::EXCHANGE;
        if flags.0 & !known != 0 || flags.0 == known {
            return Err(Errno::EINVAL.into());
        }
        let old = self.find(from.0, from.1)?;
        let new = match self.find(to.0, to.1) {
            Ok(_) if flags.no_replace() => return Err(Errno::EEXIST.into()),
            Ok(node) => Some(node),
            Err(error) if error.errno() == Errno::ENOENT && !flags.exchange() => None,
            Err(error) => return Err(error),
        };
        self.still_there(to.0)?;
        let is_directory = |node| self.directory(node).is_ok();
        if is_directory(old) && self.is_below(to.0, old) {
            return Err(Errno::EINVAL.into());
        }
        if new == Some(old) {
            return Ok(());
        }
        if let Some(new) = new.filter(|_| flags.exchange()) {
            if is_directory(new) && self.is_below(from.0, new) {
                return Err(Errno::EINVAL.into());
            }
            self.remove_name(from.0, from.1);
            self.remove_name(to.0, to.1);
            self.put_name(from.0, from.1, new);
            self.put_name(to.0, to.1, old);
            return Ok(());
        }
        if let Some(new) = new {
            if self.is_below(from.0, new) {
                return Err(Errno::ENOTEMPTY.into());
            }
            match (is_directory(old), is_directory(new)) {
                (true, false) => return Err(Errno::ENOTDIR.into()),
                (false, true) => return Err(Errno::EISDIR.into()),
                (true, true) if !self.directory(new)?.names.is_empty() => {
                    return Err(Errno::ENOTEMPTY.into());
                }
                _ => self.take_name(to.0, to.1),
            };
        }
        self.remove_name(from.0, from.1);
        self.put_name(to.0, to.1, old);
        Ok(())
    }
}

impl Inode {
    /// What a write, a change of size and a change of owner do to set-user-ID and set-group-ID
    /// (`setattr_should_drop_suidgid`, fs/attr.c).
    fn drop_privileges(&mut self, superuser: bool) {
        if superuser {
            return;
        }
        self.permissions &= !SET_UID;
        if self.permissions & 0o010 != 0 {
            self.permissions &= !SET_GID;
        }
        self.xattrs.remove(&b"security.capability"[..]);
    }
}

//! Inodes: made, freed, and what stat says of them.

use super::{
    core::{Core, Inode, join, node, split, unpack_time},
    layout::{self, BLOCK, flag, header, inode},
    transaction::Transaction,
};
use core::sync::atomic::Ordering::*;
use culvert::{Attributes, Caller, Errno, FileKind, Result};

/// Free inodes are kept back until there are this many, oldest first: what holds a node of a
/// removed file meets that file for a while, not `ESTALE`.
const KEPT_BACK: u32 = 1024;

const SET_GID: u32 = 0o2000;

impl Core {
    /// One more than the highest inode ever used.
    pub fn inode_end(&self) -> Result<u32> {
        let (_, fresh) = split(self.header(header::INODE_COUNTS)?);
        let most = self.header(header::GROWN)?.min(layout::MOST_BLOCKS) * layout::INODES_PER_BLOCK;
        Ok(u64::from(fresh).min(most).min(layout::MOST_INODES + 1) as u32)
    }

    /// What stat says of an inode. Steady only within [`Core::steady`] or the lock.
    #[inline(always)]
    pub fn attributes(&self, found: &Inode<'_>) -> Result<Attributes> {
        let state = found.get(inode::STATE);
        let mode = state as u32 & 0xffff;
        let Some(kind) = FileKind::of_mode(mode) else {
            return Err(Errno::ESTALE.into());
        };
        let (uid, gid) = split(found.get(inode::OWNER));
        let (mut size, mut blocks, mut rdev) = (found.get(inode::SIZE), 0, 0);
        match kind {
            FileKind::Regular | FileKind::Symlink => {
                let reserve = found.get(inode::RESERVE) >> 32;
                blocks = found.get(inode::BLOCKS).saturating_sub(reserve) * 8;
                if blocks == 0 && found.get(inode::INTENT) == inode::WRITTEN {
                    // As where content always takes blocks: programs tell holes by this.
                    blocks = 8;
                }
            }
            // As tmpfs has it (BOGO_DIRENT_SIZE, mm/shmem.c).
            FileKind::Directory => size = (found.get(inode::RESERVE) & 0xffff_ffff) * 20 + 40,
            FileKind::CharacterDevice | FileKind::BlockDevice => rdev = found.get(inode::ROOT),
            FileKind::Fifo | FileKind::Socket => {}
        }
        let mut attributes = Attributes {
            node: node(found.number, state),
            inode: u64::from(found.number),
            kind,
            permissions: mode & 0o7777,
            links: found.links(),
            uid,
            gid,
            rdev,
            size,
            blocks,
            block_size: BLOCK as u32,
            atime: unpack_time(found.get(inode::ATIME)),
            mtime: unpack_time(found.get(inode::MTIME)),
            ctime: unpack_time(found.get(inode::CTIME)),
            btime: Some(unpack_time(found.get(inode::BTIME))),
        };
        if state & flag::EXTERNAL != 0 {
            self.see_external(found, &mut attributes);
        }
        Ok(attributes)
    }
}

impl<'a> Transaction<'a> {
    /// Changes word `index` of an inode.
    pub fn set_word(&mut self, of: &Inode<'_>, index: u64, value: u64) -> Result<()> {
        self.set_at(of.word(index), of.at(index), value)
    }

    /// A new inode without a name, in directory `parent` (none: the root), owned as
    /// `inode_init_owner` (fs/inode.c) has it. `ENOSPC` when there is none left.
    pub fn new_inode(
        &mut self,
        caller: &Caller<'_>,
        parent: Option<&Inode<'_>>,
        mut mode: u32,
    ) -> Result<Inode<'a>> {
        let directory = mode & 0o170000 == 0o040000;
        let mut gid = caller.gid;
        if let Some(parent) = parent
            && parent.mode() & SET_GID != 0
        {
            gid = split(parent.get(inode::OWNER)).1;
            if directory {
                mode |= SET_GID;
            } else if mode & 0o2010 == 0o2010 && !caller.keeps_set_group_id(gid) {
                mode &= !SET_GID;
            }
        }
        let made = self.take_inode()?;
        let generation = (made.get(inode::STATE) >> 32) as u32;
        let generation = generation.wrapping_add(1).max(1);
        self.set_word(&made, inode::STATE, join(mode, generation))?;
        let now = self.core.now();
        made.put(inode::OWNER, join(caller.uid, gid));
        made.put(
            inode::LINKS,
            join(0, parent.map_or(layout::ROOT, |parent| parent.number)),
        );
        for time in [inode::ATIME, inode::MTIME, inode::CTIME, inode::BTIME] {
            made.put(time, now);
        }
        // Not the lock: somebody who looked for room may hold it for a moment (`Core::make_room`),
        // and gives it back.
        for other in [inode::SIZE, inode::BLOCKS, inode::ROOT] {
            made.put(other, 0);
        }
        for other in [inode::RESERVE, inode::INTENT, inode::RUNS] {
            made.put(other, 0);
        }
        // Given to the directory that had this number, when it was removed already.
        self.free_xattrs(&made)?;
        Ok(made)
    }

    fn take_inode(&mut self) -> Result<Inode<'a>> {
        let used = self.header(header::USED_INODES)?;
        if used >= self.header(header::INODES)? {
            return Err(Errno::ENOSPC.into());
        }
        let (queued, fresh) = split(self.header(header::INODE_COUNTS)?);
        let number = if queued <= KEPT_BACK && u64::from(fresh) < layout::MOST_INODES {
            match self.fresh_inode(fresh) {
                Err(error) if error.errno() == Errno::ENOSPC && queued > 0 => {
                    self.queued_inode(queued, fresh)?
                }
                other => other.and_then(|()| {
                    self.set_header(header::INODE_COUNTS, join(queued, fresh + 1))?;
                    Ok(fresh)
                })?,
            }
        } else {
            self.queued_inode(queued, fresh)?
        };
        self.set_header(header::USED_INODES, used + 1)?;
        let core: &'a Core = self.core;
        core.inode(number)
    }

    fn queued_inode(&mut self, queued: u32, fresh: u32) -> Result<u32> {
        let (first, last) = split(self.header(header::FREE_INODES)?);
        let found = self.core.inode(first).map_err(|_| Errno::ENOSPC)?;
        let (next, _) = split(found.get(inode::LIST));
        let last = if next == 0 { 0 } else { last };
        self.set_header(header::FREE_INODES, join(next, last))?;
        self.set_header(header::INODE_COUNTS, join(queued.saturating_sub(1), fresh))?;
        Ok(first)
    }

    /// Makes sure that the inode never used so far has a place.
    fn fresh_inode(&mut self, number: u32) -> Result<()> {
        let chunk = u64::from(number) / layout::INODES_PER_BLOCK;
        let root = layout::INODE_TABLE * BLOCK + chunk / 1024 * 4;
        let mut table = u64::from(self.get_half(root)?);
        if table == 0 {
            table = self.allocate_zeroed()?;
            self.set_half(root, table as u32)?;
        }
        let place = table * BLOCK + chunk % 1024 * 4;
        if self.get_half(place)? == 0 {
            let block = self.allocate_zeroed()?;
            self.set_half(place, block as u32)?;
        }
        Ok(())
    }

    /// Frees an inode that has neither name nor content.
    pub fn free_inode(&mut self, gone: &Inode<'_>) -> Result<()> {
        let state = gone.get(inode::STATE) & !flag::ORPHAN | flag::FREE;
        self.set_word(gone, inode::STATE, state)?;
        self.set_word(gone, inode::LIST, 0)?;
        let (first, last) = split(self.header(header::FREE_INODES)?);
        if first == 0 {
            self.set_header(header::FREE_INODES, join(gone.number, gone.number))?;
        } else {
            let before = self.core.inode(last)?;
            self.set_word(&before, inode::LIST, join(gone.number, 0))?;
            self.set_header(header::FREE_INODES, join(first, gone.number))?;
        }
        let (queued, fresh) = split(self.header(header::INODE_COUNTS)?);
        self.set_header(header::INODE_COUNTS, join(queued + 1, fresh))?;
        self.add(header::USED_INODES * 8, -1)
    }

    /// Sets the times of a change: `ctime`, and `mtime` when the content changed.
    pub fn touch(&mut self, changed: &Inode<'_>, content: bool) -> Result<()> {
        self.touch_at(changed, content, self.core.now())
    }

    /// The same, at the time `now`.
    pub fn touch_at(&mut self, changed: &Inode<'_>, content: bool, now: u64) -> Result<()> {
        if content {
            self.set_word(changed, inode::MTIME, now)?;
        }
        self.set_word(changed, inode::CTIME, now)
    }

    /// The size of a file is `size` now: what that owes, but for the blocks.
    pub fn resized(&mut self, of: &Inode<'_>, size: u64) -> Result<()> {
        if size != of.get(inode::SIZE) {
            self.set_word(of, inode::SIZE, size)?;
        }
        self.touch(of, true)
    }

    /// Changes the number of links of an inode.
    pub fn set_links(&mut self, of: &Inode<'_>, links: u32, parent: u32) -> Result<()> {
        self.set_word(of, inode::LINKS, join(links, parent))
    }

    /// Sets and clears bits of an inode's state.
    pub fn set_state(&mut self, of: &Inode<'_>, set: u64, clear: u64) -> Result<()> {
        let state = of.word(inode::STATE).load(Relaxed);
        self.set_word(of, inode::STATE, state & !clear | set)
    }
}

//! Names: made, removed, moved.

use super::{
    core::{Core, Inode, split},
    directory::{Found, entries},
    image::damaged,
    layout::{self, flag, inode},
    transaction::Transaction,
};
use alloc::vec::Vec;
use culvert::{Attributes, Caller, Errno, FileKind, Node, RenameFlags, Result};

/// Most names of a file (`LINK_MAX` of ext4 and others is lower; the count is 32 bits wide).
const MOST_LINKS: u32 = u32::MAX - 1;

/// One side of a rename.
pub type Place<'a> = (Node, &'a [u8]);

impl<'a> Transaction<'a> {
    /// Directory `node`, to make a name in: `ENOENT` when it was removed.
    pub fn open_to_names(&self, node: Node) -> Result<Inode<'a>> {
        let core: &'a Core = self.core;
        let dir = core.directory(node)?;
        match dir.links() {
            0 => Err(Errno::ENOENT.into()),
            _ => Ok(dir),
        }
    }

    /// Gives `made`, new and without a name, its first one.
    pub fn name_new(&mut self, dir: &Inode<'_>, name: &[u8], made: &Inode<'_>) -> Result<()> {
        let mode = made.mode();
        self.add_name(dir, name, made.number, mode)?;
        let mut links = 1;
        if mode & 0o170000 == 0o040000 {
            links = 2;
            self.change_links(dir, 1)?;
        }
        self.set_links(made, links, dir.number)?;
        self.touch(dir, true)
    }

    /// Takes one name from `target`; its record is the caller's business. What has no name left is
    /// an orphan, or gone.
    pub fn lose_name(&mut self, target: &Inode<'a>, now: u64) -> Result<()> {
        let (links, parent) = split(target.get(inode::LINKS));
        let left = match target.is_directory() {
            true => 0,
            false => links.saturating_sub(1),
        };
        self.set_links(target, left, parent)?;
        self.set_word(target, inode::CTIME, now)?;
        if left == 0 {
            self.set_state(target, 0, flag::LINKABLE)?;
            self.abandon(target)?;
        }
        Ok(())
    }

    /// link(2)
    pub fn link(&mut self, node: Node, dir: Node, name: &[u8]) -> Result<Attributes> {
        let core: &'a Core = self.core;
        let target = core.node(node)?;
        if target.is_directory() {
            return Err(Errno::EPERM.into());
        }
        let dir = self.open_to_names(dir)?;
        if core.find(&dir, name)?.is_some() {
            return Err(Errno::EEXIST.into());
        }
        let (links, parent) = split(target.get(inode::LINKS));
        if links == 0 && !target.has(flag::LINKABLE) || target.has(flag::FREE) {
            return Err(Errno::ENOENT.into());
        }
        if links >= MOST_LINKS {
            return Err(Errno::EMLINK.into());
        }
        self.add_name(&dir, name, target.number, target.mode())?;
        // A path is shown by the name that it has had so far.
        let parent = if links == 0 { dir.number } else { parent };
        self.set_links(&target, links + 1, parent)?;
        if target.has(flag::ORPHAN) {
            self.leave_orphans(&target)?;
            self.set_state(&target, 0, flag::LINKABLE)?;
        }
        self.touch(&target, false)?;
        self.touch(&dir, true)?;
        core.attributes(&target)
    }

    /// unlink(2)
    pub fn unlink(&mut self, dir: Node, name: &[u8]) -> Result<()> {
        let core: &'a Core = self.core;
        let dir = core.directory(dir)?;
        let found = core.find(&dir, name)?.ok_or(Errno::ENOENT)?;
        let target = core.inode(found.inode)?;
        if target.is_directory() {
            return Err(Errno::EISDIR.into());
        }
        self.remove_name(&dir, &found)?;
        let now = core.now();
        self.touch_at(&dir, true, now)?;
        self.lose_name(&target, now)
    }

    /// rmdir(2)
    pub fn rmdir(&mut self, dir: Node, name: &[u8]) -> Result<()> {
        let core: &'a Core = self.core;
        let dir = core.directory(dir)?;
        let found = core.find(&dir, name)?.ok_or(Errno::ENOENT)?;
        let target = core.inode(found.inode)?;
        if !target.is_directory() {
            return Err(Errno::ENOTDIR.into());
        }
        if entries(&target) > 0 {
            return Err(Errno::ENOTEMPTY.into());
        }
        self.remove_name(&dir, &found)?;
        self.paths_change()?;
        self.change_links(&dir, -1)?;
        let now = core.now();
        self.touch_at(&dir, true, now)?;
        self.lose_name(&target, now)
    }

    /// Whether `node` is `above` or lies below it.
    fn is_below(&self, from: &Inode<'_>, above: u32) -> Result<bool> {
        let mut number = from.number;
        for _ in 0..self.core.inode_end()? {
            if number == above {
                return Ok(true);
            }
            if number == layout::ROOT {
                return Ok(false);
            }
            number = split(self.core.inode(number)?.get(inode::LINKS)).1;
        }
        Err(super::core::endless())
    }

    /// renameat2(2)
    pub fn rename(
        &mut self,
        caller: &Caller<'_>,
        from: Place<'_>,
        to: Place<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        let known = RenameFlags::NO_REPLACE | RenameFlags::EXCHANGE | RenameFlags::WHITEOUT;
        let others = flags.0 & !RenameFlags::EXCHANGE;
        if flags.0 & !known != 0 || flags.exchange() && others != 0 {
            return Err(Errno::EINVAL.into());
        }
        let core: &'a Core = self.core;
        let old_dir = core.directory(from.0)?;
        let new_dir = core.directory(to.0)?;
        let old = core.find(&old_dir, from.1)?.ok_or(Errno::ENOENT)?;
        let moved = core.inode(old.inode)?;
        let there = core.find(&new_dir, to.1)?;
        if there.is_some() && flags.no_replace() {
            return Err(Errno::EEXIST.into());
        }
        if there.is_none() && flags.exchange() {
            return Err(Errno::ENOENT.into());
        }
        if old_dir.links() == 0 || new_dir.links() == 0 {
            return Err(Errno::ENOENT.into());
        }
        if moved.is_directory() && self.is_below(&new_dir, moved.number)? {
            return Err(Errno::EINVAL.into());
        }
        let target = there.map(|there| core.inode(there.inode)).transpose()?;
        if let (Some(there), Some(target)) = (&there, &target) {
            if target.number == moved.number {
                return Ok(());
            }
            if flags.exchange() {
                if target.is_directory() && self.is_below(&old_dir, target.number)? {
                    return Err(Errno::EINVAL.into());
                }
                return self.exchange((&old_dir, &old, &moved), (&new_dir, there, target));
            }
            if target.is_directory() && self.is_below(&old_dir, target.number)? {
                return Err(Errno::ENOTEMPTY.into());
            }
            match (moved.is_directory(), target.is_directory()) {
                (true, false) => return Err(Errno::ENOTDIR.into()),
                (false, true) => return Err(Errno::EISDIR.into()),
                (true, true) if entries(target) > 0 => return Err(Errno::ENOTEMPTY.into()),
                _ => {}
            }
        }
        let now = core.now();
        if flags.whiteout() {
            let white = self.new_inode(caller, Some(&old_dir), FileKind::CharacterDevice as u32)?;
            self.set_links(&white, 1, old_dir.number)?;
            self.set_name(&old, white.number, FileKind::CharacterDevice)?;
        }
        match (&there, &target) {
            (Some(there), Some(target)) => {
                self.set_name(there, moved.number, kind_of(&moved)?)?;
                self.lose_name(target, now)?;
                if target.is_directory() {
                    self.change_links(&new_dir, -1)?;
                }
            }
            _ => self.add_name(&new_dir, to.1, moved.number, moved.mode())?,
        }
        if !flags.whiteout() {
            // The new name may have changed the bucket that the old one is found through.
            let old = core
                .find(&old_dir, from.1)?
                .ok_or_else(|| damaged("a name"))?;
            self.remove_name(&old_dir, &old)?;
        }
        self.moved(&moved, &old_dir, &new_dir, now)
    }

    /// What a node that got another directory owes: its `..`, the link counts, the times.
    fn moved(
        &mut self,
        moved: &Inode<'_>,
        from: &Inode<'_>,
        to: &Inode<'_>,
        now: u64,
    ) -> Result<()> {
        if moved.is_directory() {
            self.paths_change()?;
        }
        let (links, _) = split(moved.get(inode::LINKS));
        self.set_links(moved, links, to.number)?;
        if moved.is_directory() && from.number != to.number {
            self.change_links(from, -1)?;
            self.change_links(to, 1)?;
        }
        self.set_word(moved, inode::CTIME, now)?;
        for dir in [from, to] {
            self.touch_at(dir, true, now)?;
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        (old_dir, old, moved): (&Inode<'_>, &Found, &Inode<'_>),
        (new_dir, there, target): (&Inode<'_>, &Found, &Inode<'_>),
    ) -> Result<()> {
        self.set_name(old, target.number, kind_of(target)?)?;
        self.set_name(there, moved.number, kind_of(moved)?)?;
        let now = self.core.now();
        self.moved(moved, old_dir, new_dir, now)?;
        self.moved(target, new_dir, old_dir, now)
    }

    fn change_links(&mut self, dir: &Inode<'_>, change: i32) -> Result<()> {
        let (links, parent) = split(dir.get(inode::LINKS));
        self.set_links(dir, links.saturating_add_signed(change), parent)
    }
}

/// The type of an inode.
pub fn kind_of(of: &Inode<'_>) -> Result<FileKind> {
    FileKind::of_mode(of.mode()).ok_or_else(|| damaged("a type"))
}

impl Core {
    /// Any name of inode `wanted`, by looking at all directories; with the lock held.
    pub(super) fn any_name(&self, wanted: u32) -> Result<Option<(Inode<'_>, Vec<u8>)>> {
        for number in 1..self.inode_end()? {
            let Ok(dir) = self.inode(number) else {
                continue;
            };
            if dir.is_directory()
                && !dir.has(flag::FREE)
                && let Some(name) = self.name_of(&dir, wanted)?
            {
                return Ok(Some((dir, name)));
            }
        }
        Ok(None)
    }
}

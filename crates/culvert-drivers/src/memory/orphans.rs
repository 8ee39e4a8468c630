//! Inodes without a name: kept while somebody may use them, given back when nobody can.
//!
//! In use is what a slot lists as open, what is mapped (the kernel knows), and what a run *shared*:
//! descriptions that the kernel keeps for a program (after fork, exec, a lock), which only the
//! front end of that run can see.

use super::{
    blocks::Run,
    core::{Core, Inode, join, split},
    layout::{flag, header, inode},
    transaction::Transaction,
};
use culvert::Result;

/// Files of more blocks are given back in several transactions.
const LARGE: u64 = 1024;

impl<'a> Transaction<'a> {
    /// What becomes of an inode that has just lost its last name.
    pub fn abandon(&mut self, gone: &Inode<'a>) -> Result<()> {
        if gone.has(flag::FREE | flag::ORPHAN) {
            return Ok(());
        }
        if self.is_used(gone)? {
            return self.enlist(gone);
        }
        let blocks = match gone.is_directory() {
            true => gone.get(inode::BLOCKS) + (gone.get(inode::RUNS) & 0xffff_ffff),
            false => gone.get(inode::BLOCKS),
        };
        if blocks > LARGE {
            self.enlist(gone)?;
            self.later = gone.number;
            return Ok(());
        }
        self.release(gone)
    }

    /// Whether a process has the inode open or mapped, or a run has shared it.
    pub fn is_used(&mut self, of: &Inode<'_>) -> Result<bool> {
        // Of a directory the kernel keeps nothing that a process does not list.
        Ok(self.core.is_listed(of.number)?
            || !of.is_directory() && self.is_shared(of)?
            || of.is_external() && self.core.is_mapped(of))
    }

    /// Whether a run still uses the inode; runs that do not any more are struck off.
    fn is_shared(&mut self, of: &Inode<'_>) -> Result<bool> {
        let runs = of.get(inode::RUNS);
        if runs == 0 {
            return Ok(false);
        }
        let mut left = runs;
        for run in 0..64 {
            if runs & 1 << run != 0 && !self.core.run_uses(run, of)? {
                left &= !(1 << run);
            }
        }
        if left != runs {
            self.set_word(of, inode::RUNS, left)?;
        }
        Ok(left != 0)
    }

    /// Puts an inode on the list of orphans.
    pub fn enlist(&mut self, gone: &Inode<'_>) -> Result<()> {
        let (first, count) = split(self.header(header::ORPHANS)?);
        if first != 0 {
            let next = self.core.inode(first)?;
            let (after, _) = split(next.get(inode::LIST));
            self.set_word(&next, inode::LIST, join(after, gone.number))?;
        }
        self.set_word(gone, inode::LIST, join(first, 0))?;
        self.set_header(header::ORPHANS, join(gone.number, count + 1))?;
        self.set_state(gone, flag::ORPHAN, 0)
    }

    /// Takes an inode off the list of orphans.
    pub fn leave_orphans(&mut self, back: &Inode<'_>) -> Result<()> {
        let (next, previous) = split(back.get(inode::LIST));
        if next != 0 {
            let next = self.core.inode(next)?;
            let (after, _) = split(next.get(inode::LIST));
            self.set_word(&next, inode::LIST, join(after, previous))?;
        }
        let (first, count) = split(self.header(header::ORPHANS)?);
        let first = match previous {
            0 => next,
            previous => {
                let previous = self.core.inode(previous)?;
                let (_, before) = split(previous.get(inode::LIST));
                self.set_word(&previous, inode::LIST, join(next, before))?;
                first
            }
        };
        let left = join(first, count.saturating_sub(1));
        self.set_header(header::ORPHANS, left)?;
        self.set_word(back, inode::LIST, 0)?;
        self.set_state(back, 0, flag::ORPHAN)
    }

    /// Gives an inode back with all it has. May make what was done so far final when that is much.
    pub fn release(&mut self, gone: &Inode<'_>) -> Result<()> {
        match gone.mode() & 0o170000 {
            0o040000 => self.empty(gone)?,
            0o100000 | 0o120000 => {
                self.unmap_content(gone, 0, u64::MAX)?;
                self.free_reserve(gone)?;
                if gone.is_external() {
                    self.release_external(gone)?;
                }
            }
            _ => {}
        }
        self.free_xattrs(gone)?;
        if gone.has(flag::ORPHAN) {
            self.leave_orphans(gone)?;
        }
        if !gone.is_directory() && gone.get(inode::RUNS) != 0 {
            self.set_word(gone, inode::RUNS, 0)?;
        }
        self.free_inode(gone)
    }

    /// Gives the reserve of a file back.
    pub fn free_reserve(&mut self, of: &Inode<'_>) -> Result<()> {
        let reserve = Run::of(of.get(inode::RESERVE));
        if reserve.count > 0 {
            self.free(reserve)?;
            self.add(of.at(inode::BLOCKS), -(reserve.count as i64))?;
        }
        if reserve.start != 0 {
            self.set_word(of, inode::RESERVE, 0)?;
        }
        Ok(())
    }
}

impl Core {
    /// Gives inode `number` back when it is an orphan that nobody uses.
    pub fn release_unused(&self, number: u32) -> Result<()> {
        let gone = self.inode(number)?;
        if gone.links() != 0 || !gone.has(flag::ORPHAN) {
            return Ok(());
        }
        self.transact(|change| {
            let unused = gone.links() == 0 && gone.has(flag::ORPHAN) && !change.is_used(&gone)?;
            if unused {
                change.release(&gone)
            } else {
                Ok(())
            }
        })
    }

    /// Gives back all that nobody uses any more: what dead processes had open, and what only they
    /// kept.
    pub fn reclaim(&self) -> Result<()> {
        self.bury_dead()?;
        let (mut number, count) = split(self.header(header::ORPHANS)?);
        for _ in 0..count {
            if number == 0 {
                break;
            }
            let next = split(self.inode(number)?.get(inode::LIST)).0;
            self.release_unused(number)?;
            number = next;
        }
        Ok(())
    }
}

//! Which inodes a process has open: counted here, listed in shared memory for those who remove
//! names.
//!
//! Who opens lists the inode, and then looks whether it still has a name; who takes the last name
//! away does so, and then looks at the lists. One of them sees the other.

use super::{
    blocks::Run,
    core::{Core, Inode},
    host,
    image::damaged,
    layout::{BLOCK, Slot, flag, header, inode, slot},
    open_inodes::{OpenInode, OpenInodes},
};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering::*, fence};
use culvert::{Errno, Node, Result};

/// Entries of a block of the list: its first word is the next block.
const ENTRIES: u32 = (BLOCK as u32 - 8) / 4;

/// In an entry of a list: open for writing, too. Inodes have 24 bits.
const WRITES: u32 = 1 << 31;

impl Core {
    /// Opens the inode of `node`: it stays what it is until [`Core::close`]. `ESTALE` when it is
    /// gone.
    pub fn open(&self, node: Node, writes: bool) -> Result<Inode<'_>> {
        let found = self.node(node)?;
        self.attached()?;
        let mut opened = self.opened.lock();
        if !opened.files.contains_key(&found.number) {
            let place = self.list(&mut opened, found.number)?;
            let entry = OpenInode {
                place,
                ..OpenInode::default()
            };
            opened.files.insert(found.number, entry);
        }
        let opened_now = &mut *opened;
        if let Some(entry) = opened_now.files.get_mut(&found.number) {
            entry.count += 1;
            if writes {
                entry.writers += 1;
                self.say_writes(&opened_now.blocks, found.number, entry);
            }
        }
        drop(opened);
        fence(SeqCst);
        let there = |found: &Inode<'_>| found.node() == node && !found.has(flag::FREE);
        let mut stays = there(&found);
        if stays && found.links() == 0 {
            // Somebody may be about to give it back without having seen the list.
            stays = self.lock().map(|_lock| there(&found))?;
        }
        if stays {
            return Ok(found);
        }
        self.close(found.number, writes);
        Err(Errno::ESTALE.into())
    }

    /// Closes an inode once, that was opened so.
    pub fn close(&self, number: u32, writes: bool) {
        let attached = self.attached().is_ok();
        let mut opened = self.opened.lock();
        let opened_now = &mut *opened;
        let Some(entry) = opened_now.files.get_mut(&number) else {
            return;
        };
        entry.count -= 1;
        if writes {
            entry.writers = entry.writers.saturating_sub(1);
        }
        if entry.count > 0 {
            if writes && entry.writers == 0 && attached {
                self.say_writes(&opened_now.blocks, number, entry);
            }
            return;
        }
        let place = entry.place;
        if !attached {
            // The child of a fork without a slot: the list is its parent's.
            opened.files.remove(&number);
            return;
        }
        if let Ok(found) = self.inode(number)
            && found.get(inode::RESERVE) >> 32 > 0
            && found.mode() & 0o170000 == 0o100000
        {
            let _ = self.give_reserve_back(&found);
        }
        opened.files.remove(&number);
        self.strike(&mut opened, place);
        drop(opened);
        fence(SeqCst);
        // What cannot be given back now is when the file system is opened the next time.
        let _ = self.release_unused(number);
    }

    /// Place `place` of the list in `blocks`.
    fn listed(&self, blocks: &[u64], place: u32) -> Result<&AtomicU32> {
        let block = *blocks.get((place / ENTRIES) as usize).ok_or(Errno::EIO)?;
        self.image.entry(block, u64::from(2 + place % ENTRIES))
    }

    /// Lets the list say whether inode `number` is open for writing.
    fn say_writes(&self, blocks: &[u64], number: u32, entry: &OpenInode) {
        let mark = if entry.writers > 0 { WRITES } else { 0 };
        if let Ok(listed) = self.listed(blocks, entry.place) {
            listed.store(number | mark, Release);
        }
    }

    fn list(&self, opened: &mut OpenInodes, number: u32) -> Result<u32> {
        self.attached()?;
        let place = match opened.free.pop() {
            Some(place) => place,
            None => {
                if opened.end / ENTRIES >= opened.blocks.len() as u32 {
                    self.lengthen(opened)?;
                }
                opened.end += 1;
                let words = &self.my_slot()?.words;
                words[slot::OPENED_END as usize].store(u64::from(opened.end), Release);
                opened.end - 1
            }
        };
        let listed = self.listed(&opened.blocks, place)?;
        listed.store(number, Release);
        Ok(place)
    }

    fn lengthen(&self, opened: &mut OpenInodes) -> Result<()> {
        let mut change = self.change()?;
        change.beyond = true;
        let block = change.allocate_zeroed()?;
        match opened.blocks.last() {
            Some(last) => change.set(last * BLOCK, block)?,
            None => {
                let at = self.slot_offset(self.slot.load(Relaxed) - 1)?;
                change.set(at.ok_or(Errno::EIO)? + slot::OPENED * 8, block)?;
            }
        }
        change.commit();
        opened.blocks.push(block);
        Ok(())
    }

    fn strike(&self, opened: &mut OpenInodes, place: u32) {
        if let Ok(entry) = self.listed(&opened.blocks, place) {
            entry.store(0, Release);
            opened.free.push(place);
        }
    }

    /// Lists all again, in a new slot: this process is the child of a fork.
    pub fn list_again(&self) -> Result<()> {
        let mut opened = self.opened.lock();
        opened.free.clear();
        opened.blocks.clear();
        opened.end = 0;
        let numbers: Vec<u32> = opened.files.keys().copied().collect();
        for number in numbers {
            let place = self.list(&mut opened, number)?;
            let opened = &mut *opened;
            if let Some(entry) = opened.files.get_mut(&number) {
                entry.place = place;
                self.say_writes(&opened.blocks, number, entry);
            }
        }
        Ok(())
    }

    /// Whether `slot` lists inode `number`; `how`: an entry that will do.
    pub fn lists(&self, slot: &Slot, number: u32, how: impl Fn(u32) -> bool) -> Result<bool> {
        let mut block = slot.words[slot::OPENED as usize].load(Acquire);
        let mut left = slot.words[slot::OPENED_END as usize].load(Acquire);
        let most = self.header(header::GROWN)?.saturating_mul(ENTRIES.into());
        if left > most {
            return Err(damaged("a list of open files that is too long"));
        }
        while block != 0 && left > 0 {
            let count = left.min(ENTRIES.into());
            for entry in self.image.halves(block * BLOCK + 8, count)? {
                let entry = entry.load(Acquire);
                if entry & !WRITES == number && how(entry) {
                    return Ok(true);
                }
            }
            left -= count;
            block = self.image.word(block * BLOCK)?.load(Acquire);
        }
        Ok(false)
    }

    /// Whether a process has inode `number` open for writing, as far as it has not shared the
    /// description.
    pub fn is_written(&self, number: u32) -> Result<bool> {
        fence(SeqCst);
        let me = self.attached()?;
        for slot in 0..self.slots()? {
            if let Some(said) = self.slot(slot)?
                && self.lists(said, number, |entry| entry & WRITES != 0)?
                && (slot + 1 == me || host::is_proved(self.image.fd(), slot.into()))
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Gives back the list of a slot whose process is dead, with the lock held.
    pub fn free_list(
        &self,
        change: &mut super::transaction::Transaction<'_>,
        at: u64,
    ) -> Result<()> {
        let mut block = change.get(at + slot::OPENED * 8)?;
        let most = change.get(at + slot::OPENED_END * 8)? / u64::from(ENTRIES) + 2;
        let most = most.min(self.header(header::GROWN)?);
        for _ in 0..most {
            if block == 0 {
                change.set(at + slot::OPENED * 8, 0)?;
                return change.set(at + slot::OPENED_END * 8, 0);
            }
            let next = change.get(block * BLOCK)?;
            change.free(Run::one(block))?;
            block = next;
        }
        Err(damaged("a list of open files without an end"))
    }
}

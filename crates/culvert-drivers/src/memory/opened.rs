//! Which inodes a process has open: counted here, listed in shared memory for those who remove names.
//!
//! Who opens lists the inode, and then looks whether it still has a name; who takes the last name away does so, and then looks at the lists. One of them sees
//! the other.

use super::{
    blocks::Run,
    core::{Core, Inode},
    image::damaged,
    layout::{BLOCK, flag, header, inode, slot},
};
use alloc::{collections::BTreeMap, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::*, fence};
use culvert::{Errno, Node, Result};

/// Entries of a block of the list: its first word is the next block.
const ENTRIES: u32 = (BLOCK as u32 - 8) / 4;

/// What this process has open.
#[derive(Default)]
pub struct Opened {
    /// By inode: its place in the list, and how often it is open.
    files: BTreeMap<u32, (u32, u32)>,
    free: Vec<u32>,
    end: u32,
    blocks: Vec<u64>,
}

impl Core {
    /// Opens the inode of `node`: it stays what it is until [`Core::close`]. `ESTALE` when it is gone.
    pub fn open(&self, node: Node) -> Result<Inode<'_>> {
        let found = self.node(node)?;
        self.attached()?;
        let mut opened = self.opened.lock();
        match opened.files.get_mut(&found.number) {
            Some((_, count)) => *count += 1,
            None => {
                let place = self.list(&mut opened, found.number)?;
                opened.files.insert(found.number, (place, 1));
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
        self.close(found.number);
        Err(Errno::ESTALE.into())
    }

    /// Closes an inode once.
    pub fn close(&self, number: u32) {
        let attached = self.attached().is_ok();
        let mut opened = self.opened.lock();
        let Some((place, count)) = opened.files.get_mut(&number) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        let place = *place;
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

    fn list(&self, opened: &mut Opened, number: u32) -> Result<u32> {
        self.attached()?;
        let place = match opened.free.pop() {
            Some(place) => place,
            None => {
                if opened.end / ENTRIES >= opened.blocks.len() as u32 {
                    self.lengthen(opened)?;
                }
                opened.end += 1;
                let words = self.my_slot()?;
                words[slot::OPENED_END as usize].store(u64::from(opened.end), Release);
                opened.end - 1
            }
        };
        let block = opened.blocks.get((place / ENTRIES) as usize);
        let at = block.ok_or(Errno::EIO)? * BLOCK + 8 + u64::from(place % ENTRIES) * 4;
        self.image.half(at)?.store(number, Release);
        Ok(place)
    }

    fn lengthen(&self, opened: &mut Opened) -> Result<()> {
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

    fn strike(&self, opened: &mut Opened, place: u32) {
        if let Some(block) = opened.blocks.get((place / ENTRIES) as usize) {
            let at = block * BLOCK + 8 + u64::from(place % ENTRIES) * 4;
            if let Ok(entry) = self.image.half(at) {
                entry.store(0, Release);
                opened.free.push(place);
            }
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
            if let Some(file) = opened.files.get_mut(&number) {
                file.0 = place;
            }
        }
        Ok(())
    }

    /// Whether the slot `words` lists inode `number`.
    pub fn lists(&self, words: &[AtomicU64], number: u32) -> Result<bool> {
        let mut block = words[slot::OPENED as usize].load(Acquire);
        let mut left = words[slot::OPENED_END as usize].load(Acquire);
        let most = self.header(header::GROWN)?.saturating_mul(ENTRIES.into());
        if left > most {
            return Err(damaged("a list of open files that is too long"));
        }
        while block != 0 && left > 0 {
            let count = left.min(ENTRIES.into());
            for entry in self.image.words(block * BLOCK + 8, count.div_ceil(2))? {
                let word = entry.load(Acquire);
                if word as u32 == number || (word >> 32) as u32 == number {
                    return Ok(true);
                }
            }
            left -= count;
            block = self.image.word(block * BLOCK)?.load(Acquire);
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
            change.free(Run {
                start: block,
                count: 1,
            })?;
            block = next;
        }
        Err(damaged("a list of open files without an end"))
    }
}

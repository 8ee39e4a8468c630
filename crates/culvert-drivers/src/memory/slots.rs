//! Processes: each has a slot in the shared file while it lives.
//!
//! Proof of life is an OFD lock on one byte, held by a description of the slot's process alone
//! ([`Proof`]): the kernel drops it when the process ends or execs, and any process can ask. A slot
//! whose proof is free belongs to nobody, whatever is written in it.

use super::{
    core::{Core, low_half},
    host,
    layout::{self, BLOCK, header, slot},
};
use crate::Proof;
use core::sync::atomic::{AtomicU64, Ordering::*, fence};
use culvert::{Errno, Error, Result};

impl Core {
    /// This process's mark in lock words: its slot and 1.
    #[inline]
    pub fn attached(&self) -> Result<u32> {
        match self.slot.load(Relaxed) {
            0 => self.attach(),
            slot => Ok(slot),
        }
    }

    /// Takes a slot, and lists in it what is open. Not with [`Core::opened`] locked.
    #[cold]
    pub fn attach(&self) -> Result<u32> {
        let (own, vacant) = (self.description()?, self.description()?);
        let free = (0..layout::MOST_SLOTS).find(|&slot| host::prove(own.raw(), slot).is_ok());
        let Some(number) = free else {
            return Err(Error::because(
                Errno::ENFILE,
                "too many processes use this memory file system",
            ));
        };
        *self.proof.lock() = Some(Proof::of(&own)?);
        *self.vacant.lock() = Some(self.keeper.keep(vacant));
        drop(own);
        let me = number as u32 + 1;
        // What this slot's number still holds, a dead process left.
        for (index, metadata) in [(header::LOCK, true), (header::REPAIR, false)] {
            let word = low_half(self.image.header(index)?);
            if word.load(Acquire) & !(1 << 31) == me {
                if metadata {
                    self.undo()?;
                }
                word.store(0, Release);
                host::wake(word);
            }
        }
        self.slot.store(me, Release);
        if let Err(error) = self.prepare_slot(number) {
            self.slot.store(0, Release);
            drop(self.proof.lock().take());
            return Err(error);
        }
        self.list_again()?;
        Ok(me)
    }

    fn prepare_slot(&self, number: u64) -> Result<()> {
        self.bury(number)?;
        let mut change = self.change()?;
        let chunk = number / layout::SLOTS_PER_BLOCK;
        let place = header::SLOT_CHUNKS * 8 + chunk * 4;
        if change.get_half(place)? == 0 {
            change.beyond = true;
            let block = change.allocate_zeroed()?;
            change.set_half(place, block as u32)?;
        }
        if change.header(header::SLOTS)? <= number {
            change.set_header(header::SLOTS, number + 1)?;
        }
        change.commit();
        let at = self.slot_offset(number as u32)?.ok_or(Errno::EIO)?;
        let words = self.image.words(at, slot::SIZE / 8)?;
        self.slot_at.store(words.as_ptr() as usize, Release);
        Ok(())
    }

    /// Words of this process's slot.
    #[inline]
    pub fn my_slot(&self) -> Result<&[AtomicU64]> {
        self.attached()?;
        let at = self.slot_at.load(Acquire);
        if at == 0 {
            return Err(Errno::EIO.into());
        }
        // SAFETY: the words of `prepare_slot`, mapped for as long as `self` lives.
        Ok(unsafe { core::slice::from_raw_parts(at as *const AtomicU64, slot::SIZE as usize / 8) })
    }

    /// Where slot `number` lies, if it was ever used.
    pub fn slot_offset(&self, number: u32) -> Result<Option<u64>> {
        let chunk = u64::from(number) / layout::SLOTS_PER_BLOCK;
        let block = self.image.half(header::SLOT_CHUNKS * 8 + chunk * 4)?;
        let block = u64::from(block.load(Acquire));
        let within = u64::from(number) % layout::SLOTS_PER_BLOCK * slot::SIZE;
        Ok((block != 0).then_some(block * BLOCK + within))
    }

    /// How many slots were ever used.
    pub fn slots(&self) -> Result<u32> {
        Ok(self.header(header::SLOTS)?.min(layout::MOST_SLOTS) as u32)
    }

    /// Words of slot `number`.
    pub fn slot(&self, number: u32) -> Result<Option<&[AtomicU64]>> {
        let Some(at) = self.slot_offset(number)? else {
            return Ok(None);
        };
        Ok(Some(self.image.words(at, slot::SIZE / 8)?))
    }

    /// Whether any slot lists inode `number` as open.
    pub fn is_listed(&self, number: u32) -> Result<bool> {
        // The loss of the last name is to be seen before the lists are looked at: who opens does
        // the opposite (see `opened`).
        fence(SeqCst);
        for slot in 0..self.slots()? {
            if let Some(words) = self.slot(slot)?
                && self.lists(words, number, |_| true)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Clears what a dead process left in slot `number`, whose proof is free or ours.
    fn bury(&self, number: u64) -> Result<()> {
        let Some(at) = self.slot_offset(number as u32)? else {
            return Ok(());
        };
        for cell in 0..slot::CELLS {
            let held = self.image.half(at + slot::CELLS_AT * 8 + cell * 4)?;
            let inode = held.load(Acquire);
            if inode != 0 {
                self.repair(inode, Some(number as u32))?;
            }
        }
        let mut change = self.change()?;
        // Somebody else may have taken the slot meanwhile, who would have cleared it.
        let mine = self.slot.load(Relaxed) == number as u32 + 1;
        if mine || !host::is_proved(self.image.fd(), number) {
            for cell in 0..slot::CELLS {
                let held = self.image.half(at + slot::CELLS_AT * 8 + cell * 4)?;
                held.store(0, Release);
            }
            self.free_list(&mut change, at)?;
        }
        change.commit();
        Ok(())
    }

    /// Clears the slots of all dead processes.
    pub fn bury_dead(&self) -> Result<()> {
        let me = self.attached()?;
        for number in 0..self.slots()? {
            let Some(at) = self.slot_offset(number)? else {
                continue;
            };
            // Cells are half words: others change one while this looks at the next.
            let cell = |cell| self.image.half(at + slot::CELLS_AT * 8 + cell * 4);
            let mut words = self.image.words(at, slot::CELLS_AT)?.iter();
            let mut used = words.any(|word| word.load(Acquire) != 0);
            for index in 0..slot::CELLS {
                used = used || cell(index)?.load(Acquire) != 0;
            }
            if used && number + 1 != me && !host::is_proved(self.image.fd(), u64::from(number)) {
                self.bury(number.into())?;
            }
        }
        Ok(())
    }

    /// This process is the child of a fork: the slot is its parent's, and so is the proof. Where it
    /// gets none of its own now, its next operation tries again, or fails.
    pub fn forked(&self) -> Result<()> {
        self.slot.store(0, Release);
        self.slot_at.store(0, Release);
        if let Some(proof) = self.proof.lock().take() {
            proof.is_the_parents();
        }
        drop(self.vacant.lock().take());
        self.attach().map(drop)
    }

    /// A new description of the shared file, for the lock of a slot.
    fn description(&self) -> Result<crate::OwnedFd> {
        host::reopen(self.image.fd())
            .map_err(|errno| Error::because(errno, "the shared file could not be opened anew"))
    }
}

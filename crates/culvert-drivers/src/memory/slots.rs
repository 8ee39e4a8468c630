//! Processes: each has a slot in the shared file while it lives.
//!
//! Proof of life is an OFD lock on one byte, held by a description of the slot's process alone
//! ([`Proof`]): the kernel drops it when the process ends or execs, and any process can ask. A slot
//! whose proof is free belongs to nobody, whatever is written in it.

use super::{
    core::Core,
    host,
    layout::{self, BLOCK, Slot, header, slot},
};
use crate::Proof;
use core::sync::atomic::{Ordering::*, fence};
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
        let free = (0..layout::MOST_SLOTS).find(|&slot| host::prove(&own, slot).is_ok());
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
            let word = self.image.lock(index)?;
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
        let slot = core::ptr::from_ref(self.image.at::<Slot>(at)?);
        self.slot_at.store(slot.cast_mut(), Release);
        Ok(())
    }

    /// This process's slot.
    #[inline]
    pub fn my_slot(&self) -> Result<&Slot> {
        self.attached()?;
        // SAFETY: null, or that of `prepare_slot`, mapped for as long as `self` lives.
        let slot = unsafe { self.slot_at.load(Acquire).as_ref() };
        Ok(slot.ok_or(Errno::EIO)?)
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

    /// Slot `number`, if it was ever used.
    pub fn slot(&self, number: u32) -> Result<Option<&Slot>> {
        let at = self.slot_offset(number)?;
        at.map(|at| self.image.at(at)).transpose()
    }

    /// Whether any slot lists inode `number` as open.
    pub fn is_listed(&self, number: u32) -> Result<bool> {
        // The loss of the last name is to be seen before the lists are looked at: who opens does
        // the opposite (see `opened`).
        fence(SeqCst);
        for slot in 0..self.slots()? {
            if let Some(slot) = self.slot(slot)?
                && self.lists(slot, number, |_| true)?
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
        let slot: &Slot = self.image.at(at)?;
        for cell in &slot.cells {
            let inode = cell.load(Acquire);
            if inode != 0 {
                self.repair(inode, Some(number as u32))?;
            }
        }
        let mut change = self.change()?;
        // Somebody else may have taken the slot meanwhile, who would have cleared it.
        let mine = self.slot.load(Relaxed) == number as u32 + 1;
        if mine || !host::is_proved(self.image.fd(), number) {
            for cell in &slot.cells {
                cell.store(0, Release);
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
            let Some(slot) = self.slot(number)? else {
                continue;
            };
            let used = slot.words.iter().any(|word| word.load(Acquire) != 0)
                || slot.cells.iter().any(|cell| cell.load(Acquire) != 0);
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
        self.slot_at.store(core::ptr::null_mut(), Release);
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

//! Directories: records in blocks, found through buckets.
//!
//! Records lie one behind the other in the blocks of a block map and never move while they live, so
//! that the offset of a record, in units of 8 bytes, is a position for listings. A record is a word
//! (inode, type, length of the name, length of the record) and the name; one of inode 0 is free.
//!
//! Buckets are blocks of 512 words (tag, offset and 1), filled to a quarter on average and split
//! one at a time as the directory grows (linear hashing). The low bits of the tag say where in the
//! bucket the search begins, the rest which bucket it is.

mod listing;
mod record;
mod tag;

use super::{
    blocks::Run,
    core::{Core, Inode, join, split},
    image::damaged,
    layout::{BLOCK, header, inode},
    map::block_of,
    transaction::Transaction,
};
use core::sync::atomic::Ordering::*;
use culvert::{Errno, FileKind, Result};
pub use record::{Record, records};
use tag::tag;

/// How many names a directory holds.
pub fn entries(dir: &Inode<'_>) -> u32 {
    dir.get(inode::RESERVE) as u32
}

/// Words of a bucket.
const SLOTS: u64 = BLOCK / 8;
/// Words of a bucket that are used on average before another is added: those that were not split
/// yet hold twice as many.
const FILL: u64 = SLOTS / 4;
/// 8-byte units of a block of records.
const UNITS: u64 = BLOCK / 8;
/// Blocks of records that are searched for room though most of the space is in use.
const FEW: u64 = 2;
/// A directory of at most this many blocks gives all of them back when it becomes empty.
const SMALL: u32 = 64;

/// A name that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Its inode.
    pub inode: u32,
    /// Offset of its record in the directory, in units of 8 bytes.
    pub position: u64,
    /// Where the record lies in the image.
    pub place: u64,
    /// Where the word of its bucket lies.
    slot: u64,
}

/// The bucket that `tag` belongs to among `buckets`.
#[inline]
const fn bucket_of(tag: u32, buckets: u64) -> u64 {
    let hash = (tag >> 9) as u64;
    let all = buckets.next_power_of_two();
    let bucket = hash & (all - 1);
    if bucket < buckets {
        bucket
    } else {
        hash & (all / 2 - 1)
    }
}

const fn home(tag: u32) -> u64 {
    tag as u64 % SLOTS
}

impl Core {
    /// Finds `name`.
    #[inline]
    pub fn find(&self, dir: &Inode<'_>, name: &[u8]) -> Result<Option<Found>> {
        let buckets = dir.get(inode::BLOCKS);
        if buckets == 0 {
            return Ok(None);
        }
        let tag = tag(self.header(header::SEED)?, name);
        let pointer = self.pointer(dir.get(inode::INTENT), bucket_of(tag, buckets))?;
        if pointer == 0 {
            return Ok(None);
        }
        let bucket = block_of(pointer) * BLOCK;
        let words = self.image.words(bucket, SLOTS)?;
        let records = dir.get(inode::ROOT);
        let mut at = home(tag);
        for _ in 0..SLOTS {
            let word = words[at as usize].load(Acquire);
            if word == 0 {
                return Ok(None);
            }
            if word as u32 == tag {
                let position = (word >> 32).wrapping_sub(1);
                let slot = bucket + at * 8;
                if let Some(found) = self.compare(records, position, name, slot)? {
                    return Ok(Some(found));
                }
            }
            at = (at + 1) % SLOTS;
        }
        Ok(None)
    }

    #[inline]
    fn compare(&self, root: u64, position: u64, name: &[u8], slot: u64) -> Result<Option<Found>> {
        let pointer = self.pointer(root, position / UNITS)?;
        if pointer == 0 {
            return Ok(None);
        }
        let within = position % UNITS * 8;
        let place = block_of(pointer) * BLOCK + within;
        let words = self.image.words(place, BLOCK / 8)?;
        let Some(record) = Record::of(words[0].load(Acquire), within) else {
            return Ok(None);
        };
        if record.inode == 0 || usize::from(record.name) != name.len() {
            return Ok(None);
        }
        let mut chunks = name.chunks_exact(8);
        let mut at = 1;
        for chunk in &mut chunks {
            let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
            if words[at].load(Relaxed) != word {
                return Ok(None);
            }
            at += 1;
        }
        let rest = chunks.remainder();
        if !rest.is_empty() && words[at].load(Relaxed).to_le_bytes()[..rest.len()] != *rest {
            return Ok(None);
        }
        Ok(Some(Found {
            inode: record.inode,
            position,
            place,
            slot,
        }))
    }

    /// How many blocks of records a directory has.
    pub fn directory_blocks(&self, dir: &Inode<'_>) -> Result<u64> {
        let said = dir.get(inode::RUNS) & 0xffff_ffff;
        Ok(said.min(self.header(header::GROWN)?))
    }

    /// The name of inode `wanted` in a directory, by looking at all.
    pub fn name_of(&self, dir: &Inode<'_>, wanted: u32) -> Result<Option<alloc::vec::Vec<u8>>> {
        let mut buffer = self.room();
        for index in 0..self.directory_blocks(dir)? {
            let pointer = self.pointer(dir.get(inode::ROOT), index)?;
            if pointer == 0 {
                continue;
            }
            let block = self.image.bytes(block_of(pointer))?;
            block.shared().copy_to(&mut buffer);
            for (record, name) in records(&buffer) {
                if record.inode == wanted {
                    return Ok(Some(name.to_vec()));
                }
            }
        }
        Ok(None)
    }
}

impl Transaction<'_> {
    /// Gives inode `number` of type `kind` the name `name` in `dir`, which has none such. `ENOSPC`
    /// when there is no room.
    pub fn add_name(&mut self, dir: &Inode<'_>, name: &[u8], number: u32, kind: u32) -> Result<()> {
        let need = (8 + name.len() as u64).next_multiple_of(8);
        let position = self.room_for(dir, need)?;
        let pointer = self.core.pointer(dir.get(inode::ROOT), position / UNITS)?;
        let place = block_of(pointer) * BLOCK + position % UNITS * 8;
        let room = self.record(place)?;
        // What the file says may be damaged: nothing is written beyond the record.
        let rest = u64::from(room.length).checked_sub(need);
        let rest = rest.ok_or_else(|| damaged("a record"))?;
        // What lies behind the first word of a free record is nobody's until that word changes.
        let words = self.core.image.words(place + 8, need / 8 - 1)?;
        for (word, chunk) in words.iter().zip(name.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
        if rest >= 8 {
            let behind = self.core.image.word(place + need)?;
            behind.store(Record::free(rest as u16).word(), Release);
        }
        let record = Record {
            inode: number,
            kind: (kind >> 12) as u8 & 0xf,
            name: name.len() as u8,
            length: need as u16,
        };
        self.set(place, record.word())?;
        let (entries, used) = split(dir.get(inode::RESERVE));
        let counts = join(entries + 1, used + (need / 8) as u32);
        self.set_word(dir, inode::RESERVE, counts)?;
        let hint = if rest >= 8 {
            position + need / 8
        } else {
            position
        };
        let (blocks, old) = split(dir.get(inode::RUNS));
        if u64::from(old) != hint {
            self.set_word(dir, inode::RUNS, join(blocks, hint as u32))?;
        }
        let tag = tag(self.core.header(header::SEED)?, name);
        self.file(dir, tag, position)?;
        if u64::from(entries) + 1 > dir.get(inode::BLOCKS) * FILL {
            self.split_bucket(dir)?;
        }
        Ok(())
    }

    /// The record at `place`.
    fn record(&self, place: u64) -> Result<Record> {
        Record::of(self.get(place)?, place % BLOCK).ok_or_else(|| damaged("a record"))
    }

    /// Position of a free record of at least `need` bytes.
    fn room_for(&mut self, dir: &Inode<'_>, need: u64) -> Result<u64> {
        let hint = dir.get(inode::RUNS) >> 32;
        let blocks = self.core.directory_blocks(dir)?;
        if blocks > 0 {
            if let Some(position) = self.search(dir, hint, true, need)? {
                return Ok(position);
            }
            let used = dir.get(inode::RESERVE) >> 32;
            let searched = match used * 2 < blocks * UNITS {
                true => blocks,
                false => blocks.min(FEW),
            };
            let first = hint / UNITS;
            for step in 0..searched {
                let index = (first + step) % blocks;
                if let Some(position) = self.search(dir, index * UNITS, false, need)? {
                    return Ok(position);
                }
            }
        }
        if blocks >= u64::from(u32::MAX) / UNITS {
            return Err(Errno::ENOSPC.into());
        }
        let block = self.allocate(1)?.start;
        let first = self.core.image.word(block * BLOCK)?;
        first.store(Record::free(BLOCK as u16).word(), Release);
        self.map(dir.at(inode::ROOT), blocks, block as u32)?;
        self.set_word(dir, inode::RUNS, join(blocks as u32 + 1, hint as u32))?;
        Ok(blocks * UNITS)
    }

    /// A free record of `need` bytes from the record at `from` on: only that one with `only`, else
    /// all to the end of the block. Free ones that follow each other are made one.
    fn search(&mut self, dir: &Inode<'_>, from: u64, only: bool, need: u64) -> Result<Option<u64>> {
        let pointer = self.core.pointer(dir.get(inode::ROOT), from / UNITS)?;
        if pointer == 0 {
            return Ok(None);
        }
        let block = block_of(pointer) * BLOCK;
        let mut within = from % UNITS * 8;
        while within < BLOCK {
            let record = self.record(block + within)?;
            let mut length = u64::from(record.length);
            if record.inode == 0 {
                while within + length < BLOCK {
                    let next = self.record(block + within + length)?;
                    if next.inode != 0 {
                        break;
                    }
                    length += u64::from(next.length);
                }
                if length >= need {
                    if length != u64::from(record.length) {
                        let all = Record {
                            length: length as u16,
                            ..record
                        };
                        self.set(block + within, all.word())?;
                    }
                    return Ok(Some(from / UNITS * UNITS + within / 8));
                }
            }
            if only {
                return Ok(None);
            }
            within += length;
        }
        Ok(None)
    }

    /// Files `position` under `tag`.
    fn file(&mut self, dir: &Inode<'_>, tag: u32, position: u64) -> Result<()> {
        if dir.get(inode::BLOCKS) == 0 {
            let block = self.allocate_zeroed()?;
            self.map(dir.at(inode::INTENT), 0, block as u32)?;
            self.set_word(dir, inode::BLOCKS, 1)?;
        }
        let bucket = bucket_of(tag, dir.get(inode::BLOCKS));
        let pointer = self.core.pointer(dir.get(inode::INTENT), bucket)?;
        let words = self.core.image.words(block_of(pointer) * BLOCK, SLOTS)?;
        let at = free_slot(|at| words[at as usize].load(Relaxed), tag).ok_or(Errno::ENOSPC)?;
        self.set(
            block_of(pointer) * BLOCK + at * 8,
            join(tag, position as u32 + 1),
        )
    }

    /// Adds a bucket: what belongs to it comes from one other, and both are written anew.
    fn split_bucket(&mut self, dir: &Inode<'_>) -> Result<()> {
        let buckets = dir.get(inode::BLOCKS);
        // The new bucket's own number, as a hash, leads to the one it is split from.
        let old = bucket_of((buckets as u32) << 9, buckets);
        let pointer = self.core.pointer(dir.get(inode::INTENT), old)?;
        let from = block_of(pointer);
        let (low, high) = (self.allocate_zeroed()?, self.allocate_zeroed()?);
        let image = &self.core.image;
        let (low_words, high_words) = (
            image.words(low * BLOCK, SLOTS)?,
            image.words(high * BLOCK, SLOTS)?,
        );
        for word in image.words(from * BLOCK, SLOTS)? {
            let word = word.load(Relaxed);
            if word == 0 {
                continue;
            }
            let tag = word as u32;
            let to = match bucket_of(tag, buckets + 1) == buckets {
                true => high_words,
                false => low_words,
            };
            let at = free_slot(|at| to[at as usize].load(Relaxed), tag).ok_or(Errno::ENOSPC)?;
            to[at as usize].store(word, Release);
        }
        let root = dir.at(inode::INTENT);
        self.map(root, old, low as u32)?;
        self.map(root, buckets, high as u32)?;
        self.free(Run::one(from))?;
        self.set_word(dir, inode::BLOCKS, buckets + 1)
    }

    /// Takes a name that was found away.
    pub fn remove_name(&mut self, dir: &Inode<'_>, found: &Found) -> Result<()> {
        let record = self.record(found.place)?;
        let (entries, used) = split(dir.get(inode::RESERVE));
        let units = u32::from(record.length) / 8;
        let left = join(entries.saturating_sub(1), used.saturating_sub(units));
        self.set_word(dir, inode::RESERVE, left)?;
        let (blocks, _) = split(dir.get(inode::RUNS));
        if entries <= 1 && blocks <= SMALL {
            return self.empty(dir);
        }
        self.set(found.place, Record::free(record.length).word())?;
        self.set_word(dir, inode::RUNS, join(blocks, found.position as u32))?;
        self.unfile(found.slot)
    }

    /// Empties the word of a bucket, and moves those that follow it up (deletion without marks,
    /// Knuth 6.4 R).
    fn unfile(&mut self, slot: u64) -> Result<()> {
        let bucket = slot / BLOCK * BLOCK;
        let mut hole = slot % BLOCK / 8;
        let mut at = hole;
        for _ in 0..SLOTS {
            at = (at + 1) % SLOTS;
            let word = self.get(bucket + at * 8)?;
            if word == 0 {
                break;
            }
            // Stays when its home lies behind the hole, in the circle from there to where it is.
            let start = home(word as u32);
            if (at + SLOTS - start) % SLOTS >= (at + SLOTS - hole) % SLOTS {
                self.set(bucket + hole * 8, word)?;
                hole = at;
            }
        }
        self.set(bucket + hole * 8, 0)
    }

    /// Gives all blocks of a directory without entries back. Only as many as one transaction can,
    /// unless the directory cannot be found any more.
    pub fn empty(&mut self, dir: &Inode<'_>) -> Result<()> {
        let (blocks, _) = split(dir.get(inode::RUNS));
        let buckets = dir.get(inode::BLOCKS);
        self.unmap(dir.at(inode::ROOT), 0, u64::from(blocks), None)?;
        self.unmap(dir.at(inode::INTENT), 0, buckets, None)?;
        self.set_word(dir, inode::BLOCKS, 0)?;
        self.set_word(dir, inode::RESERVE, 0)?;
        self.set_word(dir, inode::RUNS, 0)
    }

    /// Makes `found` lead to another inode.
    pub fn set_name(&mut self, found: &Found, number: u32, kind: FileKind) -> Result<()> {
        let record = self.record(found.place)?;
        let record = Record {
            inode: number,
            kind: kind.directory_type(),
            ..record
        };
        self.set(found.place, record.word())
    }
}

/// Where in a bucket `tag` may be put.
fn free_slot(word: impl Fn(u64) -> u64, tag: u32) -> Option<u64> {
    (0..SLOTS)
        .map(|step| (home(tag) + step) % SLOTS)
        .find(|&at| word(at) == 0)
}

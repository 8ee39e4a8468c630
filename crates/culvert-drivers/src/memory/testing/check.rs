//! Whether a file system is consistent: everything is walked, and what does not fit is named.

use crate::memory::{
    blocks::{Run, bitmap_word},
    core::{Core, Inode, split},
    directory::records,
    external::name_of,
    kernel_files::status_at,
    layout::{self, BLOCK, GROUP, UNWRITTEN, flag, header, inode, slot},
    map::{DEEPEST, block_of, reach},
    prepare, returned,
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    string::String,
    vec::Vec,
};
use core::sync::atomic::Ordering::*;
use culvert::Result;

/// More findings are not listed.
const MOST: usize = 100;

/// Checks the file system in the shared file `path` (the source of a prepared mount), after what
/// dead processes left was cleared away, and returns all that is inconsistent. Nobody else may
/// change it meanwhile.
pub fn check(path: &[u8]) -> Result<Vec<String>> {
    let core = prepare::joined(path)?;
    core.bury_dead()?;
    core.remove_dangling()?;
    let _lock = core.lock()?;
    let mut check = Check {
        core: &core,
        found: Vec::new(),
        used: BTreeSet::new(),
        names: BTreeMap::new(),
        below: BTreeMap::new(),
    };
    check.all()?;
    Ok(check.found)
}

struct Check<'a> {
    core: &'a Core,
    found: Vec<String>,
    used: BTreeSet<u64>,
    /// How many names lead to an inode.
    names: BTreeMap<u32, u32>,
    /// How many directories a directory holds.
    below: BTreeMap<u32, u32>,
}

impl Check<'_> {
    fn wrong(&mut self, what: String) {
        if self.found.len() < MOST {
            self.found.push(what);
        }
    }

    fn equal(&mut self, what: &str, there: u64, counted: u64) {
        if there != counted {
            self.wrong(format!("{what}: {there} is written, {counted} counted"));
        }
    }

    fn takes(&mut self, block: u64, owner: &str) {
        if !self.used.insert(block) {
            self.wrong(format!("block {block} of {owner} has another owner, too"));
        }
    }

    fn all(&mut self) -> Result<()> {
        let core = self.core;
        self.equal("log entries", core.header(header::LOGGED)?, 0);
        self.equal("sequence parity", core.header(header::SEQUENCE)? & 1, 0);
        let grown = core.header(header::GROWN)?;
        for block in 0..layout::RESERVED {
            self.takes(block, "the header");
        }
        for group in 1..grown.div_ceil(GROUP) {
            self.takes(group * GROUP, "a bitmap");
        }
        self.inode_tables()?;
        self.slots()?;
        self.returned()?;
        let (queued, _) = split(core.header(header::INODE_COUNTS)?);
        let fresh = core.inode_end()?;
        let (mut live, mut free, mut orphans) = (0, 0, 0);
        let mut outside = 0;
        for number in 1..fresh {
            let of = core.inode(number)?;
            self.xattrs(&of);
            if of.has(flag::FREE) {
                free += 1;
            } else {
                live += 1;
                orphans += u64::from(of.has(flag::ORPHAN));
                self.inode(&of)?;
                if of.is_external() {
                    outside += of.get(inode::INTENT);
                }
            }
        }
        self.equal("inodes in use", core.header(header::USED_INODES)?, live);
        let said = core.header(header::EXTERNAL)?;
        self.equal("blocks of files of their own", said, outside);
        self.equal("free inodes", queued.into(), free);
        self.list("free", core.header(header::FREE_INODES)?, flag::FREE, free)?;
        let (first, count) = split(core.header(header::ORPHANS)?);
        self.equal("orphans", count.into(), orphans);
        self.list("orphaned", first.into(), flag::ORPHAN, orphans)?;
        for number in 1..fresh {
            self.links(&core.inode(number)?)?;
        }
        self.bitmap(grown)
    }

    fn inode_tables(&mut self) -> Result<()> {
        let core = self.core;
        for table in 0..1024 {
            let at = core.image.half(layout::INODE_TABLE * BLOCK + table * 4)?;
            let table = u64::from(at.load(Acquire));
            if table == 0 {
                continue;
            }
            self.takes(table, "the inode table");
            for chunk in 0..1024 {
                let chunk = core.image.half(table * BLOCK + chunk * 4)?.load(Acquire);
                if chunk != 0 {
                    self.takes(chunk.into(), "the inodes");
                }
            }
        }
        Ok(())
    }

    fn returned(&mut self) -> Result<()> {
        let (list, runs) = self.core.returned()?;
        if list != 0 {
            self.takes(list.into(), "the list of blocks that were given back");
        }
        let mut count = 0;
        for run in runs {
            count += run.count;
            for block in run.start..run.start + run.count {
                self.takes(block, "those that were given back");
            }
        }
        let said = self.core.header(header::RETURNED)?;
        self.equal("blocks that were given back", said, count);
        Ok(())
    }

    fn slots(&mut self) -> Result<()> {
        let core = self.core;
        for chunk in 0..layout::MOST_SLOTS / layout::SLOTS_PER_BLOCK {
            let at = core.image.half(header::SLOT_CHUNKS * 8 + chunk * 4)?;
            let block = at.load(Acquire);
            if block != 0 {
                self.takes(block.into(), "the slots");
            }
        }
        for number in 0..core.slots()? {
            let Some(found) = core.slot(number)? else {
                continue;
            };
            let mut block = found.words[slot::OPENED as usize].load(Acquire);
            while block != 0 && self.found.len() < MOST {
                self.takes(block, "a list of open files");
                block = core.image.word(block * BLOCK)?.load(Acquire);
            }
        }
        Ok(())
    }

    /// A list of inodes through [`inode::LIST`], all with `wanted`.
    fn list(&mut self, what: &str, first: u64, wanted: u64, length: u64) -> Result<()> {
        let (mut number, mut count) = (first as u32, 0);
        while number != 0 && count <= length {
            let of = self.core.inode(number)?;
            if !of.has(wanted) {
                self.wrong(format!("inode {number} is on the list of {what} ones"));
            }
            count += 1;
            number = of.get(inode::LIST) as u32;
        }
        self.equal(
            &format!("length of the list of {what} inodes"),
            count,
            length,
        );
        Ok(())
    }

    /// Of free inodes too: who is in a removed directory may give it some.
    fn xattrs(&mut self, of: &Inode<'_>) {
        let xattrs = of.get(inode::XATTRS);
        for block in (xattrs & 0xffff_ffff)..(xattrs & 0xffff_ffff) + (xattrs >> 32) {
            self.takes(block, &format!("inode {}", of.number));
        }
    }

    fn inode(&mut self, of: &Inode<'_>) -> Result<()> {
        let owner = format!("inode {}", of.number);
        match of.mode() & 0o170000 {
            0o040000 => self.directory(of),
            0o100000 | 0o120000 => self.file(of, &owner),
            _ => Ok(()),
        }
    }

    fn file(&mut self, of: &Inode<'_>, owner: &str) -> Result<()> {
        let end = match of.mode() & 0o170000 {
            0o120000 => 1,
            _ => of.get(inode::SIZE).div_ceil(BLOCK),
        };
        let mut blocks = self.map(of.get(inode::ROOT), owner, end)?;
        let (start, count) = split(of.get(inode::RESERVE));
        for block in 0..u64::from(count) {
            self.takes(u64::from(start) + block, owner);
        }
        blocks += u64::from(count);
        if of.is_external() {
            if blocks != 0 {
                self.wrong(format!("{owner} has blocks, but content of its own"));
            }
            if let Some(wrong) = self.core.check_external(of) {
                self.wrong(format!("{owner}: {wrong}"));
            }
        }
        self.equal(&format!("blocks of {owner}"), of.get(inode::BLOCKS), blocks);
        Ok(())
    }

    /// Takes all blocks of a map and returns how many; beyond `end` none may be written.
    fn map(&mut self, root: u64, owner: &str, end: u64) -> Result<u64> {
        let (top, depth) = split(root);
        if depth > DEEPEST {
            self.wrong(format!("{owner}: a map of depth {depth}"));
            return Ok(0);
        }
        match top {
            0 => Ok(0),
            top => self.below(top, depth, 0, owner, end),
        }
    }

    fn below(&mut self, at: u32, depth: u32, base: u64, owner: &str, end: u64) -> Result<u64> {
        if self.found.len() >= MOST {
            return Ok(0);
        }
        self.takes(block_of(at), owner);
        if depth == 0 {
            if at & UNWRITTEN == 0 && base >= end {
                self.wrong(format!("{owner}: block {base} is written, beyond the end"));
            }
            return Ok(1);
        }
        let mut count = 1;
        for entry in 0..1024 {
            let pointer = self.core.image.entry(block_of(at), entry)?.load(Acquire);
            if pointer != 0 {
                let index = base + entry * reach(depth - 1);
                count += self.below(pointer, depth - 1, index, owner, end)?;
            }
        }
        Ok(count)
    }

    fn directory(&mut self, dir: &Inode<'_>) -> Result<()> {
        let core = self.core;
        let owner = format!("directory {}", dir.number);
        self.map(dir.get(inode::ROOT), &owner, u64::MAX)?;
        self.map(dir.get(inode::INTENT), &owner, u64::MAX)?;
        let (mut entries, mut used) = (0u64, 0u64);
        let mut buffer = core.room();
        for index in 0..dir.get(inode::RUNS) & 0xffff_ffff {
            let pointer = core.pointer(dir.get(inode::ROOT), index)?;
            if pointer == 0 {
                self.wrong(format!("{owner}: block {index} is missing"));
                continue;
            }
            let mut covered = 0;
            let block = core.image.bytes(block_of(pointer))?;
            block.shared().copy_to(&mut buffer);
            for (record, name) in records(&buffer) {
                covered += u64::from(record.length);
                if record.inode == 0 {
                    continue;
                }
                entries += 1;
                used += u64::from(record.length) / 8;
                self.name(dir, record.inode, record.kind, name)?;
            }
            self.equal(&format!("{owner}: bytes of block {index}"), BLOCK, covered);
        }
        let (said, said_used) = split(dir.get(inode::RESERVE));
        self.equal(&format!("{owner}: entries"), said.into(), entries);
        self.equal(&format!("{owner}: space used"), said_used.into(), used);
        Ok(())
    }

    fn name(&mut self, dir: &Inode<'_>, number: u32, kind: u8, name: &[u8]) -> Result<()> {
        let core = self.core;
        let shown = format!("name {} in directory {}", name.escape_ascii(), dir.number);
        match core.find(dir, name)? {
            Some(found) if found.inode == number => {}
            Some(found) => self.wrong(format!("{shown}: found as inode {}", found.inode)),
            None => self.wrong(format!("{shown}: not found")),
        }
        *self.names.entry(number).or_default() += 1;
        let Ok(of) = core.inode(number) else {
            self.wrong(format!("{shown}: of inode {number}, which there is not"));
            return Ok(());
        };
        if of.has(flag::FREE | flag::ORPHAN) {
            self.wrong(format!(
                "{shown}: of inode {number}, which is free or an orphan"
            ));
        }
        if of.mode() >> 12 != u32::from(kind) {
            self.wrong(format!("{shown}: type {kind}, mode {:o}", of.mode()));
        }
        if of.is_directory() {
            *self.below.entry(dir.number).or_default() += 1;
            let parent = split(of.get(inode::LINKS)).1;
            self.equal(
                &format!("{shown}: parent"),
                parent.into(),
                dir.number.into(),
            );
        }
        Ok(())
    }

    fn links(&mut self, of: &Inode<'_>) -> Result<()> {
        let names = self.names.get(&of.number).copied().unwrap_or(0);
        let below = self.below.get(&of.number).copied().unwrap_or(0);
        let expected = match of.is_directory() {
            _ if of.has(flag::FREE) => 0,
            true if of.number == layout::ROOT || names == 1 => 2 + below,
            _ => names,
        };
        let what = format!("links of inode {}", of.number);
        self.equal(&what, of.links().into(), expected.into());
        if of.links() == 0 && !of.has(flag::FREE | flag::ORPHAN) {
            self.wrong(format!("inode {} has no name and is on no list", of.number));
        }
        Ok(())
    }

    fn bitmap(&mut self, grown: u64) -> Result<()> {
        let mut free = 0;
        for block in 0..grown {
            let marked = self.core.is_marked(block)?;
            free += u64::from(!marked);
            match (marked, self.used.contains(&block)) {
                (true, false) => self.wrong(format!("block {block} is nobody's, but not free")),
                (false, true) => self.wrong(format!("block {block} is in use, but marked free")),
                _ => {}
            }
        }
        let beyond: Vec<u64> = self.used.range(grown..).copied().collect();
        for block in beyond {
            self.wrong(format!("block {block} is in use, but beyond the end"));
        }
        self.equal("free blocks", self.core.header(header::FREE)?, free);
        Ok(())
    }
}

impl Core {
    /// Whether the bitmap says that `block` is in use.
    fn is_marked(&self, block: u64) -> Result<bool> {
        let word = self.image.word(bitmap_word(block))?.load(Acquire);
        Ok(word >> (block % 64) & 1 != 0)
    }

    /// The runs that were given back, and the block that lists them.
    fn returned(&self) -> Result<(u32, Vec<Run>)> {
        let (list, entries) = split(self.header(header::RETURNED_LIST)?);
        let mut runs = Vec::new();
        if list != 0 {
            let words = self.image.words(
                u64::from(list) * BLOCK,
                entries.min(returned::ENTRIES).into(),
            )?;
            for word in words {
                runs.push(Run::of(word.load(Acquire)));
            }
        }
        Ok((list, runs))
    }

    /// What is wrong with the file of `of`.
    fn check_external(&self, of: &Inode<'_>) -> Option<String> {
        let found = self
            .directory_of_files()
            .and_then(|it| Ok(status_at(it.fd(), name_of(of).as_bytes())?));
        match found {
            Err(error) => Some(format!("its own file: {error}")),
            Ok(found) if found.size != of.get(inode::SIZE) => Some(format!(
                "its own file has {} bytes, not {}",
                found.size,
                of.get(inode::SIZE)
            )),
            Ok(_) => None,
        }
    }
}

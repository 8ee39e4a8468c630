//! Reads that the cache of pages may answer (`fuse_cache_read_iter`, fs/fuse/file.c).

use crate::{
    core::Core,
    file::FuseFile,
    pages::{Key, PAGE, mixed},
    words::{FOUND, PAGES_ASKED, PAGES_FOUND, Shared},
};
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culvert::{Attributes, Errno, Result, Sink};
use culvert_sys::plain::Packed;
use culvert_wire::{InitFlags, ROOT_ID, structures::OpenOut};

/// What the kernel reads ahead at most, whatever a server says (`VM_READAHEAD_PAGES`).
pub const AHEAD: usize = 128 << 10;

const O_DIRECT: u32 = 0o40000;

impl Core {
    /// What the pages of `node` are believed by, whose attributes are these: who holds it, changes
    /// of its bytes, notifications that mean all, and what `fuse_change_attributes_i`,
    /// fs/fuse/inode.c, drops pages for. None: the node may become another unseen, or its bytes
    /// may.
    pub fn belief(&self, node: u64, attributes: &Attributes) -> Option<u64> {
        let account = match node {
            ROOT_ID => 0,
            node => self.nodes.account(node)?.word(),
        };
        let connection = &self.connection;
        let is_timed = connection.agreed.has(InitFlags::AUTO_INVAL_DATA);
        let counts = [
            self.words().content(node).now(),
            connection.channel.notifications(),
        ];
        self.words().belief(account, counts, attributes, is_timed)
    }
}

impl Shared<'_> {
    /// The same of a node with this `account`, after `changes` of its bytes and `told`
    /// notifications that mean all; `is_timed`: another time of change drops pages.
    pub fn belief(
        self,
        account: u64,
        [changes, told]: [u64; 2],
        attributes: &Attributes,
        is_timed: bool,
    ) -> Option<u64> {
        if self.is_changing_unseen() {
            return None;
        }
        let time = match is_timed {
            true => attributes.mtime,
            false => culvert::Timespec::default(),
        };
        Some(mixed(&[
            account,
            changes,
            told,
            attributes.size,
            time.seconds as u64,
            u64::from(time.nanoseconds),
        ]))
    }
}

/// A read that goes on.
struct Reading<'a> {
    out: &'a mut dyn Sink,
    /// Where it stands, and where it ends.
    at: u64,
    end: u64,
}

impl Reading<'_> {
    /// Puts those of `bytes`, which begin at page `index`, that are wanted now: whether all that
    /// were, to their end, could be put.
    fn put(&mut self, index: u64, bytes: &[u8]) -> Result<bool> {
        let start = index * PAGE as u64;
        let from = (self.at - start) as usize;
        let until = bytes.len().min((self.end - start) as usize);
        let Some(wanted) = bytes.get(from..until).filter(|wanted| !wanted.is_empty()) else {
            return Ok(false);
        };
        let put = self.out.put(wanted)?;
        self.at += put as u64;
        Ok(put == wanted.len())
    }
}

impl FuseFile {
    /// The attributes by which pages are believed, and where the file ends. Old ones are asked for
    /// again, where the kernel does; none: the server lets nothing be believed.
    fn cached_attributes(&self, end: u64) -> Result<Option<Attributes>> {
        let (core, node) = (&self.core, self.node);
        let auto = core.connection.agreed.has(InitFlags::AUTO_INVAL_DATA);
        let words = core.words();
        let known = core.nodes.mostly_known(words, core.moment(), node);
        if let Some((known, is_fresh)) = known
            && (is_fresh || !auto && end <= known.size)
        {
            return Ok(Some(known));
        }
        let taken = core.nodes.take_attributes(words, core.moment(), node, true);
        if taken.is_some() {
            words.count(FOUND, 1);
            return Ok(taken);
        }
        if self.refused.load(Relaxed) {
            return Ok(None);
        }
        core.ask_attributes(self.who()?, node, self.handle.fh)?;
        let known = core.nodes.mostly_known(words, core.moment(), node);
        // None: somebody has changed it meanwhile.
        let is_old = matches!(known, Some((_, false)));
        self.refused.store(is_old, Relaxed);
        Ok(known.filter(|_| !is_old).map(|(known, _)| known))
    }

    /// A read of pages that are cached, and of others, which are cached from then on: also more
    /// than is asked for, where reads follow each other. What is large goes straight to the
    /// program, and is cached only where the server lets that outlive the open file.
    pub fn read_cached(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let (core, node) = (&self.core, self.node);
        let wanted = out.remaining();
        let pages = core.pages();
        if self.flags.0 & O_DIRECT != 0 || wanted == 0 || pages.is_empty() {
            return self.read_through(offset, out);
        }
        let keeps = self.handle.how & OpenOut::KEEP_CACHE != 0;
        let end = offset.saturating_add(wanted as u64);
        if !keeps && wanted >= AHEAD / 2 {
            return self.read_large(offset, out);
        }
        let Some(known) = self.cached_attributes(end)? else {
            return self.read_through(offset, out);
        };
        if offset >= known.size {
            return Ok(0);
        }
        let Some(belief) = core.belief(node, &known) else {
            return self.read_through(offset, out);
        };
        let mut reading = Reading {
            out,
            at: offset,
            end: end.min(known.size),
        };
        let done = |reading: &Reading<'_>| (reading.at - offset) as usize;
        let mut page = core.room();
        while reading.at < reading.end {
            let index = reading.at / PAGE as u64;
            let key = Key {
                node,
                index,
                belief,
            };
            let goes_on = match pages.get(key, &mut page) {
                Some(length) => {
                    core.words().count(PAGES_FOUND, 1);
                    let bytes = page.bytes();
                    reading.put(index, bytes.get(..length).unwrap_or_default())
                }
                None => self.fill(key, known.size, &mut reading),
            };
            match goes_on {
                Err(error) if reading.at == offset => return Err(error),
                Ok(true) => {}
                _ => break,
            }
        }
        let other = core.room.lock().replace(page);
        drop(other);
        let last = reading.at.saturating_sub(1) / PAGE as u64;
        self.ahead.lock().read_to(last);
        Ok(done(&reading))
    }

    /// READs pages from the one of `key` on, which go to the cache and to `reading`: whether it
    /// goes on behind them.
    fn fill(&self, key: Key, size: u64, reading: &mut Reading<'_>) -> Result<bool> {
        let core = &self.core;
        let start = key.index * PAGE as u64;
        let most = (self.most() / PAGE).max(1) as u64;
        let ahead = (core.connection.agreed.max_readahead.min(AHEAD) / PAGE) as u64;
        let needed = (reading.end - start).div_ceil(PAGE as u64).min(most);
        let window = self.ahead.lock().window(key.index, needed, ahead.min(most));
        let left = (size - start).div_ceil(PAGE as u64);
        let length = window.min(left) as usize * PAGE;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(|_| Errno::ENOMEM)?;
        bytes.resize(length, 0);
        let mut place = &mut bytes[..];
        let count = self.read_once(start, length, &mut place)?;
        bytes.truncate(count);
        self.was_read(count);
        let (pages, words) = (core.pages(), core.words());
        words.count(PAGES_ASKED, count.div_ceil(PAGE) as u64);
        for (index, bytes) in (key.index..).zip(bytes.chunks(PAGE)) {
            pages.put(Key { index, ..key }, bytes);
        }
        let all = reading.put(key.index, &bytes)?;
        // Less than was asked for is the end of the file (`fuse_short_read`).
        Ok(all && count == length)
    }
}

//! The bytes of a file: pages of 4 KiB, those never written being holes.

use crate::{Errno, Result, Sink, Source};
use culvert_sys::PAGE64;
use std::{boxed::Box, collections::BTreeMap};

/// A sparse array of bytes.
#[derive(Default)]
pub(super) struct Pages {
    pages: BTreeMap<u64, Box<[u8; PAGE64 as usize]>>,
    pub(super) size: u64,
}

impl Pages {
    pub(super) fn count(&self) -> u64 {
        self.pages.len() as u64
    }

    pub(super) fn read(&self, mut offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let mut total = 0;
        while offset < self.size && out.remaining() > 0 {
            let within = (offset % PAGE64) as usize;
            let end = (PAGE64 as usize).min(within + (self.size - offset).min(PAGE64) as usize);
            let wanted = (end - within).min(out.remaining());
            let put = match self.pages.get(&(offset / PAGE64)) {
                Some(page) => out.put(&page[within..end]),
                None => out.put_zeroes(end - within),
            };
            match put {
                Err(error) if total == 0 => return Err(error),
                Err(_) => break,
                Ok(count) => {
                    total += count;
                    offset += count as u64;
                    if count < wanted {
                        break;
                    }
                }
            }
        }
        Ok(total)
    }

    pub(super) fn write(&mut self, mut offset: u64, from: &mut dyn Source) -> Result<usize> {
        let mut total = 0;
        while from.remaining() > 0 {
            let within = (offset % PAGE64) as usize;
            let mut part = [0; PAGE64 as usize];
            let wanted = (PAGE64 as usize - within).min(from.remaining());
            let taken = match from.take(&mut part[..wanted]) {
                Err(error) if total == 0 => return Err(error),
                Err(_) | Ok(0) => break,
                Ok(taken) => taken,
            };
            let page = self.pages.entry(offset / PAGE64);
            let page = page.or_insert_with(|| Box::new([0; PAGE64 as usize]));
            page[within..within + taken].copy_from_slice(&part[..taken]);
            total += taken;
            offset += taken as u64;
            self.size = self.size.max(offset);
        }
        Ok(total)
    }

    pub(super) fn resize(&mut self, size: u64) {
        if size < self.size {
            self.pages.split_off(&size.div_ceil(PAGE64));
            if let Some(page) = self.pages.get_mut(&(size / PAGE64)) {
                page[(size % PAGE64) as usize..].fill(0);
            }
        }
        self.size = size;
    }

    /// The first byte from `offset` on that is in a page (`data`), or in none (the end counting as
    /// such).
    pub(super) fn seek(&self, offset: u64, data: bool) -> Result<u64> {
        if offset >= self.size {
            return Err(Errno::ENXIO.into());
        }
        let mut at = offset;
        while at < self.size {
            if self.pages.contains_key(&(at / PAGE64)) == data {
                return Ok(at);
            }
            at = match data {
                true => match self.pages.range(at / PAGE64..).next() {
                    Some((&page, _)) => page * PAGE64,
                    None => self.size,
                },
                false => (at / PAGE64 + 1) * PAGE64,
            };
        }
        match data {
            true => Err(Errno::ENXIO.into()),
            false => Ok(self.size),
        }
    }

    /// Makes `length` bytes from `offset` on a hole.
    pub(super) fn punch(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length).min(self.size);
        let mut at = offset;
        while at < end {
            let page = at / PAGE64;
            let until = ((page + 1) * PAGE64).min(end);
            if let Some(bytes) = self.pages.get_mut(&page) {
                bytes[(at % PAGE64) as usize..][..(until - at) as usize].fill(0);
                if at.is_multiple_of(PAGE64) && (until.is_multiple_of(PAGE64) || until == self.size)
                {
                    self.pages.remove(&page);
                }
            }
            at = until;
        }
    }
}

//! Sinks and sources that behave as a program's memory can.

use crate::{Errno, File, Result, Sink, Source};
use std::{vec, vec::Vec};

/// Takes `room` bytes, wants `wanted` of them, and meets bad memory when the room ends first.
pub(super) struct Memory {
    pub(super) bytes: Vec<u8>,
    pub(super) wanted: usize,
    pub(super) room: usize,
}

impl Memory {
    pub(super) fn new(wanted: usize) -> Self {
        Self::faulting(wanted, wanted)
    }

    pub(super) fn faulting(wanted: usize, room: usize) -> Self {
        let bytes = Vec::new();
        Self {
            bytes,
            wanted,
            room,
        }
    }

    fn take(&self, offered: usize) -> Result<usize> {
        let count = offered.min(self.remaining());
        let count = count.min(self.room - self.bytes.len());
        match count == 0 && offered > 0 && self.remaining() > 0 {
            true => Err(Errno::EFAULT.into()),
            false => Ok(count),
        }
    }
}

impl Sink for Memory {
    fn remaining(&self) -> usize {
        self.wanted - self.bytes.len()
    }
    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        let count = self.take(bytes.len())?;
        self.bytes.extend_from_slice(&bytes[..count]);
        Ok(count)
    }
    fn put_zeroes(&mut self, count: usize) -> Result<usize> {
        let count = self.take(count)?;
        self.bytes.resize(self.bytes.len() + count, 0);
        Ok(count)
    }
}

/// Gives `good` bytes of its `left`, then meets bad memory.
pub(super) struct FaultingSource {
    pub(super) good: usize,
    pub(super) left: usize,
}

impl Source for FaultingSource {
    fn remaining(&self) -> usize {
        self.left
    }
    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        let count = into.len().min(self.left).min(self.good);
        if count == 0 && !into.is_empty() && self.left > 0 {
            return Err(Errno::EFAULT.into());
        }
        into[..count].fill(b'x');
        self.good -= count;
        self.left -= count;
        Ok(count)
    }
}

/// The bytes that one call reads.
pub(super) fn read(file: &dyn File, offset: u64, count: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count];
    let mut sink = bytes.as_mut_slice();
    let read = file.read_at(offset, &mut sink)?;
    bytes.truncate(read);
    Ok(bytes)
}

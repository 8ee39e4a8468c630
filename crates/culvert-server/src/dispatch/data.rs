//! The bytes that a request brings or a reply takes, as drivers get them: with a look at whether
//! the caller is interrupted.

use crate::interrupts::Hand;
use culvert::{Result, Shared, SharedMut, Sink, Source};

/// The data part of a reply.
pub(super) struct Reading<'a> {
    pub(super) rest: &'a mut [u8],
    pub(super) hand: &'a Hand,
}

impl Sink for Reading<'_> {
    fn remaining(&self) -> usize {
        self.rest.len()
    }
    fn put(&mut self, bytes: &[u8]) -> Result<usize> {
        self.rest.put(bytes)
    }
    fn put_shared(&mut self, bytes: Shared<'_>) -> Result<usize> {
        self.rest.put_shared(bytes)
    }
    fn put_zeroes(&mut self, count: usize) -> Result<usize> {
        self.rest.put_zeroes(count)
    }
    fn read_from(&mut self, fd: i32, offset: u64, count: usize) -> usize {
        self.rest.read_from(fd, offset, count)
    }
    fn interrupted(&self) -> bool {
        self.hand.interrupted()
    }
}

/// The data part of a request.
pub(super) struct Writing<'a> {
    pub(super) rest: &'a [u8],
    pub(super) hand: &'a Hand,
}

impl Source for Writing<'_> {
    fn remaining(&self) -> usize {
        self.rest.len()
    }
    fn take(&mut self, into: &mut [u8]) -> Result<usize> {
        self.rest.take(into)
    }
    fn take_shared(&mut self, into: SharedMut<'_>) -> Result<usize> {
        self.rest.take_shared(into)
    }
    fn interrupted(&self) -> bool {
        self.hand.interrupted()
    }
}

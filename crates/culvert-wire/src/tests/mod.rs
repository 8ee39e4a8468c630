//! Round trips, hostile bytes, layouts.

mod hostile;
mod layout;
mod round_trip;

use crate::{
    Data, Forgets, InitFlags, MAJOR, NEWEST_MINOR, Name, Nodes, OLDEST_MINOR, Plain, Protocol, Text,
};
use std::{boxed::Box, vec::Vec};

/// A structure: the kernel's name, the minor version that brought it, its size, its fields (name,
/// offset, size).
pub(crate) type Layout = (
    &'static str,
    u32,
    usize,
    &'static [(&'static str, usize, usize)],
);

/// A reproducible source of numbers (xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
    /// Bytes that live as long as the test.
    pub(crate) fn bytes(&mut self, length: usize) -> &'static [u8] {
        let bytes: Vec<u8> = (0..length).map(|_| self.next() as u8).collect();
        Box::leak(bytes.into_boxed_slice())
    }
    /// Bytes without NUL and slash, at least one.
    fn word(&mut self) -> &'static [u8] {
        let length = 1 + self.below(300);
        let bytes: Vec<u8> = (0..length)
            .map(|_| match self.next() as u8 {
                0 | b'/' => b'x',
                byte => byte,
            })
            .collect();
        Box::leak(bytes.into_boxed_slice())
    }
}

/// Values for tests.
pub(crate) trait Sample {
    fn sample(random: &mut Random, protocol: &Protocol) -> Self;
}

/// Only what the protocol sends is filled.
impl<T: Plain> Sample for T {
    fn sample(random: &mut Random, protocol: &Protocol) -> Self {
        T::from_prefix(random.bytes(T::wire_size(protocol)))
    }
}

impl Sample for Name<'static> {
    fn sample(random: &mut Random, _: &Protocol) -> Self {
        let fallback = Name::new(b"name");
        Name::new(random.word()).or(fallback).expect("a name")
    }
}

impl Sample for Text<'static> {
    fn sample(random: &mut Random, _: &Protocol) -> Self {
        Text::new(random.word()).expect("no NUL")
    }
}

impl Sample for Data<'static> {
    fn sample(random: &mut Random, _: &Protocol) -> Self {
        let length = random.below(5000);
        Data(random.bytes(length))
    }
}

impl Sample for Forgets<'static> {
    fn sample(random: &mut Random, _: &Protocol) -> Self {
        let count = random.below(9);
        Forgets::new(random.bytes(16 * count)).expect("whole ones")
    }
}

impl Sample for Nodes<'static> {
    fn sample(random: &mut Random, _: &Protocol) -> Self {
        let count = random.below(9);
        Nodes::new(random.bytes(8 * count)).expect("whole ones")
    }
}

/// Every version, with and without the flags that change sizes.
pub(crate) fn protocols() -> impl Iterator<Item = Protocol> {
    (OLDEST_MINOR..=NEWEST_MINOR).flat_map(|minor| {
        [
            InitFlags::NONE,
            InitFlags::SETXATTR_EXT,
            InitFlags::SECURITY_CTX,
            InitFlags(u64::MAX),
        ]
        .map(|flags| Protocol::negotiate(MAJOR, minor, flags).expect("spoken"))
    })
}

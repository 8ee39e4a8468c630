//! LZMA with 13 bytes in front, as `lzma` and `xz --format=lzma` write it ("lzma-file-format.txt"
//! of XZ Utils): properties, dictionary, length. It has no checksum; the build pass decodes all of
//! it, and spools it, as it can be decoded only from its start.

use super::{Format, Options, checkpoints::Checkpoints, damaged, lzma::Lzma, spool::Spooler};
use crate::archive::bytes::{Bytes, u32_at, u64_at};
use alloc::vec::Vec;
use culvert::Result;

/// A file of at least so many plain bytes is spooled.
const SPOOL_FROM: u64 = 2 << 20;
/// Bytes of the header.
const HEADER: usize = 13;
/// lc 3, lp 0, pb 2: what all programs write that are not told otherwise.
const PROPERTIES: u8 = 93;
/// The length of data that end at a marker.
const UNKNOWN: u64 = u64::MAX;
/// Longest length that is believed, as XZ Utils have it: there is no magic number.
const LONGEST: u64 = 1 << 38;

/// Whether a file that starts with `prefix` is one; 14 bytes are enough.
pub fn detect(prefix: &[u8]) -> bool {
    let Some(head) = prefix.first_chunk::<{ HEADER + 1 }>() else {
        return false;
    };
    let (dictionary, length) = (u32_at(head, 1), u64_at(head, 5));
    // 2^n or 2^n + 2^(n - 1), or as much as can be said.
    let high = dictionary.checked_ilog2().map_or(0, |n| 1u32 << n);
    let is_size = dictionary == high || dictionary == high | high >> 1 || dictionary == u32::MAX;
    head[0] == PROPERTIES
        && (dictionary >= 4096 && is_size)
        && (length == UNKNOWN || length < LONGEST)
        // The range coder's first byte.
        && head[HEADER] == 0
}

/// What decodes the file, from its start.
pub fn open(raw: &dyn Bytes) -> Result<Lzma> {
    let mut head = [0; HEADER];
    raw.read_exact_at(0, &mut head)?;
    let (dictionary, length) = (u32_at(&head, 1), u64_at(&head, 5));
    let place = (HEADER as u64, raw.len());
    Lzma::with_properties(place, (head[0], dictionary), length)
}

/// One pass over the whole file: all plain bytes to `sink`, the seek table out.
pub fn build(
    raw: &dyn Bytes,
    options: &Options,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let mut head = [0; HEADER];
    raw.read_exact_at(0, &mut head)?;
    let stated = Some(u64_at(&head, 5)).filter(|&length| length != UNKNOWN);
    let mut decoder = open(raw)?;
    let mut spooler = Spooler::new(SPOOL_FROM, options.spool);
    spooler.begin(0, stated, Vec::new());
    // A stream of no bytes still has the coder's five.
    let decoding = (&mut decoder, Lzma::raw_position as fn(&Lzma) -> u64);
    let plain = spooler.feed_all(raw, decoding, sink, progress)?;
    spooler.end();
    if stated.is_some_and(|length| length != plain) {
        return Err(damaged("the LZMA data is not as long as it says"));
    }
    // What follows is not looked at.
    spooler.finish().finish(Format::Lzma, plain, raw.len())
}

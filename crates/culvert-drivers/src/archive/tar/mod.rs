//! Tar archives: v7, ustar, pax, GNU and star, as `tar` reads them. Only headers are read: what an index needs is where the data lies.

mod header;
mod number;
mod pax;
mod scan;
mod sparse;

pub use header::BLOCK;
pub use scan::{Feeder, Scanner, Want};

use super::bytes::Bytes;
use alloc::vec;
use culvert::Result;
use header::Block;

/// Whether a file that starts with `block` can be a tar archive: a header, or the zeroes of an empty archive.
pub fn detect(block: &Block) -> bool {
    header::Header::new(block).is_some() || block == &[0; BLOCK]
}

/// Bytes read at once where members are small.
const WINDOW: usize = 128 << 10;
/// Bytes read at once behind a large member.
const PEEK: usize = 4 << 10;

/// Runs `scanner` over `raw`, skipping the members' data; `progress` gets the bytes done now and then.
pub fn scan(
    raw: &dyn Bytes,
    scanner: &mut Scanner<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<()> {
    let mut window = vec![0; WINDOW];
    let (mut start, mut length, mut position) = (0u64, 0usize, 0u64);
    let mut told = 0;
    loop {
        match scanner.want() {
            Want::Nothing => return Ok(()),
            Want::Skip(count) => {
                // What is missing at the end may be the padding of the last block.
                let there = count.min(raw.len().saturating_sub(position));
                scanner.skipped(there);
                position += there;
                if there < count {
                    return scanner.end();
                }
            }
            Want::Block => {
                let inside = position
                    .checked_sub(start)
                    .filter(|at| at + BLOCK as u64 <= length as u64);
                let at = match inside {
                    Some(at) => at as usize,
                    None => {
                        // Far from the last window: the next member may be as large as the one skipped.
                        let near = position.saturating_sub(start) < 2 * WINDOW as u64;
                        let piece = if near { WINDOW } else { PEEK };
                        start = position;
                        length = raw.read_at(position, &mut window[..piece])?;
                        if position - told >= 8 << 20 {
                            told = position;
                            progress(position);
                        }
                        0
                    }
                };
                let Some(block) = window[at..length.max(at)].first_chunk::<BLOCK>() else {
                    return scanner.end();
                };
                scanner.block(block)?;
                position += BLOCK as u64;
            }
        }
    }
}

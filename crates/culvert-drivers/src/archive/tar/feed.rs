//! From a stream in pieces of any length to the scanner's blocks.

use super::header::{BLOCK, Block};
use super::scan::{Scanner, Want};
use culvert::Result;

/// Feeds a scanner from pieces of any length.
pub struct Feeder {
    block: Block,
    filled: usize,
}

impl Default for Feeder {
    fn default() -> Self {
        Self {
            block: [0; BLOCK],
            filled: 0,
        }
    }
}

impl Feeder {
    /// Gives `scanner` the next bytes of the archive.
    pub fn feed(&mut self, scanner: &mut Scanner<'_>, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            match scanner.want() {
                Want::Nothing => return Ok(()),
                Want::Skip(count) => {
                    let part = count.min(bytes.len() as u64);
                    scanner.skipped(part);
                    bytes = &bytes[part as usize..];
                }
                Want::Block => {
                    if self.filled == 0
                        && let Some((block, rest)) = bytes.split_first_chunk::<BLOCK>()
                    {
                        scanner.block(block)?;
                        bytes = rest;
                        continue;
                    }
                    let part = (BLOCK - self.filled).min(bytes.len());
                    self.block[self.filled..][..part].copy_from_slice(&bytes[..part]);
                    self.filled += part;
                    bytes = &bytes[part..];
                    if self.filled == BLOCK {
                        self.filled = 0;
                        scanner.block(&self.block)?;
                    }
                }
            }
        }
        Ok(())
    }
}

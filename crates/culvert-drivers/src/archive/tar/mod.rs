//! Tar archives: v7, ustar, pax, GNU and star, as `tar` reads them. Only headers are read: what an
//! index needs is where the data lies.

mod header;
mod number;
mod pax;
mod scanner;
mod sparse;

pub use header::BLOCK;
pub use scanner::Scanner;

use header::Block;

/// Whether a file that starts with `block` can be a tar archive: a header, or the zeroes of an
/// empty archive.
pub fn detect(block: &Block) -> bool {
    header::Header::new(block).is_some() || block == &[0; BLOCK]
}

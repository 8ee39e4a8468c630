//! Compressed data, readable from any offset.
//!
//! [`build`] decodes a file once, from start to end, and gives the seek table, [`Checkpoints`]; with it a [`Stream`] reads anywhere without
//! decoding what lies before. A [`Member`] is the compressed data of one zip member.
//!
//! | format | decoding can start | a random read decodes at most |
//! |---|---|---|
//! | gzip | at any byte: points are set every 512 KiB, and at members' starts | 640 KiB |
//! | bzip2 | at blocks | one block: 900 kB, more where bytes repeat |
//!
//! Damage is `EIO` with a cause; nothing here panics on any input, and memory stays bounded whatever the input claims.

mod bzip2;
mod checkpoints;
mod crc;
mod decoder;
mod deflate;
mod gzip;
mod inflate;
mod input;
mod lz;
mod member;
mod stream;
#[cfg(test)]
mod tests;

pub use checkpoints::Checkpoints;
pub use crc::crc32;
pub use member::Member;
pub use stream::Stream;

use super::bytes::Bytes;
use alloc::borrow::Cow;
use culvert::{Errno, Error, Result};

/// A compression format of whole files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
    /// xz, "The .xz File Format" 1.2.
    Xz,
    /// bzip2.
    Bzip2,
}

impl Format {
    /// The name of the program that makes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
        }
    }

    const fn number(self) -> u32 {
        self as u32
    }

    fn from_number(number: u32) -> Option<Self> {
        [Self::Gzip, Self::Zstd, Self::Xz, Self::Bzip2]
            .into_iter()
            .find(|format| format.number() == number)
    }
}

/// The format of a file that starts with `prefix`; ten bytes are enough.
pub fn detect(prefix: &[u8]) -> Option<Format> {
    if gzip::is_member(prefix) {
        return Some(Format::Gzip);
    }
    match prefix {
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Format::Zstd),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Format::Xz),
        [
            b'B',
            b'Z',
            b'h',
            b'1'..=b'9',
            0x31,
            0x41,
            0x59,
            0x26,
            0x53,
            0x59,
            ..,
        ]
        | [
            b'B',
            b'Z',
            b'h',
            b'1'..=b'9',
            0x17,
            0x72,
            0x45,
            0x38,
            0x50,
            0x90,
            ..,
        ] => Some(Format::Bzip2),
        _ => None,
    }
}

/// Decodes all of `raw` once: the plain bytes go to `sink` in order, the seek table comes out; `progress` is told now and then how many bytes of `raw` are done.
///
/// Checksums are verified on the way. `EIO` with a cause for damaged or truncated data (what came before has gone to `sink`), and whatever
/// `sink` refuses with.
pub fn build(
    format: Format,
    raw: &dyn Bytes,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    match format {
        Format::Gzip => gzip::build(raw, sink, progress),
        Format::Bzip2 => bzip2::build(raw, sink, progress),
        _ => Err(Error::because(Errno::EOPNOTSUPP, "not yet")),
    }
}

/// The error for data that is not as it should be.
fn damaged(cause: impl Into<Cow<'static, str>>) -> Error {
    Error::because(Errno::EIO, cause)
}

//! Compressed data, readable from any offset.
//!
//! [`build`] decodes a file once, from start to end, and gives the seek table, [`Checkpoints`];
//! with it a [`Stream`] reads anywhere without decoding what lies before. A [`Member`] is the
//! compressed data of one zip member.
//!
//! | format | decoding can start | a random read decodes at most |
//! |---|---|---|
//! | gzip | at any byte: points are set every 512 KiB, and at members' starts | 640 KiB |
//! | bzip2 | at blocks | one block: 900 kB, more where bytes repeat |
//! | zstd | at frames; those from 8 MiB on are stored once more in the table | 64 KiB, or a shorter frame |
//! | xz | at blocks; those from 2 MiB on are stored once more in the table | 64 KiB, or a shorter block |
//! | 7z | at folders; those from 2 MiB on are stored once more in the table | 64 KiB, or a shorter folder |
//! | lzip | at members; those from 2 MiB on are stored once more in the table | 64 KiB, or a shorter member |
//! | lzma, compress | at the start; from 2 MiB on all is stored once more in the table | 64 KiB, or a shorter file |
//!
//! What is stored once more is bounded by [`Options::spool`]; behind that a frame, block or member
//! is decoded from its start, and decoders that stand nearer are used.
//!
//! Damage is `EIO` with a cause; nothing here panics on any input, and memory stays bounded
//! whatever the input claims.

mod alone;
mod bzip2;
mod checkpoints;
mod compress;
mod crc;
mod decoder;
mod deflate;
mod folders;
mod gzip;
mod inflate;
mod input;
mod lz;
mod lzip;
mod lzma;
mod member;
mod spool;
mod stream;
#[cfg(test)]
mod tests;
mod xz;
mod zstd;

pub use checkpoints::Checkpoints;
pub use crc::crc32;
pub use folders::{Folder, Method, build as build_folders, unpack as unpack_folder};
pub use member::Member;
pub use stream::Stream;

use super::bytes::Bytes;
use alloc::{borrow::Cow, format};
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
    /// lzip.
    Lzip,
    /// The folders of a 7z archive.
    SevenZip,
    /// LZMA alone, as XZ Utils' `lzma` has it.
    Lzma,
    /// compress, LZW.
    Compress,
}

impl Format {
    /// The name of the program that makes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Bzip2 => "bzip2",
            Self::Lzip => "lzip",
            Self::SevenZip => "7z",
            Self::Lzma => "lzma",
            Self::Compress => "compress",
        }
    }

    /// From what `as u8` gave.
    pub fn from_number(number: u8) -> Option<Self> {
        let all = [
            Self::Gzip,
            Self::Zstd,
            Self::Xz,
            Self::Bzip2,
            Self::Lzip,
            Self::SevenZip,
            Self::Lzma,
            Self::Compress,
        ];
        all.get(usize::from(number)).copied()
    }
}

/// The format of a file that starts with `prefix`; 14 bytes are enough.
pub fn detect(prefix: &[u8]) -> Option<Format> {
    if gzip::is_member(prefix) {
        return Some(Format::Gzip);
    }
    if lzip::detect(prefix) {
        return Some(Format::Lzip);
    }
    if compress::detect(prefix) {
        return Some(Format::Compress);
    }
    if alone::detect(prefix) {
        return Some(Format::Lzma);
    }
    match prefix {
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some(Format::Zstd),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Format::Xz),
        [b'B', b'Z', b'h', b'1'..=b'9', rest @ ..] if bzip2::is_block(rest) => Some(Format::Bzip2),
        _ => None,
    }
}

/// How a seek table is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How many bytes the table may take for plain data, packed, that could else be decoded only
    /// from far before: long zstd frames and xz blocks. 0 stores none.
    pub spool: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { spool: 512 << 20 }
    }
}

/// Decodes all of `raw` once: the plain bytes go to `sink` in order, the seek table comes out;
/// `progress` is told now and then how many bytes of `raw` are done.
///
/// Checksums are verified on the way. `EIO` with a cause for damaged or truncated data (what came
/// before has gone to `sink`), `EOPNOTSUPP` with a cause for data that needs a dictionary or too
/// much memory, and whatever `sink` refuses with.
pub fn build(
    format: Format,
    raw: &dyn Bytes,
    options: &Options,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    match format {
        Format::Gzip => gzip::build(raw, sink, progress),
        Format::Bzip2 => bzip2::build(raw, sink, progress),
        Format::Zstd => zstd::build(raw, options, sink, progress),
        Format::Xz => xz::build(raw, options, sink, progress),
        Format::Lzip => lzip::build(raw, options, sink, progress),
        Format::Lzma => alone::build(raw, options, sink, progress),
        Format::Compress => compress::build(raw, options, sink, progress),
        // Its header says where they are.
        Format::SevenZip => Err(Errno::EINVAL.into()),
    }
}

/// What a member must be, after plain byte `at` (its end when `ended`) with `crc` so far: `length`
/// bytes long with CRC-32 `stated`.
fn verify(at: u64, ended: bool, crc: u32, length: u64, stated: u32) -> Result<()> {
    if at > length || (ended && at < length) {
        return Err(damaged(format!(
            "the data is not {length} bytes long, as its header says"
        )));
    }
    if at == length && crc != stated {
        return Err(damaged("the checksum differs"));
    }
    Ok(())
}

/// The error for data that is not as it should be.
fn damaged(cause: impl Into<Cow<'static, str>>) -> Error {
    Error::because(Errno::EIO, cause)
}

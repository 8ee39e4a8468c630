//! The formats that are read from start to end.

use super::bytes::Bytes;
use super::codec::Format;
use super::scan::{self, Scan};
use super::tree::Tree;
use super::{ar, cpio, tar};
use alloc::boxed::Box;
use culvert::Result;

/// The formats that are read from start to end, which may be compressed as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Serial {
    Tar,
    Cpio,
    Ar,
}

impl Serial {
    /// For people.
    pub fn name(self, format: Option<Format>) -> &'static str {
        match (self, format) {
            (_, Some(Format::SevenZip)) => "7z",
            (Self::Tar, None) => "tar",
            (Self::Tar, Some(Format::Gzip)) => "tar, gzip",
            (Self::Tar, Some(Format::Zstd)) => "tar, zstd",
            (Self::Tar, Some(Format::Xz)) => "tar, xz",
            (Self::Tar, Some(Format::Bzip2)) => "tar, bzip2",
            (Self::Tar, Some(Format::Lzip)) => "tar, lzip",
            (Self::Tar, Some(Format::Lzma)) => "tar, lzma",
            (Self::Tar, Some(Format::Compress)) => "tar, compress",
            (Self::Cpio, None) => "cpio",
            (Self::Cpio, Some(Format::Gzip)) => "cpio, gzip",
            (Self::Cpio, Some(Format::Zstd)) => "cpio, zstd",
            (Self::Cpio, Some(Format::Xz)) => "cpio, xz",
            (Self::Cpio, Some(Format::Bzip2)) => "cpio, bzip2",
            (Self::Cpio, Some(Format::Lzip)) => "cpio, lzip",
            (Self::Cpio, Some(Format::Lzma)) => "cpio, lzma",
            (Self::Cpio, Some(Format::Compress)) => "cpio, compress",
            (Self::Ar, None) => "ar",
            (Self::Ar, Some(Format::Gzip)) => "ar, gzip",
            (Self::Ar, Some(Format::Zstd)) => "ar, zstd",
            (Self::Ar, Some(Format::Xz)) => "ar, xz",
            (Self::Ar, Some(Format::Bzip2)) => "ar, bzip2",
            (Self::Ar, Some(Format::Lzip)) => "ar, lzip",
            (Self::Ar, Some(Format::Lzma)) => "ar, lzma",
            (Self::Ar, Some(Format::Compress)) => "ar, compress",
        }
    }

    /// What begins with `head`, of the formats that are known by it.
    pub fn detect(head: &[u8]) -> Result<Option<Self>> {
        if head.first_chunk().is_some_and(tar::detect) {
            return Ok(Some(Self::Tar));
        }
        if cpio::detect(head) {
            return Ok(Some(Self::Cpio));
        }
        Ok(ar::detect(head)?.then_some(Self::Ar))
    }

    /// Fills `tree` from `raw`, not compressed.
    pub fn scan(self, raw: &dyn Bytes, tree: &mut Tree, tolerant: bool) -> Result<()> {
        scan::scan(raw, &mut *self.scanner(tree, tolerant), &mut |_| {})
    }

    /// What fills `tree`.
    pub fn scanner<'t>(self, tree: &'t mut Tree, tolerant: bool) -> Box<dyn Scan + 't> {
        match self {
            Self::Tar => Box::new(tar::Scanner::new(tree, tolerant)),
            Self::Cpio => Box::new(cpio::Scanner::new(tree, tolerant)),
            Self::Ar => Box::new(ar::Scanner::new(tree, tolerant)),
        }
    }
}

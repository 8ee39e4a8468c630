//! The compressed data of a zip member.

use super::{
    bzip2::Bzip2,
    checkpoints::Point,
    crc::crc32,
    damaged,
    decoder::Decoder,
    deflate::Deflate,
    lzma::Lzma,
    stream::{Cached, Opener},
    xz::Xz,
    zstd::Zstd,
};
use crate::archive::bytes::Bytes;
use alloc::{boxed::Box, format, sync::Arc};
use culvert::{Errno, Error, Result, Sink};

/// Chunks of 64 KiB that a member keeps.
const CHUNKS: usize = 8;

/// How a member is compressed (APPNOTE.TXT 4.4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Deflate,
    Deflate64,
    Bzip2,
    Lzma,
    Zstd,
    Xz,
}

impl Method {
    fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            8 => Self::Deflate,
            9 => Self::Deflate64,
            12 => Self::Bzip2,
            14 => Self::Lzma,
            93 => Self::Zstd,
            95 => Self::Xz,
            _ => return None,
        })
    }
}

/// What APPNOTE.TXT calls a method that is not read here.
fn name(method: u16) -> &'static str {
    match method {
        1 => "shrink",
        2..=5 => "reduce",
        6 => "implode",
        10 | 18 => "IBM TERSE",
        19 => "IBM LZ77",
        94 => "MP3",
        96 => "JPEG",
        97 => "WavPack",
        98 => "PPMd",
        99 => "AES encryption",
        _ => "unknown",
    }
}

/// Opens decoders at the start of a member.
struct Source {
    method: Method,
    start: u64,
    end: u64,
    plain_len: u64,
    crc: u32,
}

impl Opener for Source {
    fn plain_len(&self) -> u64 {
        self.plain_len
    }

    fn find(&self, _plain: u64) -> Result<Point> {
        Ok(Point::default())
    }

    fn open(&self, raw: &dyn Bytes, _point: &Point) -> Result<Box<dyn Decoder>> {
        let &Self { start, end, .. } = self;
        Ok(match self.method {
            Method::Deflate | Method::Deflate64 => {
                let deflate64 = self.method == Method::Deflate64;
                self.checked(Deflate::new(start, end, deflate64))
            }
            Method::Zstd => self.checked(Zstd::new(start, end, 0)),
            Method::Xz => self.checked(Xz::new(raw, start, end)?),
            Method::Lzma => self.checked(Lzma::new(raw, start, end, self.plain_len)?),
            Method::Bzip2 => self.checked(Bzip2::new(start, end, raw)?),
        })
    }
}

impl Source {
    fn checked<D: Decoder + 'static>(&self, decoder: D) -> Box<dyn Decoder> {
        Box::new(Checked {
            decoder,
            length: self.plain_len,
            crc: 0,
            stated: self.crc,
        })
    }
}

/// A decoder that started at the member's start, and verifies length and CRC-32 with the last byte.
struct Checked<D> {
    decoder: D,
    length: u64,
    crc: u32,
    stated: u32,
}

impl<D: Decoder> Decoder for Checked<D> {
    fn position(&self) -> u64 {
        self.decoder.position()
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let before = self.decoder.position();
        let piece = self.decoder.next(raw, wanted)?;
        let at = before + piece.len() as u64;
        self.crc = crc32(self.crc, piece);
        if at > self.length || (piece.is_empty() && at < self.length) {
            return Err(damaged(format!(
                "the data is not {} bytes long, as its header says",
                self.length
            )));
        }
        if at == self.length && self.crc != self.stated {
            return Err(damaged("the checksum differs"));
        }
        Ok(piece)
    }

    fn memory(&self) -> usize {
        self.decoder.memory()
    }
}

enum Kind {
    Stored { start: u64, length: u64 },
    Packed(Cached<Source>),
}

/// The data of one zip member, readable from any offset.
///
/// Reading backwards starts decoding anew from the member's start, unless the bytes are still in the cache (512 KiB). The CRC-32 is verified when the last byte is decoded;
/// of a stored member it is not: its bytes go to the reader untouched.
pub struct Member {
    raw: Arc<dyn Bytes>,
    kind: Kind,
}

impl Member {
    /// The member whose data lies at `data_offset`, `compressed_len` bytes of compression `method`, `plain_len` bytes with CRC-32 `crc32` when decoded.
    /// Nothing is read yet. `EOPNOTSUPP` with a cause for a method that is not known; `EIO` when the data does not lie in the archive.
    pub fn open(
        method: u16,
        raw: Arc<dyn Bytes>,
        data_offset: u64,
        compressed_len: u64,
        plain_len: u64,
        crc32: u32,
    ) -> Result<Self> {
        let end = data_offset
            .checked_add(compressed_len)
            .filter(|&end| end <= raw.len())
            .ok_or_else(|| damaged("truncated: the data ends behind the end of the archive"))?;
        let kind = if method == 0 {
            if compressed_len != plain_len {
                return Err(damaged("a stored member has two lengths"));
            }
            Kind::Stored {
                start: data_offset,
                length: plain_len,
            }
        } else {
            let method = Method::from_number(method).ok_or_else(|| {
                Error::because(
                    Errno::EOPNOTSUPP,
                    format!(
                        "compression method {method} ({}) is not supported",
                        name(method)
                    ),
                )
            })?;
            let source = Source {
                method,
                start: data_offset,
                end,
                plain_len,
                crc: crc32,
            };
            Kind::Packed(Cached::new(raw.clone(), source, CHUNKS))
        };
        Ok(Self { raw, kind })
    }

    /// Reads plain bytes from `offset` on into `out` until it is full or the member ends, and returns how many: 0 only at or past the end, or when
    /// nothing is wanted. `EIO` with a cause when the data is damaged; an error after some bytes is a short read.
    pub fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        match &self.kind {
            Kind::Packed(packed) => packed.read_at(offset, out),
            Kind::Stored { start, length } => {
                let rest = length.saturating_sub(offset);
                match rest {
                    0 => Ok(0),
                    rest => self.raw.copy_to(start + offset, rest, out),
                }
            }
        }
    }
}

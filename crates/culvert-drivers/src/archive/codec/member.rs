//! The compressed data of a zip member.

use super::{
    bzip2::Bzip2,
    checkpoints::Point,
    crc::crc32,
    damaged,
    decoder::Decoder,
    deflate::{Deflate, Deflated},
    lzma::Lzma,
    stream::{Cached, Opener},
    verify,
    zstd::Zstd,
};
use crate::archive::bytes::Bytes;
use alloc::{boxed::Box, format, sync::Arc};
use culvert::{Errno, Error, Result, Sink};

/// Chunks of 64 KiB that a member keeps.
const CHUNKS: usize = 8;

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

/// Opens decoders of a deflated member.
struct Inflating(Arc<Deflated>);

impl Opener for Inflating {
    fn plain_len(&self) -> u64 {
        self.0.length
    }

    fn find(&self, plain: u64) -> Result<Point> {
        Ok(Point {
            plain: self.0.find(plain),
            ..Point::default()
        })
    }

    fn open(&self, raw: &dyn Bytes, point: &Point) -> Result<Box<dyn Decoder>> {
        Ok(Box::new(Deflate::open(&self.0, raw, point.plain)?))
    }
}

/// Opens decoders at the start of a member.
struct FromStart {
    /// APPNOTE.TXT 4.4.5: one of those that [`Member::open`] knows.
    method: u16,
    start: u64,
    end: u64,
    plain_len: u64,
    crc: u32,
}

impl Opener for FromStart {
    fn plain_len(&self) -> u64 {
        self.plain_len
    }

    fn find(&self, _plain: u64) -> Result<Point> {
        Ok(Point::default())
    }

    fn open(&self, raw: &dyn Bytes, _point: &Point) -> Result<Box<dyn Decoder>> {
        let &Self { start, end, .. } = self;
        Ok(match self.method {
            12 => self.checked(Bzip2::new(start, end)),
            14 => self.checked(Lzma::bare(raw, start, end, self.plain_len)?),
            93 => self.checked(Zstd::new(start, end, 0)),
            _ => self.checked(Lzma::xz(start, end)),
        })
    }
}

impl FromStart {
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
        verify(at, piece.is_empty(), self.crc, self.length, self.stated)?;
        Ok(piece)
    }

    fn memory(&self) -> usize {
        self.decoder.memory()
    }
}

enum Kind {
    Stored { start: u64, length: u64 },
    Deflated(Cached<Inflating>),
    Packed(Cached<FromStart>),
}

/// The data of one zip member, readable from any offset.
///
/// Deflated members of 2 MiB and more get points as they are decoded, about every 1 MiB, so that
/// going back is cheap; with the other methods going back starts anew, unless the bytes are still
/// in the cache (512 KiB). The CRC-32 is verified when the last byte is decoded; of a stored member
/// it is not: its bytes go to the reader untouched.
pub struct Member {
    raw: Arc<dyn Bytes>,
    kind: Kind,
}

impl Member {
    /// The member whose data lies at `data_offset`, `compressed_len` bytes of compression `method`,
    /// `plain_len` bytes with CRC-32 `crc32` when decoded. Nothing is read yet. `EOPNOTSUPP` with a
    /// cause for a method that is not known; `EIO` when the data does not lie in the archive.
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
        let kind = match method {
            0 if compressed_len != plain_len => {
                return Err(damaged("a stored member has two lengths"));
            }
            0 => Kind::Stored {
                start: data_offset,
                length: plain_len,
            },
            8 | 9 => {
                let member = Deflated::new((data_offset, end), plain_len, crc32, method == 9);
                let member = Inflating(Arc::new(member));
                Kind::Deflated(Cached::new(raw.clone(), member, CHUNKS))
            }
            12 | 14 | 93 | 95 => {
                let source = FromStart {
                    method,
                    start: data_offset,
                    end,
                    plain_len,
                    crc: crc32,
                };
                Kind::Packed(Cached::new(raw.clone(), source, CHUNKS))
            }
            _ => {
                return Err(Error::because(
                    Errno::EOPNOTSUPP,
                    format!(
                        "compression method {method} ({}) is not supported",
                        name(method)
                    ),
                ));
            }
        };
        Ok(Self { raw, kind })
    }

    /// Reads plain bytes from `offset` on into `out` until it is full or the member ends, and
    /// returns how many: 0 only at or past the end, or when nothing is wanted. `EIO` with a cause
    /// when the data is damaged; an error after some bytes is a short read.
    pub fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        match &self.kind {
            Kind::Deflated(packed) => packed.read_at(offset, out),
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

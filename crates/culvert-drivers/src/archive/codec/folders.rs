//! Folders of 7z archives: stretches of plain bytes, each packed by methods of its own. The build
//! pass decodes all of them; long ones are spooled, as blocks of xz are.

use super::{
    Format, Options,
    bzip2::Bzip2,
    checkpoints::{Checkpoints, Point},
    damaged,
    decoder::Decoder,
    lzma::Lzma,
    spool::Spooler,
    zstd::Zstd,
};
use crate::archive::bytes::{Bytes, u32_at, u64_at};
use alloc::{boxed::Box, vec, vec::Vec};
use culvert::Result;

/// Plain bytes handed out at once.
const PIECE: usize = 128 << 10;
/// Folders of at least so many plain bytes are spooled.
const SPOOL_FROM: u64 = 2 << 20;

/// How the bytes of a folder are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Method {
    /// Not at all.
    Copy = 0,
    /// LZMA, with the size of its dictionary and its properties.
    Lzma = 1,
    /// LZMA2, with the size of its dictionary.
    Lzma2 = 2,
    /// bzip2.
    Bzip2 = 3,
    /// Zstandard.
    Zstd = 4,
}

/// A folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Where its packed bytes start and end in the archive.
    pub place: (u64, u64),
    /// How many plain bytes it has.
    pub plain: u64,
    /// How they are packed.
    pub method: Method,
    /// Size of the dictionary, bytes.
    pub dictionary: u32,
    /// LZMA's properties.
    pub properties: u8,
    /// The filter before LZMA2, as xz numbers them, and its property; 0: none.
    pub filter: (u8, u32),
}

const STORED: usize = 27;

impl Folder {
    fn encode(&self) -> Vec<u8> {
        let mut to = Vec::with_capacity(STORED);
        to.extend_from_slice(&self.place.1.to_le_bytes());
        to.extend_from_slice(&self.plain.to_le_bytes());
        to.extend_from_slice(&self.dictionary.to_le_bytes());
        to.extend_from_slice(&[self.method as u8, self.properties]);
        to.extend_from_slice(&self.filter.1.to_le_bytes());
        to.push(self.filter.0);
        to
    }

    fn decode(start: u64, from: &[u8]) -> Option<Self> {
        let from = from.first_chunk::<STORED>()?;
        Some(Self {
            place: (start, u64_at(from, 0)),
            plain: u64_at(from, 8),
            dictionary: u32_at(from, 16),
            method: match from[20] {
                0 => Method::Copy,
                1 => Method::Lzma,
                2 => Method::Lzma2,
                3 => Method::Bzip2,
                4 => Method::Zstd,
                _ => return None,
            },
            properties: from[21],
            filter: (from[26], u32_at(from, 22)),
        })
    }

    /// Decodes it from its start, which is plain byte `plain` of all.
    fn decoder(&self, plain: u64) -> Result<Box<dyn Decoder>> {
        let (start, end) = self.place;
        let shifted = |decoder: Box<dyn Decoder>| {
            Box::new(Shifted {
                decoder,
                by: plain,
                left: self.plain,
            })
        };
        Ok(match self.method {
            Method::Copy => shifted(Box::new(Copied {
                at: start,
                end,
                plain: 0,
                piece: Vec::new(),
            })),
            Method::Lzma => shifted(Box::new(Lzma::with_properties(
                self.place,
                (self.properties, self.dictionary),
                self.plain,
            )?)),
            Method::Lzma2 => shifted(Box::new(Lzma::lzma2(
                self.place,
                self.dictionary
                    .min(u32::try_from(self.plain).unwrap_or(u32::MAX)),
                self.filter,
            )?)),
            Method::Bzip2 => shifted(Box::new(Bzip2::new(start, end))),
            Method::Zstd => shifted(Box::new(Zstd::new(start, end, 0))),
        })
    }
}

/// Bytes as they are.
struct Copied {
    at: u64,
    end: u64,
    plain: u64,
    piece: Vec<u8>,
}

impl Decoder for Copied {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let wanted = (wanted.clamp(1, PIECE) as u64).min(self.end.saturating_sub(self.at));
        self.piece.resize(wanted as usize, 0);
        let count = raw.read_at(self.at, &mut self.piece)?;
        self.piece.truncate(count);
        self.at += count as u64;
        self.plain += count as u64;
        Ok(&self.piece)
    }

    fn memory(&self) -> usize {
        self.piece.capacity()
    }
}

/// A decoder whose first byte is not the first of all, and which has no more than it should.
struct Shifted {
    decoder: Box<dyn Decoder>,
    by: u64,
    left: u64,
}

impl Decoder for Shifted {
    fn position(&self) -> u64 {
        self.by + self.decoder.position()
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        if self.left == 0 {
            return Ok(&[]);
        }
        let piece = self.decoder.next(raw, wanted)?;
        if piece.len() as u64 > self.left {
            return Err(damaged("a folder of the 7z archive is longer than it says"));
        }
        if piece.is_empty() {
            return Err(damaged(
                "a folder of the 7z archive is shorter than it says",
            ));
        }
        self.left -= piece.len() as u64;
        Ok(piece)
    }

    fn ended(&self) -> bool {
        self.left == 0
    }

    fn memory(&self) -> usize {
        self.decoder.memory()
    }
}

/// The folder at `point` of the table.
pub fn open(table: &Checkpoints, point: &Point) -> Result<Box<dyn Decoder>> {
    let folder = Folder::decode(point.raw, &table.stored(point)?);
    let folder = folder.ok_or_else(|| damaged("the index is damaged: a point has no folder"))?;
    folder.decoder(point.extra)
}

/// One pass over all `folders` of `raw`: all plain bytes to `sink`, the seek table out.
pub fn build(
    raw: &dyn Bytes,
    folders: &[Folder],
    options: &Options,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let mut spooler = Spooler::new(SPOOL_FROM, options.spool);
    let mut plain: u64 = 0;
    for folder in folders.iter().filter(|folder| folder.plain > 0) {
        spooler.begin(folder.place.0, Some(folder.plain), folder.encode());
        let mut decoder = folder.decoder(plain)?;
        while !decoder.ended() {
            let piece = decoder.next(raw, PIECE)?;
            spooler.feed(piece);
            sink(piece)?;
        }
        spooler.end();
        progress(folder.place.1);
        plain = plain
            .checked_add(folder.plain)
            .ok_or_else(|| damaged("the folders of the 7z archive are too long"))?;
    }
    spooler.finish().finish(Format::SevenZip, plain, raw.len())
}

/// All plain bytes of `folder`, at most `most`.
pub fn unpack(raw: &dyn Bytes, folder: &Folder, most: usize) -> Result<Vec<u8>> {
    if folder.plain > most as u64 {
        return Err(damaged("the header of the 7z archive is too long"));
    }
    let mut all = vec![];
    let mut decoder = folder.decoder(0)?;
    while !decoder.ended() {
        all.extend_from_slice(decoder.next(raw, PIECE)?);
    }
    Ok(all)
}

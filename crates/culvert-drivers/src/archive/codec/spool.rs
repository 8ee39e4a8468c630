//! Long stretches that can be decoded only from their start (a zstd frame, an xz block) are stored
//! in the seek table once more, in chunks of 64 KiB that a fast compression makes small: else every
//! process that reads a byte near the end would decode all that lies before.
//!
//! Short stretches are not worth it, and the budget bounds the table; what lies behind it is
//! decoded from the start of its stretch.

use super::{
    checkpoints::{Builder, Checkpoints, Point},
    damaged,
    decoder::Decoder,
    lz,
};
use crate::archive::bytes::Bytes;
use alloc::vec::Vec;
use culvert::Result;

/// Plain bytes decoded at once.
const PIECE: usize = 128 << 10;
/// Plain bytes of a chunk.
const CHUNK: usize = lz::LONGEST;

/// `Point::kind` of a place in a stretch: decoding starts at `raw`, where the plain offset is
/// `extra`.
pub const STRETCH: u32 = 1;
/// `Point::kind` of a stored chunk.
pub const CHUNK_HERE: u32 = 2;

/// Adds stretches to a table.
pub struct Spooler {
    builder: Builder,
    /// Stretches shorter than this are decoded from their start.
    least: u64,
    /// Bytes that may still be stored.
    budget: u64,
    /// The present stretch, and what the table was before it.
    stretch: Point,
    stored: Vec<u8>,
    before: (usize, usize),
    plain: u64,
    chunk: Vec<u8>,
    spools: bool,
}

impl Spooler {
    /// Spools stretches of `least` plain bytes or more, as long as no more than `budget` bytes are
    /// stored.
    pub fn new(least: u64, budget: u64) -> Self {
        Self {
            builder: Builder::new(),
            least,
            budget,
            stretch: Point::default(),
            stored: Vec::new(),
            before: (0, 0),
            plain: 0,
            chunk: Vec::new(),
            spools: false,
        }
    }

    /// A stretch starts at `raw`; `stored` is what else the format has to say of it, `length` its
    /// plain length where it is known.
    pub fn begin(&mut self, raw: u64, length: Option<u64>, stored: Vec<u8>) {
        self.stretch = Point {
            plain: self.plain,
            raw,
            extra: self.plain,
            kind: STRETCH,
            ..Point::default()
        };
        self.stored = stored;
        self.builder.add(self.stretch, &self.stored);
        self.before = self.builder.mark();
        self.spools = self.budget > 0 && length.is_none_or(|length| length >= self.least);
    }

    /// The next plain bytes of the stretch.
    pub fn feed(&mut self, mut piece: &[u8]) {
        if !self.spools {
            self.plain += piece.len() as u64;
            return;
        }
        self.chunk.reserve_exact(CHUNK - self.chunk.len());
        while let Some(part) = piece.split_off(..piece.len().min(CHUNK - self.chunk.len()))
            && !part.is_empty()
        {
            self.chunk.extend_from_slice(part);
            self.plain += part.len() as u64;
            if self.chunk.len() == CHUNK {
                self.store();
            }
        }
    }

    /// The whole of a stretch, which `decoder` decodes from its start to the end of `raw`: all
    /// plain bytes go to `sink` too, and `progress` is told where `raw_position` is. Returns how
    /// many plain bytes there are.
    pub fn feed_all<D: Decoder>(
        &mut self,
        raw: &dyn Bytes,
        (decoder, raw_position): (&mut D, fn(&D) -> u64),
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
        progress: &mut dyn FnMut(u64),
    ) -> Result<u64> {
        let mut plain = 0;
        loop {
            let piece = decoder.next(raw, PIECE)?;
            if piece.is_empty() {
                return Ok(plain);
            }
            plain += piece.len() as u64;
            self.feed(piece);
            sink(piece)?;
            progress(raw_position(decoder));
        }
    }

    /// The stretch has ended.
    pub fn end(&mut self) {
        if self.plain - self.stretch.plain < self.least {
            self.budget += self.builder.roll_back(self.before);
            self.chunk.clear();
        } else if self.spools && !self.chunk.is_empty() {
            self.store();
        }
        self.spools = false;
    }

    fn store(&mut self) {
        let plain = self.plain - self.chunk.len() as u64;
        if self.budget < CHUNK as u64 * 2 {
            // Enough: from here on decoding starts where the stretch does.
            if self.builder.last_kind() == Some(CHUNK_HERE) {
                let point = Point {
                    plain,
                    ..self.stretch
                };
                self.builder.add(point, &self.stored);
            }
        } else {
            let point = Point {
                plain,
                kind: CHUNK_HERE,
                ..Point::default()
            };
            self.budget -= self.builder.add(point, &lz::compress(&self.chunk));
        }
        self.chunk.clear();
    }

    /// The builder, with all that was added.
    pub fn finish(self) -> Builder {
        self.builder
    }
}

/// Reads stored chunks.
pub struct Spooled {
    table: Checkpoints,
    index: u64,
    plain: u64,
    chunk: Vec<u8>,
}

impl Spooled {
    /// From chunk number `index` of the table on, as far as chunks follow each other.
    pub fn open(table: &Checkpoints, index: u64, point: &Point) -> Self {
        Self {
            table: table.clone(),
            index,
            plain: point.plain,
            chunk: Vec::new(),
        }
    }
}

impl Decoder for Spooled {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, _raw: &dyn Bytes, _wanted: usize) -> Result<&[u8]> {
        let point = self.table.point(self.index)?;
        if point.kind != CHUNK_HERE || point.plain != self.plain {
            return Err(damaged("the index is damaged: a stored chunk is missing"));
        }
        self.chunk = lz::decompress(&self.table.stored(&point)?, CHUNK)?;
        self.plain += self.chunk.len() as u64;
        self.index += 1;
        Ok(&self.chunk)
    }

    fn ended(&self) -> bool {
        !self
            .table
            .point(self.index)
            .is_ok_and(|point| point.kind == CHUNK_HERE)
    }

    fn memory(&self) -> usize {
        CHUNK
    }
}

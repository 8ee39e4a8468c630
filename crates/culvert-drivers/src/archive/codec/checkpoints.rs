//! The seek table: where decoding can start, and what must be known to start there.
//!
//! The encoded form is the working form: a process maps the cached table and looks into it with a
//! few small reads, so that opening costs the same whatever the size of the archive. All numbers
//! are little-endian.
//!
//! ```text
//! 0   8  "CulvSeek"
//! 8   4  version (4)
//! 12  4  format
//! 16  8  length of the plain data
//! 24  8  where the compressed data ends in the archive (what follows is padding or garbage)
//! 32  8  number of points
//! 40  8  length of the stored bytes
//! 48  12 0
//! 60  4  CRC-32 of the bytes before
//! 64     the stored bytes; then the points, 40 bytes each, in order of plain offset
//! ```

use super::{Format, crc::crc32, damaged};
use crate::archive::bytes::{Bytes, u32_at, u64_at};
use alloc::{sync::Arc, vec, vec::Vec};
use culvert::Result;

const MAGIC: &[u8; 8] = b"CulvSeek";
const VERSION: u32 = 4;
const HEADER: usize = 64;
const POINT: usize = 40;

/// A place where decoding can start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Offset of the first plain byte that is decoded from here.
    pub plain: u64,
    /// Where in the archive; bytes or bits, as the format has it.
    pub raw: u64,
    /// What else the format needs to know.
    pub extra: u64,
    /// What kind of point, as the format has it.
    pub kind: u32,
    /// Where its stored bytes start, among all stored bytes.
    pub stored_at: u64,
    /// How many stored bytes it has.
    pub stored: u32,
}

/// A seek table, in memory or mapped.
#[derive(Clone)]
pub struct Checkpoints {
    table: Arc<dyn Bytes>,
    /// The same, when it was made in memory and starts at 0.
    own: Option<Arc<Vec<u8>>>,
    offset: u64,
    format: Format,
    plain_length: u64,
    raw_end: u64,
    points: u64,
    stored: u64,
}

fn broken() -> culvert::Error {
    damaged("the index is damaged: its seek table does not hold together")
}

impl Checkpoints {
    /// The table that lies at `offset` of `table`, without copying it. `EIO` when it is damaged;
    /// its points are checked as they are used.
    pub fn view(table: Arc<dyn Bytes>, offset: u64) -> Result<Self> {
        let mut header = [0; HEADER];
        table.read_exact_at(offset, &mut header)?;
        let (word, long) = (|at| u32_at(&header, at), |at| u64_at(&header, at));
        if !header.starts_with(MAGIC) || word(8) != VERSION || word(60) != crc32(0, &header[..60]) {
            return Err(broken());
        }
        let checkpoints = Self {
            format: u8::try_from(word(12))
                .ok()
                .and_then(Format::from_number)
                .ok_or_else(broken)?,
            plain_length: long(16),
            raw_end: long(24),
            points: long(32),
            stored: long(40),
            own: None,
            table,
            offset,
        };
        let end = checkpoints
            .encoded_len()
            .and_then(|length| length.checked_add(offset));
        if checkpoints.points == 0 || end.is_none_or(|end| end > checkpoints.table.len()) {
            return Err(broken());
        }
        Ok(checkpoints)
    }

    /// A copy of the table that [`Checkpoints::encode`] gave. `EIO` when it is damaged.
    pub fn decode(encoded: &[u8]) -> Result<Self> {
        Self::view(Arc::new(encoded.to_vec()), 0)
    }

    /// The table as bytes, for the cache.
    pub fn encode(mut self) -> Vec<u8> {
        // Not copied when it was just built: it can be large.
        let own = self.own.take().map(|own| {
            self.table = Arc::new(Vec::new());
            Arc::try_unwrap(own)
        });
        match own {
            Some(Ok(bytes)) => return bytes,
            Some(Err(shared)) => return (*shared).clone(),
            None => {}
        }
        let length = self.encoded_len().and_then(|n| usize::try_from(n).ok());
        let mut bytes = vec![0; length.unwrap_or(0)];
        // The table is in memory, or its damage shows when the copy is decoded.
        let _ = self.table.read_at(self.offset, &mut bytes);
        bytes
    }

    fn encoded_len(&self) -> Option<u64> {
        self.points
            .checked_mul(POINT as u64)?
            .checked_add(self.stored)?
            .checked_add(HEADER as u64)
    }

    /// The format of the compressed data.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Length of the plain data, bytes.
    pub fn plain_len(&self) -> u64 {
        self.plain_length
    }

    /// Where the compressed data ends in the archive; what follows is padding, or garbage that was
    /// ignored.
    pub fn raw_end(&self) -> u64 {
        self.raw_end
    }

    /// Number of places where decoding can start.
    pub fn count(&self) -> u64 {
        self.points
    }

    /// Point number `index`.
    pub fn point(&self, index: u64) -> Result<Point> {
        if index >= self.points {
            return Err(broken());
        }
        let mut bytes = [0; POINT];
        self.table.read_exact_at(
            self.offset + HEADER as u64 + self.stored + index * POINT as u64,
            &mut bytes,
        )?;
        Ok(Point {
            plain: u64_at(&bytes, 0),
            raw: u64_at(&bytes, 8),
            extra: u64_at(&bytes, 16),
            stored_at: u64_at(&bytes, 24),
            stored: u32_at(&bytes, 32),
            kind: u32_at(&bytes, 36),
        })
    }

    /// The last point at or before plain offset `plain`, and the number it has.
    pub fn find(&self, plain: u64) -> Result<(u64, Point)> {
        let (mut low, mut high) = (0, self.points);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.point(middle)?.plain <= plain {
                low = middle;
            } else {
                high = middle;
            }
        }
        let point = self.point(low)?;
        if point.plain > plain {
            return Err(broken());
        }
        Ok((low, point))
    }

    /// The stored bytes of `point`.
    pub fn stored(&self, point: &Point) -> Result<Vec<u8>> {
        let end = point.stored_at.checked_add(point.stored.into());
        if end.is_none_or(|end| end > self.stored) {
            return Err(broken());
        }
        let mut bytes = vec![0; point.stored as usize];
        let start = self.offset + HEADER as u64;
        self.table
            .read_exact_at(start + point.stored_at, &mut bytes)?;
        Ok(bytes)
    }
}

/// A table in the making.
pub struct Builder {
    points: Vec<Point>,
    /// Room for the header, then the stored bytes: the table as it will be.
    bytes: Vec<u8>,
}

impl Builder {
    /// An empty table.
    pub fn new() -> Self {
        Self {
            points: Vec::new(),
            bytes: vec![0; HEADER],
        }
    }

    /// Adds a point behind all others, with its stored bytes. Returns how many bytes the table grew
    /// by.
    pub fn add(&mut self, mut point: Point, stored: &[u8]) -> u64 {
        point.stored_at = (self.bytes.len() - HEADER) as u64;
        point.stored = stored.len() as u32;
        self.bytes.extend_from_slice(stored);
        self.points.push(point);
        u64::from(point.stored) + POINT as u64
    }

    /// What there is now, for [`Builder::roll_back`].
    pub fn mark(&self) -> (usize, usize) {
        (self.points.len(), self.bytes.len())
    }

    /// Drops what was added since `mark`; returns how many bytes.
    pub fn roll_back(&mut self, mark: (usize, usize)) -> u64 {
        let dropped = (self.points.len() - mark.0) * POINT + self.bytes.len() - mark.1;
        self.points.truncate(mark.0);
        self.bytes.truncate(mark.1);
        dropped as u64
    }

    /// Kind of the last point.
    pub fn last_kind(&self) -> Option<u32> {
        self.points.last().map(|point| point.kind)
    }

    /// Plain offset of the last point.
    pub fn last(&self) -> Option<u64> {
        self.points.last().map(|point| point.plain)
    }

    /// The table.
    pub fn finish(mut self, format: Format, plain: u64, raw_end: u64) -> Result<Checkpoints> {
        if self.points.is_empty() {
            self.points.push(Point::default());
        }
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&VERSION.to_le_bytes());
        header.extend_from_slice(&(format as u32).to_le_bytes());
        for number in [
            plain,
            raw_end,
            self.points.len() as u64,
            (self.bytes.len() - HEADER) as u64,
        ] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        header.extend_from_slice(&[0; 12]);
        header.extend_from_slice(&crc32(0, &header).to_le_bytes());
        let mut bytes = self.bytes;
        bytes[..HEADER].copy_from_slice(&header);
        bytes.reserve_exact(self.points.len() * POINT);
        for point in &self.points {
            for number in [point.plain, point.raw, point.extra, point.stored_at] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            bytes.extend_from_slice(&point.stored.to_le_bytes());
            bytes.extend_from_slice(&point.kind.to_le_bytes());
        }
        let own = Arc::new(bytes);
        let mut checkpoints = Checkpoints::view(own.clone(), 0)?;
        checkpoints.own = Some(own);
        Ok(checkpoints)
    }
}

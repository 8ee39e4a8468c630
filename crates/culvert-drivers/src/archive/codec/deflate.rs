//! Bare deflate and deflate64, as zip members have it.
//!
//! The index of a zip archive has no points inside members. So a long member gets some in memory,
//! as it is decoded for the first time: then going back in it is as cheap as in a gzip file.

use super::{
    crc::crc32,
    decoder::Decoder,
    inflate::{BlockStart, HISTORY, Inflate, Pause, window::Window},
    input::Input,
    lz,
    member::verify,
};
use crate::archive::bytes::Bytes;
use alloc::{sync::Arc, vec::Vec};
use culvert::{Result, sync::Mutex};

/// Plain bytes decoded at once.
const PIECE: usize = 128 << 10;
/// Sets of buffers kept for the next member, 250 KiB each: making and touching them anew would take
/// longer than a small member does.
const KEPT: usize = 4;

/// What a decoder works with.
struct Parts {
    input: Input,
    inflate: Inflate,
    window: Window,
}

static POOL: Mutex<Vec<Parts>> = Mutex::new(Vec::new());

/// Members shorter than this get no points, bytes.
const POINTS_FROM: u64 = 2 << 20;
/// Most points of a member: when there are more, every other is dropped. At most 4 MiB.
const POINTS: usize = 128;

/// A place where decoding can go on.
struct Point {
    plain: u64,
    place: BlockStart,
    crc: u32,
    /// Length of the window, and the window packed.
    window: (usize, Vec<u8>),
}

/// The points of a member so far, in order, and their least distance.
struct Points {
    points: Vec<Point>,
    spacing: u64,
}

/// A deflated member: where it lies, what it must give, and where decoding can start.
pub struct Deflated {
    /// Where the stream starts and ends in the archive.
    pub place: (u64, u64),
    /// Plain length, bytes.
    pub length: u64,
    /// CRC-32 of the plain bytes.
    pub crc: u32,
    /// Deflate64, not deflate.
    pub deflate64: bool,
    points: Mutex<Points>,
}

impl Deflated {
    pub fn new(place: (u64, u64), length: u64, crc: u32, deflate64: bool) -> Self {
        Self {
            place,
            length,
            crc,
            deflate64,
            points: Mutex::new(Points {
                points: Vec::new(),
                spacing: 1 << 20,
            }),
        }
    }

    /// The last plain offset at or before `plain` where decoding can start.
    pub fn find(&self, plain: u64) -> u64 {
        let points = &self.points.lock().points;
        let before = points.partition_point(|point| point.plain <= plain);
        before.checked_sub(1).map_or(0, |last| points[last].plain)
    }

    /// Adds a point where the decoder stands, if one is due; false when it stands inside a match
    /// and that must be finished first.
    fn note(&self, plain: u64, crc: u32, parts: &Parts) -> bool {
        if self.length < POINTS_FROM {
            return true;
        }
        let Points { points, spacing } = &mut *self.points.lock();
        let last = points.last().map_or(0, |point| point.plain);
        if plain < last + *spacing {
            return true;
        }
        let Some(place) = parts.inflate.place(&parts.input) else {
            return false;
        };
        let (past, mut packed) = (parts.window.past(), Vec::new());
        lz::compress(past, &mut packed);
        points.push(Point {
            plain,
            place,
            crc,
            window: (past.len(), packed),
        });
        if points.len() > POINTS {
            let mut keep = false;
            points.retain(|_| {
                keep = !keep;
                !keep
            });
            *spacing *= 2;
        }
        true
    }
}

/// Decodes one member.
pub struct Deflate {
    member: Arc<Deflated>,
    /// None only while it is dropped.
    parts: Option<Parts>,
    plain: u64,
    crc: u32,
    ended: bool,
}

impl Deflate {
    /// From the last place at or before plain offset `plain` where decoding can start.
    pub fn open(member: &Arc<Deflated>, raw: &dyn Bytes, plain: u64) -> Result<Self> {
        let kept = match member.deflate64 {
            true => None,
            false => POOL.lock().pop(),
        };
        let mut parts = kept.unwrap_or_else(|| Parts {
            input: Input::new(0, u64::MAX),
            inflate: Inflate::new(member.deflate64),
            window: Window::new(HISTORY[usize::from(member.deflate64)], PIECE),
        });
        let (start, end) = member.place;
        parts.input.restart(start, end);
        parts.inflate.restart();
        parts.window.reset(&[]);
        let (mut at, mut crc) = (0, 0);
        {
            let points = &member.points.lock().points;
            let before = points.partition_point(|point| point.plain <= plain);
            if let Some(point) = before.checked_sub(1).map(|last| &points[last]) {
                let (length, packed) = &point.window;
                parts.window.reset(&lz::decompress(packed, *length)?);
                parts.inflate.resume(point.place, &mut parts.input, raw)?;
                (at, crc) = (point.plain, point.crc);
            }
        }
        Ok(Self {
            member: member.clone(),
            parts: Some(parts),
            plain: at,
            crc,
            ended: false,
        })
    }
}

impl Drop for Deflate {
    fn drop(&mut self) {
        if let Some(parts) = self.parts.take()
            && !self.member.deflate64
        {
            let mut pool = POOL.lock();
            if pool.len() < KEPT {
                pool.push(parts);
            }
        }
    }
}

impl Decoder for Deflate {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let Some(parts) = &mut self.parts else {
            return Ok(&[]);
        };
        if self.ended {
            return Ok(&[]);
        }
        let wanted = match self.member.note(self.plain, self.crc, parts) {
            true => wanted,
            false => wanted.min(parts.inflate.cut()),
        };
        let limit = parts.window.make_room(wanted.clamp(1, PIECE));
        let pause = parts
            .inflate
            .run(&mut parts.input, raw, &mut parts.window, limit)?;
        self.ended = pause == Pause::End;
        let piece = parts.window.hand_out();
        self.plain += piece.len() as u64;
        self.crc = crc32(self.crc, piece);
        verify(
            self.plain,
            self.ended,
            self.crc,
            self.member.length,
            self.member.crc,
        )?;
        Ok(piece)
    }

    fn memory(&self) -> usize {
        self.parts.as_ref().map_or(0, |parts| {
            parts.input.memory() + parts.window.memory() + parts.inflate.memory()
        })
    }
}

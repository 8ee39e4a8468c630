//! Bare deflate and deflate64, as zip members have it.
//!
//! The index of a zip archive has no points inside members. So a long member gets some in memory,
//! as it is decoded for the first time: then going back in it is as cheap as in a gzip file.

use super::{
    crc::crc32,
    decoder::Decoder,
    inflate::{BlockStart, Inflate, Pause},
    lz, verify,
};
use crate::archive::bytes::Bytes;
use alloc::{sync::Arc, vec::Vec};
use culvert::{Result, sync::Mutex};

/// Sets of buffers kept for the next member, 250 KiB each: making and touching them anew would take
/// longer than a small member does.
const KEPT: usize = 4;

static POOL: Mutex<Vec<Inflate>> = Mutex::new(Vec::new());

/// Members shorter than this get no points, bytes.
const POINTS_FROM: u64 = 2 << 20;
/// Most points of a member: when there are more, every other is dropped. At most 4 MiB.
const POINTS: usize = 128;

/// A place where decoding can go on.
struct Point {
    plain: u64,
    place: BlockStart,
    crc: u32,
    /// The window, packed.
    window: Vec<u8>,
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
    fn note(&self, plain: u64, crc: u32, inflate: &Inflate) -> bool {
        if self.length < POINTS_FROM {
            return true;
        }
        let Points { points, spacing } = &mut *self.points.lock();
        let last = points.last().map_or(0, |point| point.plain);
        if plain < last + *spacing {
            return true;
        }
        let Some(place) = inflate.place() else {
            return false;
        };
        points.push(Point {
            plain,
            place,
            crc,
            window: lz::compress(inflate.window.past()),
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
    inflate: Option<Inflate>,
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
        let mut inflate = kept.unwrap_or_else(|| Inflate::new(member.deflate64, 0, u64::MAX));
        let (start, end) = member.place;
        inflate.input.restart(start, end);
        inflate.restart();
        inflate.window.reset(&[]);
        let (mut at, mut crc) = (0, 0);
        {
            let points = &member.points.lock().points;
            let before = points.partition_point(|point| point.plain <= plain);
            if let Some(point) = before.checked_sub(1).map(|last| &points[last]) {
                inflate.resume(point.place, &point.window, raw)?;
                (at, crc) = (point.plain, point.crc);
            }
        }
        Ok(Self {
            member: member.clone(),
            inflate: Some(inflate),
            plain: at,
            crc,
            ended: false,
        })
    }
}

impl Drop for Deflate {
    fn drop(&mut self) {
        if let Some(inflate) = self.inflate.take()
            && !self.member.deflate64
        {
            let mut pool = POOL.lock();
            if pool.len() < KEPT {
                pool.push(inflate);
            }
        }
    }
}

impl Decoder for Deflate {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let Some(inflate) = &mut self.inflate else {
            return Ok(&[]);
        };
        if self.ended {
            return Ok(&[]);
        }
        let wanted = match self.member.note(self.plain, self.crc, inflate) {
            true => wanted,
            false => wanted.min(inflate.cut()),
        };
        self.ended = inflate.run(raw, wanted)? == Pause::End;
        let piece = inflate.window.hand_out();
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
        self.inflate.as_ref().map_or(0, Inflate::memory)
    }
}

//! gzip (RFC 1952): members one after another, each a deflate stream.
//!
//! The seek table has a point at every member's start that is [`MEMBER_SPACING`] behind the last
//! one (so BGZF and pigz -i need no windows), and, within a member, one every [`SPACING`] plain
//! bytes: the bit positions of the block header and of the next symbol, and the 32 KiB before, of
//! which only what is referred to is kept.
//!
//! Data behind a member that is not another member is ignored, as gzip(1) does (zero padding of
//! tapes, garbage).

use super::{
    Format,
    checkpoints::{Builder, Checkpoints, Point},
    crc::crc32,
    damaged,
    decoder::Decoder,
    inflate::{BlockStart, HISTORY, Inflate, PIECE, Pause},
    lz,
};
use crate::archive::bytes::Bytes;
use alloc::{format, vec::Vec};
use culvert::Result;

/// Plain bytes between two points inside a member: what a random read decodes at most, 1 to 2 ms.
pub const SPACING: u64 = 512 << 10;
/// Least plain bytes between two points at members' starts.
pub const MEMBER_SPACING: u64 = 128 << 10;

/// `Point::kind` of a member's start; `raw` is its bit position.
const MEMBER: u32 = 1;
/// `Point::kind` inside a member; `raw` and `extra` are [`BlockStart::next`] and
/// [`BlockStart::header`], the window is stored.
const INSIDE: u32 = 2;

/// Whether `prefix` starts a member: magic, method deflate, no reserved flags.
pub fn is_member(prefix: &[u8]) -> bool {
    matches!(prefix, [0x1f, 0x8b, 8, flags, ..] if flags & 0xe0 == 0)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Between,
    Inside,
    End,
}

/// Decodes members from a point on.
pub struct Gzip {
    inflate: Inflate,
    stage: Stage,
    /// Plain offset of the next byte to hand out.
    plain: u64,
    /// Where the last whole member ended in the archive.
    raw_end: u64,
    members: u64,
    /// Plain offset where the member started, and the CRC-32 since; none when it was entered in its
    /// middle, or when nothing is checked.
    check: Option<(u64, u32)>,
    checks: bool,
}

impl Gzip {
    /// From the start; with `checks` the CRC and length of every member is verified.
    pub fn new(raw: &dyn Bytes, checks: bool) -> Self {
        Self {
            inflate: Inflate::new(false, 0, raw.len()),
            stage: Stage::Between,
            plain: 0,
            raw_end: 0,
            members: 0,
            check: None,
            checks,
        }
    }

    /// From `point` of the table.
    pub fn open(raw: &dyn Bytes, table: &Checkpoints, point: &Point) -> Result<Self> {
        let mut gzip = Self::new(raw, false);
        gzip.plain = point.plain;
        match point.kind {
            MEMBER => gzip.inflate.input.seek(point.raw / 8),
            INSIDE => {
                let place = BlockStart {
                    header: point.extra,
                    next: point.raw,
                };
                gzip.inflate.resume(place, &table.stored(point)?, raw)?;
                gzip.stage = Stage::Inside;
                gzip.members = 1;
            }
            _ => return Err(damaged("the index is damaged: a point has no kind")),
        }
        Ok(gzip)
    }

    /// Goes into the next member; false when there is none.
    fn begin(&mut self, raw: &dyn Bytes) -> Result<bool> {
        self.inflate.input.fill(raw, 18)?;
        if !is_member(self.inflate.input.available()) {
            if self.members == 0 {
                return Err(match self.inflate.input.available().len() {
                    0..10 => self.inflate.input.truncated("the gzip header"),
                    _ => damaged("not a gzip file"),
                });
            }
            self.stage = Stage::End;
            return Ok(false);
        }
        const NAME: &str = "a gzip header";
        let [_, _, _, flags, ..] = self.inflate.input.take::<10>(raw, NAME)?;
        if flags & 4 != 0 {
            let mut left = u16::from_le_bytes(self.inflate.input.take::<2>(raw, NAME)?);
            while left > 0 {
                self.inflate.input.take::<1>(raw, NAME)?;
                left -= 1;
            }
        }
        // File name and comment, each up to a NUL.
        for flag in [8, 16] {
            while flags & flag != 0 && self.inflate.input.take::<1>(raw, NAME)? != [0] {}
        }
        if flags & 2 != 0 {
            self.inflate.input.take::<2>(raw, NAME)?;
        }
        self.inflate.restart();
        self.inflate.window.forget();
        self.stage = Stage::Inside;
        self.check = self.checks.then_some((self.plain, 0));
        Ok(true)
    }

    /// Decodes up to `wanted` bytes of the present member; none at its end.
    fn inside(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        let pause = self.inflate.run(raw, wanted);
        self.plain += self.inflate.window.fresh().len() as u64;
        let pause = pause.map_err(|error| {
            let (member, plain) = (self.members + 1, self.plain);
            error.within(&format!("gzip member {member}, plain byte {plain}"))
        })?;
        if let Some((_, crc)) = &mut self.check {
            *crc = crc32(*crc, self.inflate.window.fresh());
        }
        if pause == Pause::End {
            self.members += 1;
            let trailer = self.inflate.input.take::<8>(raw, "a gzip trailer")?;
            let stated = u64::from_le_bytes(trailer);
            if let Some((start, crc)) = self.check.take() {
                let differs = match stated as u32 == crc {
                    false => "checksum",
                    true if (stated >> 32) as u32 != (self.plain - start) as u32 => "length",
                    true => "",
                };
                if !differs.is_empty() {
                    let member = self.members;
                    return Err(damaged(format!(
                        "gzip member {member}: the {differs} differs"
                    )));
                }
            }
            self.stage = Stage::Between;
            self.raw_end = self.inflate.input.position();
        }
        Ok(self.inflate.window.hand_out())
    }
}

impl Decoder for Gzip {
    fn position(&self) -> u64 {
        self.plain
    }

    fn next(&mut self, raw: &dyn Bytes, wanted: usize) -> Result<&[u8]> {
        loop {
            match self.stage {
                Stage::Between => {
                    if !self.begin(raw)? {
                        return Ok(&[]);
                    }
                }
                Stage::Inside => {
                    let before = self.plain;
                    self.inside(raw, wanted)?;
                    if self.plain > before {
                        let count = (self.plain - before) as usize;
                        return Ok(self.inflate.window.last(count));
                    }
                }
                Stage::End => return Ok(&[]),
            }
        }
    }

    fn memory(&self) -> usize {
        self.inflate.memory()
    }
}

/// One pass over the whole file: all plain bytes to `sink`, the seek table out.
pub fn build(
    raw: &dyn Bytes,
    sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    progress: &mut dyn FnMut(u64),
) -> Result<Checkpoints> {
    let mut gzip = Gzip::new(raw, true);
    let mut builder = Builder::new();
    loop {
        let start = gzip.inflate.input.position();
        if !gzip.begin(raw)? {
            break;
        }
        if builder
            .last()
            .is_none_or(|last| gzip.plain - last >= MEMBER_SPACING)
        {
            let point = Point {
                plain: gzip.plain,
                raw: start * 8,
                kind: MEMBER,
                ..Point::default()
            };
            builder.add(point, &[]);
        }
        // A point whose window is being thinned out: it is complete 32 KiB later.
        let mut pending: Option<(Point, Vec<u8>)> = None;
        while gzip.stage == Stage::Inside {
            let due = gzip.plain - builder.last().unwrap_or(0) >= SPACING;
            if pending.is_none()
                && due
                && let Some(place) = gzip.inflate.place()
            {
                let point = Point {
                    plain: gzip.plain,
                    raw: place.next,
                    extra: place.header,
                    kind: INSIDE,
                    ..Point::default()
                };
                pending = Some((point, gzip.inflate.window.past().to_vec()));
                gzip.inflate.track();
            }
            // Tracking is slower: only as long as it must be. A match that the last piece cut is
            // finished first.
            let wanted = match gzip.inflate.cut() {
                0 if pending.is_some() => HISTORY[0],
                cut if due && pending.is_none() => cut,
                _ => PIECE,
            };
            sink(gzip.inside(raw, wanted)?)?;
            progress(gzip.inflate.input.position());
            let ended = gzip.stage != Stage::Inside;
            if let Some(tracker) = gzip.inflate.tracked(ended)
                && let Some((point, mut window)) = pending.take()
            {
                tracker.thin(&mut window);
                builder.add(point, &lz::compress(&window));
            }
        }
    }
    builder.finish(Format::Gzip, gzip.plain, gzip.raw_end)
}

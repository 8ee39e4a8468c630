//! The merged index of a container: which bytes of the file are where.
//!
//! What one process writes in equal steps, as a checkpoint does, is one *run* however many records
//! it is; all else is an *extent* each, where later writes have cut earlier ones. A run keeps no
//! times: where two things claim a byte, its record is read again. So an index of a gigabyte of
//! strided writes costs a few hundred bytes, and one that is not regular at most
//! `Index::limit` extents.

use super::layout::Record;
use alloc::{collections::BTreeMap, format, vec::Vec};
use culvert::{Errno, Error, Result};

/// Fewer records in equal steps are extents.
const SHORTEST_RUN: usize = 32;
/// More runs would make lookups slow, since each looks at all.
const MOST_RUNS: usize = 1024;

/// Where a range of the file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// In a chunk (data dropping): its number, the offset there, how many bytes.
    Data(u32, u64, u64),
    /// Nowhere: so many zeroes.
    Hole(u64),
    /// Behind the end of the file.
    End,
}

#[derive(Clone, Copy, Debug)]
struct Extent {
    end: u64,
    physical: u64,
    chunk: u32,
    time: f64,
}

/// Records of one dropping in equal steps.
#[derive(Clone, Copy, Debug)]
struct Run {
    /// The dropping, and the number of the first record in it.
    from: (u32, u64),
    chunk: u32,
    logical: u64,
    physical: u64,
    /// From one record's offset to the next one's: at least `length`.
    stride: u64,
    length: u64,
    count: u64,
}

impl Run {
    fn reach(&self) -> u64 {
        self.logical + self.stride * (self.count - 1) + self.length
    }

    /// The number of the record that holds `offset`, or the offset at which the next one begins.
    fn find(&self, offset: u64) -> core::result::Result<u64, u64> {
        if offset < self.logical {
            return Err(self.logical);
        }
        if offset >= self.reach() {
            return Err(u64::MAX);
        }
        let at = ((offset - self.logical) / self.stride).min(self.count - 1);
        let start = self.logical + at * self.stride;
        match offset - start < self.length {
            true => Ok(at),
            false => Err(start + self.stride),
        }
    }
}

/// A record as [`Index::add`] takes it.
#[derive(Clone, Copy, Debug)]
pub struct Numbered {
    /// The record.
    pub record: Record,
    /// The number of its data dropping.
    pub chunk: u32,
    /// Which dropping has it, and as which record.
    pub from: (u32, u64),
}

/// When a record was written, by the dropping and its number there.
pub type TimeOf<'a> = &'a mut dyn FnMut((u32, u64)) -> Result<f64>;

/// Something that has the byte that is looked for.
struct Claim {
    time: Time,
    chunk: u32,
    physical: u64,
}

enum Time {
    Known(f64),
    Of((u32, u64)),
}

impl Claim {
    fn time(&mut self, time_of: TimeOf<'_>) -> Result<f64> {
        match self.time {
            Time::Known(time) => Ok(time),
            Time::Of(from) => {
                let time = time_of(from)?;
                self.time = Time::Known(time);
                Ok(time)
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Index {
    extents: BTreeMap<u64, Extent>,
    runs: Vec<Run>,
    size: u64,
    bytes: u64,
    limit: usize,
    /// Records that may become a run.
    pending: Vec<Numbered>,
}

impl Index {
    /// An empty one, of at most `limit` extents.
    pub const fn new(limit: usize) -> Self {
        Self {
            extents: BTreeMap::new(),
            runs: Vec::new(),
            size: 0,
            bytes: 0,
            limit,
            pending: Vec::new(),
        }
    }

    /// Bytes of the file.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Bytes written, those too that were written over since.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many extents and runs it has.
    pub fn parts(&self) -> (usize, usize) {
        (self.extents.len(), self.runs.len())
    }

    /// Adds a record. Those of one dropping come one after the other, [`Index::settle`] behind
    /// them.
    pub fn add(&mut self, next: Numbered) -> Result<()> {
        self.size = self.size.max(next.record.reach());
        self.bytes = self.bytes.saturating_add(next.record.length);
        if next.record.length == 0 {
            return Ok(());
        }
        if !self.continues(&next) {
            self.settle()?;
        }
        self.pending.push(next);
        // A run that is long enough is kept by its first two records and its length.
        if self.pending.len() < SHORTEST_RUN {
            return Ok(());
        }
        if self.runs.len() < MOST_RUNS {
            let (first, count) = (self.pending[0], self.pending.len() as u64);
            let stride = self.pending[1].record.logical - first.record.logical;
            self.runs.push(Run {
                from: first.from,
                chunk: first.chunk,
                logical: first.record.logical,
                physical: first.record.physical,
                stride,
                length: first.record.length,
                count,
            });
            self.pending.clear();
            return Ok(());
        }
        self.settle()
    }

    /// Whether `next` follows what is pending, or makes the last run longer.
    fn continues(&mut self, next: &Numbered) -> bool {
        let record = &next.record;
        if let [first, .., last] = self.pending[..] {
            let stride = self.pending[1].record.logical - first.record.logical;
            return follows(&last, next)
                && record.logical.checked_sub(last.record.logical) == Some(stride);
        }
        if let [last] = self.pending[..] {
            let step = record.logical.checked_sub(last.record.logical);
            return follows(&last, next) && step.is_some_and(|step| step >= record.length);
        }
        false
    }

    /// Makes the last run longer by `next`, if it is its next record.
    fn prolong(&mut self, next: &Numbered) -> bool {
        let Some(run) = self.runs.last_mut().filter(|_| self.pending.is_empty()) else {
            return false;
        };
        let record = &next.record;
        let fits = run.chunk == next.chunk
            && run.from.0 == next.from.0
            && run.from.1 + run.count == next.from.1
            && run.length == record.length
            && run.logical.checked_add(run.stride * run.count) == Some(record.logical)
            && run.physical + run.length * run.count == record.physical;
        if fits {
            run.count += 1;
        }
        fits
    }

    /// Adds many of one dropping.
    pub fn add_all(&mut self, records: impl Iterator<Item = Numbered>) -> Result<()> {
        for next in records {
            if next.record.length > 0 && self.prolong(&next) {
                self.size = self.size.max(next.record.reach());
                self.bytes = self.bytes.saturating_add(next.record.length);
                continue;
            }
            self.add(next)?;
        }
        Ok(())
    }

    /// What is pending becomes extents: no more records of this dropping come for now.
    pub fn settle(&mut self) -> Result<()> {
        for next in core::mem::take(&mut self.pending) {
            self.insert(&next.record, next.chunk)?;
        }
        Ok(())
    }

    /// Lays `record` over what is there, below what is later.
    fn insert(&mut self, record: &Record, chunk: u32) -> Result<()> {
        let (start, end) = (record.logical, record.reach());
        let mut at = start;
        let below = self.extents.range(..start).next_back();
        let first = below.filter(|(_, extent)| extent.end > start);
        let mut met: Vec<(u64, Extent)> = first
            .map(|(at, extent)| (*at, *extent))
            .into_iter()
            .collect();
        met.extend(
            self.extents
                .range(start..end)
                .map(|(at, extent)| (*at, *extent)),
        );
        for (old, extent) in met {
            if extent.time > record.end {
                // It stays; what lies before it is ours.
                self.put(at, old.max(at), record, chunk);
                at = extent.end.max(at);
                continue;
            }
            self.extents.remove(&old);
            if old < start {
                self.extents.insert(
                    old,
                    Extent {
                        end: start,
                        ..extent
                    },
                );
            }
            if extent.end > end {
                let physical = extent.physical + (end - old);
                self.extents.insert(end, Extent { physical, ..extent });
            }
        }
        self.put(at, end, record, chunk);
        match self.extents.len() > self.limit {
            true => Err(Error::because(
                Errno::ENOMEM,
                format!(
                    "the index has more than {} ranges that follow no pattern: raise index_memory",
                    self.limit
                ),
            )),
            false => Ok(()),
        }
    }

    fn put(&mut self, start: u64, end: u64, record: &Record, chunk: u32) {
        if start >= end {
            return;
        }
        let physical = record.physical + (start - record.logical);
        let time = record.end;
        // What directly follows in the file and in the dropping, as parts of a record that others
        // have cut do, is one only if it is equally old.
        self.extents.insert(
            start,
            Extent {
                end,
                physical,
                chunk,
                time,
            },
        );
    }

    /// What the bytes from `offset` on are.
    pub fn find(&self, offset: u64, time_of: TimeOf<'_>) -> Result<Found> {
        if offset >= self.size {
            return Ok(Found::End);
        }
        let mut end = self.size;
        let mut best: Option<Claim> = None;
        if let Some((start, extent)) = self.extents.range(..=offset).next_back()
            && extent.end > offset
        {
            end = end.min(extent.end);
            best = Some(Claim {
                time: Time::Known(extent.time),
                chunk: extent.chunk,
                physical: extent.physical + (offset - start),
            });
        }
        if let Some((next, _)) = self.extents.range(offset + 1..).next() {
            end = end.min(*next);
        }
        for run in &self.runs {
            let at = match run.find(offset) {
                Ok(at) => at,
                Err(next) => {
                    end = end.min(next);
                    continue;
                }
            };
            let start = run.logical + at * run.stride;
            end = end.min(start + run.length);
            let mut ours = Claim {
                time: Time::Of((run.from.0, run.from.1 + at)),
                chunk: run.chunk,
                physical: run.physical + at * run.length + (offset - start),
            };
            // Two claim it: their times count.
            if let Some(theirs) = &mut best
                && ours.time(time_of)? < theirs.time(time_of)?
            {
                continue;
            }
            best = Some(ours);
        }
        let length = end.saturating_sub(offset);
        Ok(match best {
            Some(claim) => Found::Data(claim.chunk, claim.physical, length),
            None => Found::Hole(length),
        })
    }

    /// Where the next data (`data`) or the next hole begins, from `offset` on.
    pub fn seek(&self, mut offset: u64, data: bool, time_of: TimeOf<'_>) -> Result<u64> {
        loop {
            match self.find(offset, time_of)? {
                Found::End if data => return Err(Errno::ENXIO.into()),
                Found::End => return Ok(self.size),
                Found::Data(..) if data => return Ok(offset),
                Found::Hole(_) if !data => return Ok(offset),
                Found::Data(_, _, length) | Found::Hole(length) => offset += length.max(1),
            }
        }
    }
}

/// Whether `next` is the record behind `last`, of the same writer, of the same length, and its
/// bytes lie behind those of `last`.
fn follows(last: &Numbered, next: &Numbered) -> bool {
    let (one, two) = (&last.record, &next.record);
    last.chunk == next.chunk
        && (last.from.0, last.from.1 + 1) == next.from
        && one.length == two.length
        && one.physical + one.length == two.physical
        && two
            .logical
            .checked_sub(one.logical)
            .is_some_and(|step| step >= one.length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn numbered(from: (u32, u64), logical: u64, length: u64, physical: u64, time: f64) -> Numbered {
        let record = Record {
            logical,
            physical,
            length,
            begin: time,
            end: time,
            id: 1,
        };
        Numbered {
            record,
            chunk: from.0,
            from,
        }
    }

    /// Sixteen writers of ten thousand strided records: sixteen runs.
    #[test]
    fn strided_writes_are_runs() {
        let (writers, each, size) = (16u64, 10_000u64, 4096u64);
        let mut index = Index::new(1000);
        for writer in 0..writers {
            let record = |at: u64| {
                let logical = (at * writers + writer) * size;
                numbered((writer as u32, at), logical, size, at * size, at as f64)
            };
            index.add_all((0..each).map(record)).unwrap();
            index.settle().unwrap();
        }
        assert_eq!(index.parts(), (0, 16));
        assert_eq!(index.size(), writers * each * size);
        let mut none = |_| panic!("nothing overlaps");
        let offset = (77 * writers + 5) * size + 100;
        let found = index.find(offset, &mut none).unwrap();
        assert_eq!(found, Found::Data(5, 77 * size + 100, size - 100));
        assert_eq!(index.find(index.size(), &mut none).unwrap(), Found::End);
    }

    /// Any order of records gives the bytes of the latest, with and without runs.
    #[test]
    fn the_latest_write_counts() {
        let mut state = 12345u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for round in 0..200 {
            let mut index = Index::new(100_000);
            let mut model = vec![None; 4000];
            let mut times = BTreeMap::new();
            for dropping in 0..6u32 {
                let (mut physical, mut number) = (0, 0);
                let mut records = Vec::new();
                for _ in 0..random(6) {
                    let (mut at, length) = (random(1000), 1 + random(40));
                    let stride = if random(2) == 0 {
                        length
                    } else {
                        length + random(30)
                    };
                    for _ in 0..1 + random(60) {
                        let time =
                            (random(1 << 20) * 1000 + u64::from(dropping) * 100 + number) as f64;
                        let one = numbered((dropping, number), at, length, physical, time);
                        times.insert((dropping, number), time);
                        records.push(one);
                        (at, physical, number) = (at + stride, physical + length, number + 1);
                    }
                }
                for one in &records {
                    for byte in one.record.logical..one.record.reach().min(4000) {
                        let place: &mut Option<(f64, u32, u64)> = &mut model[byte as usize];
                        if place.is_none_or(|(time, ..)| time <= one.record.end) {
                            let physical = one.record.physical + byte - one.record.logical;
                            *place = Some((one.record.end, one.chunk, physical));
                        }
                    }
                }
                index.add_all(records.into_iter()).unwrap();
                index.settle().unwrap();
            }
            let mut time_of = |from: (u32, u64)| Ok(times[&from]);
            let mut at = 0;
            while at < index.size().min(4000) {
                let (length, want) = match index.find(at, &mut time_of).unwrap() {
                    Found::Data(chunk, physical, length) => (length, Some((chunk, physical))),
                    Found::Hole(length) => (length, None),
                    Found::End => panic!("{at} is before the end"),
                };
                assert!(length > 0);
                for step in 0..length.min(4000 - at) {
                    let is =
                        model[(at + step) as usize].map(|(_, chunk, physical)| (chunk, physical));
                    assert_eq!(
                        is,
                        want.map(|(chunk, at)| (chunk, at + step)),
                        "{round}: {at}+{step}"
                    );
                }
                at += length;
            }
        }
    }

    #[test]
    fn what_follows_no_pattern_is_bounded() {
        let mut index = Index::new(10);
        let add = |index: &mut Index, at: u64| {
            index.add(numbered((0, at), at * at * 10, 1, at, 1.0))?;
            index.settle()
        };
        assert!((0..10).all(|at| add(&mut index, at).is_ok()));
        let refused = add(&mut index, 10).unwrap_err();
        assert_eq!(refused.errno(), Errno::ENOMEM);
    }

    #[test]
    fn a_record_without_length_is_a_size() {
        let mut index = Index::new(10);
        index.add(numbered((0, 0), 5000, 0, 0, 1.0)).unwrap();
        let mut none = |_| Ok(0.0);
        assert_eq!(index.size(), 5000);
        assert_eq!(index.find(10, &mut none).unwrap(), Found::Hole(4990));
        assert_eq!(index.seek(0, false, &mut none).unwrap(), 0);
        assert!(index.seek(0, true, &mut none).is_err());
    }
}

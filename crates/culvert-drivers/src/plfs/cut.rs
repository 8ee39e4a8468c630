//! Truncation of index droppings.

use super::host;
use super::layout::Record;
use alloc::vec;
use alloc::vec::Vec;
use culvert::Result;
use culvert_sys::fd::AsFd;
use culvert_sys::fs;

/// Records read at once.
const BATCH: usize = 4096;

/// What is left of an index dropping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Records.
    pub count: u64,
    /// How far they reach.
    pub reach: u64,
}

/// Takes back what lies behind `size` in the index dropping `file`.
///
/// Where nobody adds to it (`quiet`) the records that stay move together: first they are written to
/// the beginning, then the rest is cut off, so that a process that is killed between the two leaves
/// records twice, which says the same. Where somebody does, what must go becomes a copy of one that
/// stays, in one write each: the dropping keeps its length, and who appends is not disturbed.
/// Records without length take the place only where none stays, for PLFS 2.5 reads wrong bytes
/// where they and others meet.
pub fn records(file: impl AsFd, size: u64, quiet: bool) -> Result<Left> {
    match quiet {
        true => together(file, size),
        false => in_place(file, size),
    }
}

/// Calls `each` with the offset of each record and what becomes of it.
fn visit(file: impl AsFd, size: u64, mut each: impl FnMut(u64, Fate) -> Result<()>) -> Result<()> {
    let mut buffer = vec![0; BATCH * Record::SIZE];
    let mut at = 0;
    loop {
        let read = host::read_at(&file, at, &mut buffer)?;
        let whole = read / Record::SIZE * Record::SIZE;
        if whole == 0 {
            return Ok(());
        }
        for bytes in buffer[..whole].chunks_exact(Record::SIZE) {
            if let Some(record) = Record::decode(bytes) {
                each(at, Fate::of(record, size))?;
            }
            at += Record::SIZE as u64;
        }
    }
}

enum Fate {
    Stays(Record),
    Shorter(Record),
    Goes(Record),
}

impl Fate {
    fn of(record: Record, size: u64) -> Self {
        match record.logical {
            _ if record.reach() <= size && record.length > 0 => Self::Stays(record),
            start if start < size && record.length > 0 => Self::Shorter(Record {
                length: size - start,
                ..record
            }),
            _ => Self::Goes(record),
        }
    }
}

fn together(file: impl AsFd, size: u64) -> Result<Left> {
    let (mut left, mut to) = (Left::default(), 0u64);
    let mut kept = Vec::new();
    visit(&file, size, |at, fate| {
        if let Fate::Stays(record) | Fate::Shorter(record) = fate {
            kept.extend_from_slice(&record.encode());
            left.count += 1;
            left.reach = left.reach.max(record.reach());
        }
        // Never over what has not been read.
        if kept.len() >= BATCH * Record::SIZE && to + kept.len() as u64 <= at {
            host::write_at(&file, to, &kept).1?;
            to += kept.len() as u64;
            kept.clear();
        }
        Ok(())
    })?;
    host::write_at(&file, to, &kept).1?;
    fs::ftruncate(&file, left.count * Record::SIZE as u64)?;
    Ok(left)
}

fn in_place(file: impl AsFd, size: u64) -> Result<Left> {
    let (mut left, mut stays) = (Left::default(), None);
    visit(&file, size, |at, fate| {
        let (Fate::Stays(record) | Fate::Shorter(record)) = fate else {
            return Ok(());
        };
        left.count += 1;
        left.reach = left.reach.max(record.reach());
        stays = Some(record);
        match fate {
            Fate::Shorter(record) => Ok(host::write_at(&file, at, &record.encode()).1?),
            _ => Ok(()),
        }
    })?;
    visit(&file, size, |at, fate| {
        let Fate::Goes(record) = fate else {
            return Ok(());
        };
        let instead = stays.unwrap_or(Record {
            logical: record.logical.min(size),
            length: 0,
            ..record
        });
        left.reach = left.reach.max(instead.reach());
        Ok(host::write_at(&file, at, &instead.encode()).1?)
    })?;
    Ok(left)
}

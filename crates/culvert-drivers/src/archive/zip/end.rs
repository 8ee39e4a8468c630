//! Finding the central directory from the end of the file.

use crate::archive::bytes::{Bytes, u16_at, u32_at, u64_at};
use alloc::{format, vec};
use culvert::{Errno, Error, Result};

/// Bytes of the end record without its comment.
const END: usize = 22;
/// Bytes of the zip64 locator, which lies right before the end record.
const LOCATOR: usize = 20;
/// Bytes of the zip64 end record that are used.
const END64: usize = 56;
/// Longest comment, and a little of what follows the archive by mistake.
const TAIL: usize = END + LOCATOR + 0xffff;

/// Where the central directory is.
pub struct Directory {
    /// Where it starts in the file.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Members it should have.
    pub members: u64,
    /// What must be added to the offsets in it: the length of what was put in front of the archive.
    pub shift: u64,
}

/// The end record's place and bytes, the last one in the file whose comment fits.
pub fn find(raw: &dyn Bytes) -> Result<Option<(u64, [u8; END])>> {
    let length = TAIL.min(usize::try_from(raw.len()).unwrap_or(TAIL));
    if length < END {
        return Ok(None);
    }
    let start = raw.len() - length as u64;
    // Mostly there is no comment.
    let mut record = [0; END];
    raw.read_exact_at(raw.len() - END as u64, &mut record)?;
    if record.starts_with(b"PK\x05\x06") && record[20..] == [0, 0] {
        return Ok(Some((raw.len() - END as u64, record)));
    }
    let mut tail = vec![0; length];
    raw.read_exact_at(start, &mut tail)?;
    for at in (0..=length - END).rev() {
        let Some(record) = tail[at..].first_chunk::<END>() else {
            continue;
        };
        if record.starts_with(b"PK\x05\x06")
            && at + END + usize::from(u16_at(record, 20)) <= length
            && plausible(start + at as u64, record)
        {
            return Ok(Some((start + at as u64, *record)));
        }
    }
    Ok(None)
}

/// Whether the directory that `record` speaks of fits in front of it: in junk the four magic bytes
/// may stand by chance.
fn plausible(at: u64, record: &[u8; END]) -> bool {
    let (length, offset) = (u32_at(record, 12), u32_at(record, 16));
    let zip64 = length == u32::MAX || offset == u32::MAX || u16_at(record, 10) == u16::MAX;
    zip64 || u64::from(length) + u64::from(offset) <= at
}

fn damaged(what: impl Into<alloc::borrow::Cow<'static, str>>) -> Error {
    Error::because(Errno::EIO, what)
}

impl Directory {
    /// Reads the end records. `EOPNOTSUPP` for archives in several volumes and with an encrypted
    /// directory.
    pub fn read(raw: &dyn Bytes) -> Result<Self> {
        let (at, record) = find(raw)?.ok_or_else(|| damaged("no end record: truncated?"))?;
        let (disk, directory_disk) = (u16_at(&record, 4), u16_at(&record, 6));
        let mut members = u64::from(u16_at(&record, 10));
        let mut length = u64::from(u32_at(&record, 12));
        let mut offset = u64::from(u32_at(&record, 16));
        let mut disks = (u32::from(disk), u32::from(directory_disk));
        let mut end = at;
        if let Some((at64, record)) = end64(raw, at)? {
            disks = (u32_at(&record, 16), u32_at(&record, 20));
            members = u64_at(&record, 32);
            length = u64_at(&record, 40);
            offset = u64_at(&record, 48);
            end = at64;
        }
        if disks != (0, 0) && disks != (0xffff, 0xffff) {
            return Err(Error::because(
                Errno::EOPNOTSUPP,
                format!(
                    "volume {} of a zip archive in several volumes; join them first (zip -s 0)",
                    disks.0 + 1
                ),
            ));
        }
        let start = end.checked_sub(length).ok_or_else(|| {
            damaged(format!(
                "the central directory claims {length} bytes, more than lie before its end: \
                truncated?"
            ))
        })?;
        let shift = start.checked_sub(offset).ok_or_else(|| {
            damaged(
                "the central directory lies before the place it claims: is the start of the \
                archive missing?",
            )
        })?;
        Ok(Self {
            start,
            length,
            members,
            shift,
        })
    }
}

/// The zip64 end record that belongs to the end record at `at`, if there is one.
fn end64(raw: &dyn Bytes, at: u64) -> Result<Option<(u64, [u8; END64])>> {
    let Some(locator_at) = at.checked_sub(LOCATOR as u64) else {
        return Ok(None);
    };
    let mut locator = [0; LOCATOR];
    raw.read_exact_at(locator_at, &mut locator)?;
    if !locator.starts_with(b"PK\x06\x07") {
        return Ok(None);
    }
    // Where it says, or, with something in front of the archive, right before the locator.
    let near = locator_at.checked_sub(END64 as u64);
    for place in [Some(u64_at(&locator, 8)), near].into_iter().flatten() {
        let mut record = [0; END64];
        let inside = place
            .checked_add(END64 as u64)
            .is_some_and(|end| end <= locator_at);
        if inside {
            raw.read_exact_at(place, &mut record)?;
            if record.starts_with(b"PK\x06\x06") {
                return Ok(Some((place, record)));
            }
        }
    }
    Err(damaged("the zip64 end record is missing"))
}

//! Shadows that are filled in part: what is a hole has not been read from the driver yet (zeroes of
//! the file are written as pages).
//!
//! Only on a file system that gives a page at a time: one with huge pages makes more than was
//! written, and that would look filled (`is_fit`).

use crate::shadow::OwnedFd;
use crate::state::{self, State};
use alloc::{vec, vec::Vec};
use culvert::{Errno, File, Whence};
use culvert_run::stat_descriptor;
use culvert_run::task;
use culvert_sys::PAGE64;
use culvert_sys::raw::general::{FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE, SEEK_DATA, SEEK_HOLE};
use culvert_sys::{BorrowedFd, fs};

/// Bytes that are read from the driver at a time: they are still in a second-level cache when they
/// are written to the shadow.
const STEP: u64 = 256 << 10;

/// Whether the file system of a shadow with this `struct stat` gives pages one at a time: tmpfs
/// says the size of huge ones where it gives them (`shmem_getattr`, mm/shmem.c).
pub fn is_fit(found: &culvert_sys::raw::general::stat) -> bool {
    found.st_blksize as u64 == PAGE64
}

/// Fills what is missing of `shadow` in the range, where it is one that may have holes. Under the
/// node's lock.
///
/// The driver's error; then what was filled is right, and the rest is still missing.
pub fn ensure(file: &dyn File, shadow: i32, range: (u64, u64)) -> culvert::Result<()> {
    let found = stat_descriptor(shadow)?;
    if !State::of(&found).is_partly() {
        return Ok(());
    }
    holes(file, shadow, range).map(|_| ())
}

/// The same of the first and the last page of a range, which are about to be written in part: a
/// hole would become a page with zeroes around.
pub fn ensure_ends(file: &dyn File, shadow: i32, range: (u64, u64)) -> culvert::Result<()> {
    if range.0 >= range.1 || !State::of(&stat_descriptor(shadow)?).is_partly() {
        return Ok(());
    }
    holes(file, shadow, (range.0, range.0 + 1))?;
    holes(file, shadow, (range.1 - 1, range.1)).map(|_| ())
}

/// Fills all that is missing of a shadow that may have holes, and marks it filled. Under the node's
/// lock. What the driver knows to be a hole stays one, which is zeroes from then on.
pub fn complete(file: &dyn File, shadow: i32) -> culvert::Result<()> {
    let found = stat_descriptor(shadow)?;
    if State::of(&found).is_partly() {
        let filled = each_lacking(file, shadow, &mut |range| {
            fill_between(file, shadow, range.0, range.1).map(|_| ())
        });
        state::keep_times(shadow, &found);
        filled?;
        state::set_complete(shadow, &found)?;
    }
    Ok(())
}

/// As [`complete`], with a page for what the driver knows to be a hole, too, so that nobody who
/// touches one has to wait.
pub fn all_pages(file: &dyn File, shadow: i32) -> culvert::Result<()> {
    holes(file, shadow, (0, u64::MAX))?;
    let found = stat_descriptor(shadow)?;
    if State::of(&found).is_partly() {
        state::set_complete(shadow, &found)?;
    }
    Ok(())
}

/// How many bytes [`complete`] has to read.
pub(super) fn lacking(file: &dyn File, shadow: i32) -> culvert::Result<u64> {
    let mut bytes = 0;
    each_lacking(file, shadow, &mut |(from, to)| {
        bytes += to - from;
        Ok(())
    })?;
    Ok(bytes)
}

/// Calls `run` with the runs of pages that are missing of the shadow and that the driver does not
/// know to be holes.
fn each_lacking(
    file: &dyn File,
    shadow: i32,
    run: &mut dyn FnMut((u64, u64)) -> culvert::Result<()>,
) -> culvert::Result<()> {
    let mut at = 0;
    while let Some((from, to)) = missing(shadow, (at, u64::MAX))? {
        at = from;
        while at < to {
            let data = match file.seek(at, Whence::Data) {
                Ok(data) => (data & !(PAGE64 - 1)).max(at),
                Err(error) if error.errno() == Errno::ENXIO => to,
                Err(_) => at,
            };
            if data >= to {
                break;
            }
            let hole = match file.seek(data, Whence::Hole) {
                // Behind the data, whatever a driver says.
                Ok(hole) => hole.clamp(data + 1, to).next_multiple_of(PAGE64).min(to),
                Err(_) => to,
            };
            run((data, hole))?;
            at = hole;
        }
        at = to;
    }
    Ok(())
}

/// Whether the page of byte `at` is missing.
pub fn is_missing(shadow: i32, at: u64) -> Result<bool, Errno> {
    let page = at & !(PAGE64 - 1);
    Ok(State::of(&stat_descriptor(shadow)?).is_partly()
        && next_hole(shadow, page, page + 1)?.is_some())
}

/// Whether some page of the range is missing.
pub fn lacks(shadow: i32, range: (u64, u64)) -> Result<bool, Errno> {
    missing(shadow, (range.0 & !(PAGE64 - 1), range.1)).map(|found| found.is_some())
}

/// The first run of bytes that are missing in the range.
pub fn missing(shadow: i32, range: (u64, u64)) -> Result<Option<(u64, u64)>, Errno> {
    let found = stat_descriptor(shadow)?;
    match State::of(&found).is_partly() {
        true => next_hole(shadow, range.0, range.1.min(found.st_size as u64)),
        false => Ok(None),
    }
}

/// What of `range` is there. Of a shadow that is filled a hole is there, too.
pub fn present(shadow: i32, range: (u64, u64)) -> Result<Vec<(u64, u64)>, Errno> {
    let found = stat_descriptor(shadow)?;
    if !State::of(&found).is_partly() {
        return Ok(vec![range]);
    }
    let end = range.1.min(found.st_size as u64);
    let (mut at, mut pieces) = (range.0, Vec::new());
    while at < end {
        let (from, to) = next_hole(shadow, at, end)?.unwrap_or((end, end));
        if at < from {
            pieces.push((at, from));
        }
        at = to;
    }
    Ok(pieces)
}

/// The length of a shadow.
pub fn length_of(shadow: &OwnedFd) -> Result<u64, Errno> {
    stat_descriptor(shadow.raw()).map(|found| found.st_size as u64)
}

/// Fills the holes of `shadow` in the pages of the range; where they were. Under the node's lock.
/// Its times, which say whether others have changed it, stay.
pub fn holes(file: &dyn File, shadow: i32, range: (u64, u64)) -> culvert::Result<Vec<(u64, u64)>> {
    let found = stat_descriptor(shadow)?;
    let end = range.1.min(found.st_size as u64);
    let end = end.next_multiple_of(PAGE64).min(found.st_size as u64);
    let at = range.0 & !(PAGE64 - 1);
    if next_hole(shadow, at, end)?.is_none() {
        return Ok(Vec::new());
    }
    let result = fill_between(file, shadow, at, end);
    state::keep_times(shadow, &found);
    result
}

/// Drops the pages of `range`, which must be in the file as they are here; how many bytes that
/// were. Under the node's lock.
pub fn drop_clean(shadow: i32, range: (u64, u64)) -> Result<u64, Errno> {
    let found = stat_descriptor(shadow)?;
    // The holes of one that is complete are zeroes.
    if !State::of(&found).is_partly() {
        return Ok(0);
    }
    punch(shadow, range.0, range.1.saturating_sub(range.0))?;
    state::keep_times(shadow, &found);
    let left = stat_descriptor(shadow)?.st_blocks;
    Ok(found.st_blocks.saturating_sub(left) as u64 * 512)
}

/// Makes `length` bytes of the shadow from `at` on a hole, as far as they are whole pages or reach
/// beyond its end.
pub(super) fn punch(shadow: i32, at: u64, length: u64) -> Result<(), Errno> {
    let length = length.checked_next_multiple_of(PAGE64).unwrap_or(length);
    let mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    fs::fallocate(BorrowedFd::number(shadow), mode, at, length)
}

fn fill_between(
    file: &dyn File,
    shadow: i32,
    start: u64,
    end: u64,
) -> culvert::Result<Vec<(u64, u64)>> {
    let (mut at, mut buffer) = (start, Vec::<u8>::new());
    let mut filled = Vec::new();
    while at < end {
        let Some((from, to)) = next_hole(shadow, at, end)? else {
            break;
        };
        filled.push((from, to));
        at = from;
        while at < to {
            let want = (to - at).min(STEP) as usize;
            if buffer.len() < want {
                buffer = vec![0; want];
            }
            let got = read_all(file, at, &mut buffer[..want])?;
            // Somebody outside the run has shortened the file: what is past its end is no part of
            // it.
            buffer[got..want].fill(0);
            crate::shadow::write_all(shadow, at, &buffer[..want])?;
            at += want as u64;
        }
    }
    Ok(filled)
}

/// The first hole from `at` on that begins before `end`, to its end or `end`.
pub fn next_hole(fd: i32, at: u64, end: u64) -> Result<Option<(u64, u64)>, Errno> {
    // On a descriptor of ours, whose offset nobody uses.
    let seek = |offset: u64, whence| fs::seek(BorrowedFd::number(fd), offset as i64, whence);
    if at >= end || is_all_there(fd, at, end) {
        return Ok(None);
    }
    let from = match seek(at, SEEK_HOLE) {
        Ok(from) if from < end => from,
        Ok(_) | Err(Errno::ENXIO) => return Ok(None),
        Err(error) => return Err(error),
    };
    let to = match seek(from, SEEK_DATA) {
        Ok(to) => to.min(end),
        Err(Errno::ENXIO) => end,
        Err(error) => return Err(error),
    };
    Ok(Some((from, to)))
}

/// Whether no page of the range is missing, which SEEK_HOLE would look for beyond it, to the end of
/// the file. False where the kernel cannot tell (cachestat(2), Linux 6.5), and under a filter,
/// which seldom knows that call.
fn is_all_there(fd: i32, at: u64, end: u64) -> bool {
    if task::is_confined() {
        return false;
    }
    let from = at & !(PAGE64 - 1);
    let told = fs::cachestat(BorrowedFd::number(fd), from, end - from);
    // Of a tmpfs what is evicted is swapped out.
    told.is_ok_and(|pages| pages.nr_cache + pages.nr_evicted >= (end - from).div_ceil(PAGE64))
}

/// Reads until the buffer is full or the file ends.
pub fn read_all(file: &dyn File, offset: u64, buffer: &mut [u8]) -> culvert::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        let mut sink = &mut buffer[done..];
        match file.read_at(offset + done as u64, &mut sink) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

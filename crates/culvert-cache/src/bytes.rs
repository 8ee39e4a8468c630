//! Bytes between a driver's file and its shadow. All under the node's lock.

use super::{fill, state};
use crate::shadow;
use alloc::{vec, vec::Vec};
use culvert::{Caller, Errno, File, Result, Whence};
use culvert_run::task;
use culvert_sys::PAGE64;

pub use task::limits::set_length;

/// Bytes compared or copied at a time.
const CHUNK: usize = 64 << 10;

/// pread(2) of a shadow.
pub fn read_shadow(fd: i32, at: u64, into: &mut [u8]) -> core::result::Result<usize, Errno> {
    loop {
        let file = culvert_sys::BorrowedFd::number(fd);
        match culvert_sys::fs::pread(file, into, at) {
            Err(Errno::EINTR) => {}
            answer => return answer,
        }
    }
}

/// Copies `range` of `file` into the shadow, up to where the file ends.
pub fn copy_in(file: &dyn File, fd: i32, range: (u64, u64)) -> Result<()> {
    copy_into(file, fd, range, &mut |_, _| Ok(()))
}

/// The same; `also` gets what was written, and where.
pub fn copy_into(
    file: &dyn File,
    fd: i32,
    range: (u64, u64),
    also: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    fill::ensure_ends(file, fd, range)?;
    let length = range.1.saturating_sub(range.0).min(CHUNK as u64) as usize;
    let mut buffer = vec![0u8; length];
    let mut at = range.0;
    while at < range.1 {
        let want = (range.1 - at).min(length as u64) as usize;
        let mut sink = &mut buffer[..want];
        let got = file.read_at(at, &mut sink)?;
        if got == 0 {
            break;
        }
        shadow::write_all(fd, at, &buffer[..got])?;
        also(at, &buffer[..got])?;
        at += got as u64;
    }
    Ok(())
}

/// Makes all of the shadow what `file` is, of which nothing has been stored that counts: bytes are
/// written only where they differ.
pub fn equalise(file: &dyn File, fd: i32, fresh: bool) -> Result<()> {
    let size = file.attributes(&Caller::SYSTEM)?.size;
    set_length(fd, size)?;
    let mut at = 0;
    while at < size {
        let mut end = size;
        if fresh {
            // What the driver knows to be a hole stays one.
            match file.seek(at, Whence::Data) {
                Ok(data) => at = data,
                Err(error) if error.errno() == Errno::ENXIO => break,
                Err(_) => {}
            }
            if let Ok(hole) = file.seek(at, Whence::Hole) {
                end = hole.clamp(at + 1, size);
            }
            copy_in(file, fd, (at, end))?;
        } else {
            each_difference(file, fd, (at, end), &mut |place, ours, _| {
                shadow::write_all(fd, place, ours)
            })?;
        }
        at = end;
    }
    Ok(())
}

/// Is told a place, the file's bytes there and the shadow's.
pub type Differs<'a> = dyn FnMut(u64, &[u8], &[u8]) -> Result<()> + 'a;

/// Calls `differs` with the place of each page, or run of pages, in which file and shadow differ,
/// the file's bytes and the shadow's.
pub fn each_difference(
    file: &dyn File,
    fd: i32,
    range: (u64, u64),
    differs: &mut Differs<'_>,
) -> Result<()> {
    let length = range.1.saturating_sub(range.0).min(CHUNK as u64) as usize;
    let (mut ours, mut theirs) = (vec![0u8; length], vec![0u8; length]);
    let mut at = range.0;
    while at < range.1 {
        let want = (range.1 - at).min(length as u64) as usize;
        let mut sink = &mut ours[..want];
        let got = file.read_at(at, &mut sink)?;
        // Somebody outside of the run truncates the file just now: what is not there is not
        // compared.
        let both = got.min(read_shadow(fd, at, &mut theirs[..want])?);
        if both == 0 {
            return Ok(());
        }
        let mut from = 0;
        while from < both {
            let page = |start: usize| (start + PAGE64 as usize).min(both);
            if ours[from..page(from)] == theirs[from..page(from)] {
                from = page(from);
                continue;
            }
            let mut end = page(from);
            while end < both && ours[end..page(end)] != theirs[end..page(end)] {
                end = page(end);
            }
            differs(at + from as u64, &ours[from..end], &theirs[from..end])?;
            from = end;
        }
        at += both as u64;
    }
    Ok(())
}

/// Writes what `ranges` of the shadow hold to `file`, nothing beyond its end; `exact`: all of it,
/// else pages that differ. Returns whether anything was written.
pub fn write_back(file: &dyn File, fd: i32, ranges: &[(u64, u64)], exact: bool) -> Result<bool> {
    let size = file
        .attributes(&Caller::SYSTEM)?
        .size
        .min(culvert_run::stat_descriptor(fd)?.st_size as u64);
    let mut wrote = false;
    let mut there = Vec::new();
    for &range in ranges {
        there.extend(fill::present(fd, range)?);
    }
    for (start, end) in there {
        let range = (start, end.min(size));
        if range.0 >= range.1 {
            continue;
        }
        if exact {
            let mut buffer: Vec<u8> = vec![0; (range.1 - range.0).min(CHUNK as u64) as usize];
            let mut at = range.0;
            while at < range.1 {
                let want = (range.1 - at).min(buffer.len() as u64) as usize;
                let got = read_shadow(fd, at, &mut buffer[..want])?;
                if got == 0 {
                    break;
                }
                write_file(file, at, &buffer[..got])?;
                at += got as u64;
                wrote = true;
            }
            continue;
        }
        let mut at = range.0;
        while let Some(part) = next_in_either(file, fd, (at, range.1)) {
            each_difference(file, fd, part, &mut |at, _, theirs| {
                wrote = true;
                write_file(file, at, theirs)
            })?;
            at = part.1;
        }
    }
    if wrote {
        // The file has changed since the shadow has, and by nobody else: recovery.rs asks for that.
        state::touch(fd)?;
    }
    Ok(wrote)
}

/// The next part of `range` to be compared: not where both, file and shadow, are known to be holes.
/// In whole pages, as far as that goes.
fn next_in_either(file: &dyn File, fd: i32, range: (u64, u64)) -> Option<(u64, u64)> {
    const SEEK_DATA: usize = 3;
    /// So much at a time, without asking where the next hole is: the kernel would look for that to
    /// the end of the file.
    const STEP: u64 = 1 << 20;
    let (at, end) = range;
    if end <= at.saturating_add(STEP) || task::is_confined() {
        return (at < end).then_some(range);
    }
    // Nobody uses the offset of this descriptor.
    let shadow = culvert_sys::BorrowedFd::number(fd);
    let in_shadow = culvert_sys::fs::seek(shadow, at as i64, SEEK_DATA as u32);
    let in_shadow = match in_shadow {
        Err(Errno::ENXIO) => end,
        // Where it cannot be told all is data.
        data => data.unwrap_or(at),
    };
    let in_file = match file.seek(at, Whence::Data) {
        Ok(data) => data,
        Err(error) if error.errno() == Errno::ENXIO => end,
        Err(_) => at,
    };
    let from = (in_shadow.min(in_file) & !(PAGE64 - 1)).max(at);
    (from < end).then(|| (from, from.saturating_add(STEP).min(end)))
}

/// Writes all of `bytes`, which lie within the file, whatever the program's limit of file sizes
/// says.
pub fn write_file(file: &dyn File, at: u64, bytes: &[u8]) -> Result<()> {
    let end = at + bytes.len() as u64;
    task::limits::without_file_size(end, || {
        let (mut left, mut at) = (bytes, at);
        while !left.is_empty() {
            let count = file.write_at(at, &mut left)?;
            if count == 0 {
                return Err(Errno::ENOSPC.into());
            }
            at += count as u64;
        }
        Ok(())
    })
}

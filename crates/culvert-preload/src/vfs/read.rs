//! Reading an open file: what is checked, from where the bytes come, and who is told.

use crate::answer::Answer;
use crate::description::{Held, report};
use crate::watch::Event;
use culvert::{Errno, File};
use culvert_cache::strangers;
use culvert_run::memory::{Span, UserSink};

/// What a read may come to before it is looked at where it begins: EBADF.
pub fn may_read(held: &Held) -> Result<(), Errno> {
    match held.readable() {
        Err(Errno::EISDIR) => Ok(()),
        other => other.map(|_| ()),
    }
}

/// read(2), readv(2): at the offset of the description, which moves.
pub fn read_at_offset(held: &Held, fd: i32, spans: &[Span]) -> Answer {
    let file = match held.readable() {
        // Where it stands is looked at first (`vfs_read`, fs/read_write.c): the end of a directory
        // of ext4 is the largest position.
        Err(Errno::EISDIR) => {
            held.at_offset(fd, |offset| area(*offset as i64, total(spans)))??;
            return Err(Errno::EISDIR);
        }
        readable => readable?,
    };
    strangers::before(&**held).map_err(|error| report(held, "read", &error))?;
    held.at_offset(fd, |offset| {
        area(*offset as i64, total(spans))?;
        // The offset of a shared description is kept under its node's lock.
        let count = get(held, file, *offset, spans, held.is_shared())?;
        *offset += count as u64;
        Ok(count)
    })?
}

/// pread(2), preadv(2).
pub fn read_at(held: &Held, offset: i64, spans: &[Span]) -> Answer {
    area(offset, total(spans))?;
    let file = held.readable()?;
    strangers::before(&**held).map_err(|error| report(held, "read", &error))?;
    get(held, file, offset as u64, spans, false)
}

/// Reads at `offset`: from the shadow where that holds the truth. `locked`: under the node's lock.
#[inline]
fn get(held: &Held, file: &dyn File, offset: u64, spans: &[Span], locked: bool) -> Answer {
    let count = match culvert_cache::read(&**held, offset, spans, locked) {
        Some(answer) => answer,
        None => file.read_at(offset, &mut UserSink::new(spans)),
    }
    .map_err(|error| report(held, "read", &error))?;
    if count > 0 {
        held.tell(Event::Access);
    }
    Ok(count)
}

/// How many bytes `spans` have.
#[inline]
pub fn total(spans: &[Span]) -> usize {
    match spans {
        [one] => one.length,
        spans => spans.iter().map(|span| span.length).sum(),
    }
}

/// What a positioned call checks: EINVAL for a negative offset, or an end past the largest
/// (`rw_verify_area`, fs/read_write.c).
#[inline]
pub fn area(offset: i64, length: usize) -> Result<(), Errno> {
    match offset >= 0 && offset.checked_add_unsigned(length as u64).is_some() {
        true => Ok(()),
        false => Err(Errno::EINVAL),
    }
}

//! Reads that go round the page cache (O_DIRECT, open(2)) into memory in which driven files are
//! mapped.
//!
//! The device stores into pages that a write fault has made ready before, and which are no longer
//! looked at by anybody: who asks meanwhile what was stored (`culvert_cache::dirty`) protects them,
//! and what arrives then takes no protection away; or they are dropped (`culvert_cache::evict`). So
//! the bytes go into memory of our own, and are copied from there, which is a store as any other.

use crate::answer::{Answer, FORWARD};
use alloc::vec::Vec;
use culvert::Errno;
use culvert_cache::nodes;
use culvert_intercept::{Call, user};
use culvert_run::memory::{Span, span, spans};
use culvert_run::{files::kernel_flags, stat_descriptor};
use culvert_sys::flags::Protection;
use culvert_sys::memory::Mapping;
use culvert_sys::memory::Of;
use culvert_sys::raw::general::{O_DIRECT, S_IFBLK, S_IFMT, S_IFREG};
use culvert_sys::{PAGE, nr};

/// A read of a descriptor that no driver serves: the kernel's, but for one into a mapped file that
/// goes round the page cache.
#[inline]
pub fn read(call: &Call) -> Answer {
    match nodes::any() {
        true => read_where_files_are_mapped(call),
        false => Err(FORWARD),
    }
}

#[cold]
fn read_where_files_are_mapped(call: &Call) -> Answer {
    match concerned(call) {
        Some(spans) => read_and_copy(call, &spans),
        None => Err(FORWARD),
    }
}

/// Whether a read is one that goes round the page cache into a mapped file.
pub fn concerns(call: &Call) -> bool {
    nodes::any() && concerned(call).is_some()
}

/// Where such a read puts its bytes. What is wrong with a call is the kernel's to say.
fn concerned(call: &Call) -> Option<Vec<Span>> {
    let [fd, base, length, ..] = call.args;
    let spans = match call.number {
        nr::READ | nr::PREAD64 => alloc::vec![span(base, length).ok()?],
        _ => spans(base, length).ok()?,
    };
    let is_mapped = |it: &Span| {
        it.length != 0 && !nodes::between(it.base & !(PAGE - 1), it.length + PAGE).is_empty()
    };
    // Under a filter all that is mapped counts as stored into, and nothing may be called.
    let wanted = !culvert_run::task::is_confined()
        && spans.iter().any(is_mapped)
        && is_unbuffered(fd as i32);
    wanted.then_some(spans)
}

/// Whether `fd` is open with O_DIRECT on a file or device with blocks. Of a pipe that flag means
/// something else (pipe(2)).
fn is_unbuffered(fd: i32) -> bool {
    kernel_flags(fd).is_ok_and(|flags| flags & O_DIRECT != 0)
        && stat_descriptor(fd)
            .is_ok_and(|found| matches!(found.st_mode & S_IFMT, S_IFREG | S_IFBLK))
}

fn read_and_copy(call: &Call, spans: &[Span]) -> Answer {
    // Each as far from the beginning of a page as the program's, so that the kernel finds the same
    // wrong with it.
    let room = |it: &Span| (it.base % PAGE + it.length).next_multiple_of(PAGE);
    let length = spans.iter().map(room).sum();
    let area = Mapping::new(Of::Nothing, length, Protection::READ | Protection::WRITE)?;
    let mut at = area.address();
    let mut ours = Vec::with_capacity(spans.len());
    for it in spans {
        ours.push(Span {
            base: at + it.base % PAGE,
            length: it.length,
        });
        at += room(it);
    }
    // `Span` is `struct iovec`.
    let (into, many) = match (call.number, &ours[..]) {
        (nr::READ | nr::PREAD64, [one]) => (one.base, one.length),
        _ => (ours.as_ptr() as usize, ours.len()),
    };
    let count = call.replacing().word(1, into).word(2, many).wait()?;
    let copied = copy(spans, &ours, count);
    if copied < count {
        // What it has no room for is not read.
        give_back(call, count - copied);
        if copied == 0 {
            return Err(Errno::EFAULT);
        }
    }
    Ok(copied)
}

/// Copies the first `count` bytes of `ours`; how many there was room for.
fn copy(spans: &[Span], ours: &[Span], count: usize) -> usize {
    let mut copied = 0;
    for (theirs, ours) in spans.iter().zip(ours) {
        let length = theirs.length.min(count - copied);
        // SAFETY: memory of our own, of that length, which nobody writes any more.
        let bytes = unsafe { core::slice::from_raw_parts(ours.base as *const u8, length) };
        if let Err(fault) = user::copy_out(theirs.base, bytes) {
            return copied + fault.done;
        }
        copied += length;
    }
    copied
}

/// Moves the offset of the description back, where the call is one that moves it.
fn give_back(call: &Call, count: usize) {
    const SEEK_CUR: u32 = 1;
    let moves = match call.number {
        nr::READ | nr::READV => true,
        nr::PREADV2 => call.args[3] == usize::MAX,
        _ => false,
    };
    if moves {
        let file = culvert_sys::BorrowedFd::number(call.args[0] as i32);
        let _ = culvert_sys::fs::seek(file, -(count as i64), SEEK_CUR);
    }
}

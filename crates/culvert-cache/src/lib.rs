//! Mappings of files whose bytes only their driver has: the node's shadow is the page cache.
//!
//! Programs map the shadow. It is filled before, and follows its file from then on ([`follow`]).
//! While any process of the run maps a node so that it can be written, which a [record](records)
//! says before the mapping exists, its shadow holds the truth: read(2) and its kin are answered
//! from it, and what is written goes to the driver and to the shadow under the node's lock. So
//! mappings and calls agree at once, in all processes.
//!
//! What was stored is written back to the driver when the kernel would have to by msync(2),
//! fsync(2) and their kin, and when a mapping, a program or a process ends. What a process that was
//! killed has stored is in the shadow, and its record stays: whoever comes by compares the bytes
//! that it names with the driver's.

#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod baseline;
pub mod bytes;
pub mod change;
pub mod dirty;
pub mod evict;
pub mod fill;
pub mod filling;
pub mod follow;
mod holes;
pub mod mappable;
pub mod nodes;
mod open_file;
pub mod orphan_file;
pub mod orphans;
pub mod pager;
pub mod pager_forked;
pub mod pinned;
mod recovery;
pub mod regions;
pub mod reopen;
pub mod room;
pub mod shadow;
pub mod state;
pub mod stores;
pub mod strangers;
pub mod synced;

use culvert::{Errno, File};
use culvert_run::memory::{self, Span, UserSink};
pub use culvert_run::records;
use culvert_run::stat_descriptor;
use culvert_run::task;
use culvert_sys::{nr, syscall};
pub use open_file::OpenFile;
pub use recovery::{is_alive_with_records, recover, recover_all, recover_dead, recover_node};
pub use state::State;
pub use strangers::file_system;

/// Reads from `offset` on into `spans`, where the shadow holds the truth; none where the driver is
/// to be asked. `locked`: the caller has the lock of the node.
#[inline]
pub fn read<F: OpenFile>(
    file: &F,
    offset: u64,
    spans: &[Span],
    locked: bool,
) -> Option<culvert::Result<usize>> {
    match holds(file) {
        Ok(true) if !task::is_confined() => read_shadow(file, offset, spans, locked).transpose(),
        Ok(_) => None,
        Err(error) => Some(Err(error.into())),
    }
}

#[cold]
fn read_shadow(
    open: &dyn OpenFile,
    offset: u64,
    spans: &[Span],
    locked: bool,
) -> culvert::Result<Option<usize>> {
    let Some(shadow) = follow::followed(open.name())? else {
        return Ok(None);
    };
    let fd = shadow.number();
    if State::of(&stat_descriptor(fd)?).is_partly() {
        // Until it is read: the pager drops pages.
        let _lock = (!locked).then(|| open.lock()).flatten();
        return read_partly(open.file()?, fd, offset, spans).map(Some);
    }
    Ok(Some(read_all(fd, offset, spans)?))
}

/// preadv(2) of a shadow.
fn read_all(fd: i32, offset: u64, spans: &[Span]) -> Result<usize, Errno> {
    let arguments = [
        fd as usize,
        spans.as_ptr() as usize,
        spans.len(),
        offset as usize,
    ];
    // SAFETY: spans are `struct iovec`s, of the program's memory, which the kernel checks.
    unsafe { syscall::call(nr::PREADV, arguments) }
}

/// Reads what is there of a shadow that may have holes, and the rest from its file: filling them
/// would take room that nobody gives back, for bytes that may be looked at once. Under the node's
/// lock.
fn read_partly(file: &dyn File, fd: i32, offset: u64, spans: &[Span]) -> culvert::Result<usize> {
    let length = spans.iter().map(|span| span.length as u64).sum::<u64>();
    let end = offset.saturating_add(length);
    let end = end.min(stat_descriptor(fd)?.st_size as u64);
    let mut at = offset;
    while at < end {
        let (from, to) = fill::missing(fd, (at, end))?.unwrap_or((end, end));
        let until = if at < from { from } else { to };
        let part = memory::part(spans, (at - offset) as usize, (until - at) as usize);
        let got = match at < from {
            true => read_all(fd, at, &part).map_err(Into::into),
            false => file.read_at(at, &mut UserSink::new(&part)),
        };
        match got {
            Ok(count) => at += count as u64,
            Err(error) if at == offset => return Err(error),
            Err(_) => break,
        }
        // The file has become shorter, or the program's memory ends.
        if at < until {
            break;
        }
    }
    Ok(at.saturating_sub(offset) as usize)
}

/// Whether the bytes of the file lie in its shadow, so that its driver must not be asked for them.
#[inline]
pub fn holds<F: OpenFile>(file: &F) -> Result<bool, Errno> {
    match file.changes() {
        true => records::any(file.name()),
        false => Ok(false),
    }
}

/// Writes back what all processes of the run have stored in `file`: this one from what it knows,
/// the others by comparing.
pub fn write_back<F: OpenFile>(file: &F) -> culvert::Result<()> {
    if !holds(file)? {
        return Ok(());
    }
    let own = nodes::find(file.name()).map_or(Ok(()), |node| write_back_own(&node));
    own.and(recovery::write_back_others(file))
}

/// A descriptor of `file` is closed, perhaps the last: whoever looks at the file outside of the run
/// then sees what this process has stored, as natively.
pub fn closing<F: OpenFile>(file: &F) -> culvert::Result<()> {
    if !file.changes() || !nodes::any() || task::vfork_child().is_some() {
        return Ok(());
    }
    // A filter that lets a program close files may end it for the calls of writing back.
    if task::is_confined() {
        return Ok(());
    }
    match nodes::find(file.name()) {
        Some(node) if node.is_recorded() => write_back_own(&node),
        _ => Ok(()),
    }
}

/// Writes back what this process has stored in `node`, and what could not be written back when its
/// mappings went.
fn write_back_own(node: &alloc::sync::Arc<nodes::Node>) -> culvert::Result<()> {
    let _flushing = nodes::flushing();
    let mut result = Ok(());
    let owing = nodes::owing();
    if owing
        .iter()
        .any(|owing| alloc::sync::Arc::ptr_eq(owing, node))
    {
        result = node.write_back(dirty::Dirty::default());
        nodes::release_paid();
    }
    nodes::in_parts(|mut part| {
        part.retain(|region| alloc::sync::Arc::ptr_eq(&region.of, node));
        for (node, dirty) in dirty::collect(&part) {
            let written = node.write_back(dirty);
            if result.is_ok() {
                result = written;
            }
        }
    });
    result
}

/// Writes back what this process has stored in anything.
pub fn write_back_all() {
    if !nodes::any() {
        return;
    }
    let _flushing = nodes::flushing();
    let write_back = |node: &nodes::Node, dirty| {
        if let Err(error) = node.write_back(dirty) {
            culvert_sys::log!(
                "what was stored in {} is not written back: {error}",
                node.name
            );
        }
    };
    for node in nodes::owing() {
        write_back(&node, dirty::Dirty::default());
    }
    nodes::in_parts(|part| {
        for (node, dirty) in dirty::collect(&part) {
            write_back(&node, dirty);
        }
    });
}

/// This process is about to become another program, which may fail, so that its records stay: they
/// are an ended process's when it does not.
pub fn executes() {
    if task::vfork_child().is_none() {
        write_back_all();
    }
}

/// This process ends.
pub fn ends() {
    if !nodes::any() || task::vfork_child().is_some() {
        return;
    }
    // A filter that lets a program end may forbid the calls of writing back: its records stay, as
    // of one that was killed.
    if task::is_confined() {
        return;
    }
    write_back_all();
    // Other threads may store until the kernel has ended them: then somebody has to look.
    if !culvert_intercept::multi_threaded() {
        nodes::give_up_records();
    }
}

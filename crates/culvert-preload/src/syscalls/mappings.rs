//! Calls about memory in which driven files are mapped so that they can be written: munmap, mremap,
//! mprotect, msync.
//!
//! The kernel does them, on the shadows. Here the regions are kept, and what was stored is written
//! back in time.

use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use alloc::{sync::Arc, vec::Vec};
use culvert::Errno;
use culvert_cache::dirty::{self, Dirty};
use culvert_cache::nodes::{self, Mapped, Node};
use culvert_cache::pager::{self, Part};
use culvert_cache::{filling, regions::Region, stores, synced::Synced};
use culvert_intercept::Call;
use culvert_sys::syscall;

/// The call as the program made it.
pub(super) fn native(call: &Call) -> Answer {
    const PROT_EXEC: usize = 4;
    let result = call.execute();
    if let (Ok(start), culvert_sys::nr::MMAP) = (&result, call.number)
        && call.args[2] & PROT_EXEC != 0
    {
        culvert_intercept::code_mapped(*start, call.args[1]);
    }
    result
}

type Stored = Vec<(Arc<Node>, Dirty)>;

/// Writes back; the last error is the answer.
fn write_back(stored: Stored) -> Result<(), Errno> {
    let mut result = Ok(());
    for (node, dirty) in stored {
        if let Err(error) = node.write_back(dirty) {
            culvert_sys::log!(
                "what was stored in {} is not written back: {error}",
                node.name
            );
            // `filemap_check_errors`, mm/filemap.c
            result = Err(match error.errno() {
                errno @ (Errno::ENOSPC | Errno::EDQUOT) => errno,
                _ => Errno::EIO,
            });
        }
    }
    result
}

/// The same of what is unmapped, which the kernel would write back some time. Under a filter, which
/// may forbid that, it is left to whoever uses the file next.
fn write_back_some_time(stored: Stored) {
    if culvert_run::task::is_confined() {
        return stored
            .into_iter()
            .for_each(|(node, dirty)| node.leave(dirty));
    }
    let _ = write_back(stored);
}

/// Runs `run`, which puts something else at the program's memory from `start` on unless it fails.
/// The pages of the shadow stay, so that what was stored in them is written back when nobody can
/// store any more.
pub(super) fn replacing(start: usize, length: usize, run: impl FnOnce() -> Answer) -> Answer {
    let _flushing = nodes::flushing();
    let regions = nodes::between(start, length);
    let mut stored = dirty::collect(&regions);
    let answer = run();
    // Natively no store fails while one mapping takes another's place, so the others cannot be kept
    // from storing.
    if culvert_intercept::multi_threaded() {
        stored.extend(dirty::all_of(&regions));
    }
    write_back_some_time(stored);
    nodes::release();
    answer
}

/// munmap(2)
pub fn munmap(_: &Process, call: &mut Call) -> Answer {
    let [start, length, ..] = call.args;
    // EINVAL
    if !start.is_multiple_of(4096) || length == 0 {
        return Err(FORWARD);
    }
    if nodes::between(start, length).is_empty() && !pager::is_lazy(start, length) {
        return Err(FORWARD);
    }
    let _changing = nodes::changing();
    let _flushing = nodes::flushing();
    let regions = nodes::between(start, length);
    let threads = culvert_intercept::multi_threaded();
    // Which pages were stored into is asked before they are unmapped, and must be the last word.
    let forbidden = threads && dirty::forbid(&regions);
    let mut stored = dirty::collect(&regions);
    let answer = native(call);
    match answer {
        Ok(_) => {
            pager::unmapped(start, length);
            nodes::take(start, length);
        }
        // ENOMEM: too many mappings.
        Err(_) if threads => dirty::allow_again(&regions),
        Err(_) => {}
    }
    if threads && !forbidden {
        stored.extend(dirty::all_of(&regions));
    }
    write_back_some_time(stored);
    nodes::release();
    answer
}

/// mprotect(2), pkey_mprotect(2): what becomes writable is recorded before.
pub fn mprotect(_: &Process, call: &mut Call) -> Answer {
    const PROT_WRITE: usize = 2;
    let [start, length, protection, ..] = call.args;
    let lazy = match protection & PROT_WRITE {
        0 => Vec::new(),
        _ => pager::between(start, nodes::pages(length)),
    };
    if lazy.iter().any(|part| part.read_only) {
        return Err(Errno::EACCES);
    }
    if protection & PROT_WRITE == 0 || nodes::between(start, length).is_empty() {
        return Err(FORWARD);
    }
    let _changing = nodes::changing();
    let regions = nodes::between(start, length);
    for region in regions.iter().filter(|region| !region.written) {
        region.of.record_locked(region.bytes())?;
    }
    stores::allow(start, length);
    Err(FORWARD)
}

/// mremap(2)
pub fn mremap(_: &Process, call: &mut Call) -> Answer {
    const MREMAP_FIXED: usize = 2;
    const MREMAP_DONTUNMAP: usize = 4;
    let [old, old_length, new_length, flags, target, _] = call.args;
    let fixed = flags & MREMAP_FIXED != 0;
    let concerned =
        |start, length| !nodes::between(start, length).is_empty() || pager::is_lazy(start, length);
    let replaces = fixed && concerned(target, new_length);
    if !replaces && !concerned(old, old_length.max(1)) {
        return Err(FORWARD);
    }
    let _changing = nodes::changing();
    let moved = nodes::between(old, old_length.max(1));
    for region in moved.iter().filter(|region| region.written) {
        let first = region.offset - (region.start - old) as u64;
        let end = first.saturating_add(nodes::pages(new_length) as u64);
        region
            .of
            .record_locked((region.offset, end.max(region.offset)))?;
    }
    let mut concerned = moved.clone();
    if fixed {
        concerned.extend(nodes::between(target, new_length));
    }
    let kept = nodes::pages(new_length);
    let cut_off = nodes::between(old.saturating_add(kept), old_length.saturating_sub(kept));
    let _flushing = nodes::flushing();
    let mut stored = dirty::collect(&concerned);
    let lazy = pager::between(old, nodes::pages(old_length.max(1)));
    // What is put where others may look already is filled before: a moved mapping has lost its
    // registration.
    if fixed {
        fill(&lazy)?;
    }
    let whole = |start: usize, length: usize| start == old && length == nodes::pages(old_length);
    let several = fixed
        && nodes::pages(old_length) == nodes::pages(new_length)
        && !moved.iter().any(|it| whole(it.start, it.end - it.start))
        && !lazy.iter().any(|it| whole(it.start, it.length));
    let pieces = match several {
        true => {
            // The kernel moves several mappings by one call (Linux 6.17), but none that is
            // registered (`vma_multi_allowed`, mm/mremap.c).
            let regions = moved.iter().map(|it| (it.start, it.end - it.start));
            let parts = lazy.iter().map(|it| (it.start, it.length));
            regions.chain(parts).for_each(pager::unregister);
            // Only where something of ours lies at the target.
            let nodes = nodes::between(target, new_length);
            let parts = pager::between(target, nodes::pages(new_length));
            let nodes = nodes.iter().map(|it| (it.start, it.end - it.start));
            let parts = parts.iter().map(|it| (it.start, it.length));
            let replaced = nodes.chain(parts);
            let there = |(start, length)| nodes::what_is_there(old + (start - target), length);
            replaced.flat_map(there).collect()
        }
        false => alloc::vec![(old, new_length)],
    };
    let mut answer = native(call);
    // What lay at the target is unmapped before anything else can fail (`mremap_to`, mm/mremap.c).
    if fixed && answer.is_err() {
        forget_what_is_gone(target, nodes::pages(new_length));
        if several {
            not_all_moved(&moved, &lazy, old, target);
            stores::rewatch(old, old_length);
        }
        // What other threads have stored there since it was asked.
        if culvert_intercept::multi_threaded() {
            stored.extend(dirty::all_of(&concerned));
        }
    }
    if let Ok(new) = answer {
        // Where there was nothing, what lies at the target stays.
        for (start, length) in pieces.into_iter().filter(|_| fixed) {
            let start = target + (start - old);
            pager::unmapped(start, length);
            nodes::take(start, length);
        }
        if flags & MREMAP_DONTUNMAP == 0 && old_length != 0 {
            nodes::take(old, old_length);
        }
        for region in moved {
            insert_moved(&region, old, new, (old_length, new_length));
        }
        if flags & MREMAP_DONTUNMAP == 0 && old_length != 0 {
            pager::unmapped(old, old_length);
        }
        if let Err(error) = attach_moved(&lazy, old, new, (old_length, new_length)) {
            // SAFETY: what the call made, which nobody knows yet.
            let _ = unsafe { syscall::call(culvert_sys::nr::MUNMAP, [new, new_length]) };
            answer = Err(error);
        }
        // After that: the pager's registration has replaced the one that watches stores.
        let watched_anew = new != old || !lazy.is_empty();
        if watched_anew {
            stores::rewatch(new, new_length);
            stores::rewatch(old, old_length);
        }
        // What other threads have stored since it was asked. A mapping that stays where it is still
        // knows, but for the end that is cut off.
        if culvert_intercept::multi_threaded() {
            stored.extend(match watched_anew {
                true => dirty::all_of(&concerned),
                false => dirty::all_of(&cut_off),
            });
        }
    }
    write_back_some_time(stored);
    nodes::release();
    answer
}

/// Forgets the mappings of a range, as far as nothing is mapped there any more.
fn forget_what_is_gone(start: usize, length: usize) {
    let regions = nodes::between(start, length);
    let regions = regions.iter().map(|it| (it.start, it.end - it.start));
    let parts = pager::between(start, length);
    let parts = parts.iter().map(|it| (it.start, it.length));
    for (start, length) in regions.chain(parts) {
        let end = start + length;
        let (mut at, there) = (start, nodes::what_is_there(start, length));
        for (from, length) in there.into_iter().chain([(end, 0)]) {
            if at < from {
                pager::unmapped(at, from - at);
                nodes::take(at, from - at);
            }
            at = from + length;
        }
    }
}

/// The kernel has moved the first of several mappings, or none, before it found one that it could
/// not move. What is not at `old` any more is at `target`.
fn not_all_moved(regions: &[Mapped], parts: &[Part], old: usize, target: usize) {
    for region in regions {
        let length = region.end - region.start;
        if !nodes::is_there(region.start, length) {
            nodes::take(region.start, length);
            insert_moved(region, old, target, (usize::MAX, usize::MAX));
            stores::rewatch(target + (region.start - old), length);
        }
    }
    for part in parts {
        let now = match nodes::is_there(part.start, part.length) {
            true => *part,
            false => {
                pager::unmapped(part.start, part.length);
                let start = target + (part.start - old);
                Part { start, ..*part }
            }
        };
        stays(&[now]);
    }
}

pub(super) fn fill(parts: &[Part]) -> Result<(), Errno> {
    for part in parts {
        filling::all(part.name).map_err(|error| {
            culvert_sys::log!(
                "{}, which is mapped and moved, cannot be filled: {error}",
                part.name
            );
            Errno::ENOMEM
        })?;
    }
    Ok(())
}

/// The parts were not replaced after all: the pager fills them again, which nobody else would.
pub(super) fn stays(parts: &[Part]) {
    for part in parts {
        if !pager::mapped(part) {
            let _ = fill(core::slice::from_ref(part));
        }
        // The pager's registration has replaced the one that watches stores.
        stores::rewatch(part.start, part.length);
    }
}

/// The parts that were at `old` and are filled on demand are at `new` now: the pager hears of it,
/// or they are filled.
fn attach_moved(
    parts: &[Part],
    old: usize,
    new: usize,
    lengths: (usize, usize),
) -> Result<(), Errno> {
    let (old_length, new_length) = (nodes::pages(lengths.0), nodes::pages(lengths.1));
    for part in parts {
        let start = part.start - old;
        let end = match start + part.length {
            end if end >= old_length => new_length,
            end => end.min(new_length),
        };
        let moved = Part {
            start: new + start,
            length: end.saturating_sub(start),
            ..*part
        };
        if moved.length != 0 && !pager::mapped(&moved) {
            fill(&[moved])?;
        }
    }
    Ok(())
}

/// `region`, which was part of `lengths.0` bytes at `old`, is part of `lengths.1` bytes at `new`.
fn insert_moved(region: &Mapped, old: usize, new: usize, lengths: (usize, usize)) {
    let (old_length, new_length) = (nodes::pages(lengths.0), nodes::pages(lengths.1));
    let start = region.start - old;
    // The last one grows with the mapping; one that is mapped once more (`old_length` 0) is as long
    // as was asked for.
    let end = match region.end - old {
        end if end >= old_length => new_length,
        end => end.min(new_length),
    };
    nodes::insert(Region {
        start: new + start,
        end: new + end.max(start),
        ..region.clone()
    });
}

/// msync(2). The kernel says what is wrong with the range, and syncs what it can all the same. With
/// MS_SYNC it is about the bytes of the files, whoever has stored them.
pub fn msync(_: &Process, call: &mut Call) -> Answer {
    const MS_SYNC: usize = 4;
    let [start, length, flags, ..] = call.args;
    let syncs = flags & MS_SYNC != 0;
    let mut shown = match syncs {
        true => Synced::read_only(start, length)?,
        false => Synced::default(),
    };
    if shown.is_empty() && nodes::between(start, length).is_empty() {
        return Err(FORWARD);
    }
    let answer = native(call);
    if !matches!(answer, Ok(_) | Err(Errno::ENOMEM)) {
        return answer;
    }
    let mut result = {
        let _flushing = nodes::flushing();
        // Something else may have been mapped there until nobody could any more.
        let regions = nodes::between(start, length);
        match syncs {
            true => {
                shown.add_regions(&regions);
                let mut result = Ok(());
                shown.own(|stored| result = result.and(write_back(stored)));
                result
            }
            false => write_back(dirty::collect(&regions)),
        }
    };
    if let Err(error) = shown.others() {
        result = result.and(Err(error.errno()));
    }
    result.and(answer)
}

/// remap_file_pages(2): the kernel maps other bytes of the same file.
pub fn remap_file_pages(_: &Process, call: &mut Call) -> Answer {
    let [start, length, _, page, ..] = call.args;
    if nodes::between(start, length).is_empty() && !pager::is_lazy(start, length) {
        return Err(FORWARD);
    }
    let _changing = nodes::changing();
    let regions = nodes::between(start, length);
    let offset = (page as u64).saturating_mul(4096);
    let end = offset.saturating_add(nodes::pages(length) as u64);
    for region in regions.iter().filter(|region| region.written) {
        region.of.record_locked((offset, end))?;
    }
    // The new mapping is not registered.
    fill(&pager::between(start, nodes::pages(length)))?;
    replacing(start, length, || {
        let answer = native(call)?;
        pager::unmapped(start, length);
        for region in regions {
            nodes::insert(Region {
                offset: offset + (region.start - start) as u64,
                ..region
            });
        }
        stores::rewatch(start, length);
        Ok(answer)
    })
}

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
    let target = (flags & MREMAP_FIXED != 0).then_some(target);
    let concerned =
        |start, length| !nodes::between(start, length).is_empty() || pager::is_lazy(start, length);
    let replaces = target.is_some_and(|target| concerned(target, new_length));
    if !replaces && !concerned(old, old_length.max(1)) {
        return Err(FORWARD);
    }
    let _changing = nodes::changing();
    let regions = nodes::between(old, old_length.max(1));
    for region in regions.iter().filter(|region| region.written) {
        let first = region.offset - (region.start - old) as u64;
        let end = first.saturating_add(nodes::pages(new_length) as u64);
        region
            .of
            .record_locked((region.offset, end.max(region.offset)))?;
    }
    let mut concerned = regions.clone();
    if let Some(target) = target {
        concerned.extend(nodes::between(target, new_length));
    }
    let kept = nodes::pages(new_length);
    let cut_off = nodes::between(old.saturating_add(kept), old_length.saturating_sub(kept));
    let _flushing = nodes::flushing();
    let mut stored = dirty::collect(&concerned);
    let moving = Move {
        old,
        old_length,
        new_length,
        target,
        stays: flags & MREMAP_DONTUNMAP != 0 || old_length == 0,
        regions,
        parts: pager::between(old, nodes::pages(old_length.max(1))),
    };
    let pieces = moving.prepare()?;
    let answer = match native(call) {
        Ok(new) => {
            let done = moving.done(new, &pieces);
            // What other threads have stored since it was asked. A mapping that stays where it is
            // still knows, but for the end that is cut off.
            if culvert_intercept::multi_threaded() {
                stored.extend(match moving.is_watched_anew(new) {
                    true => dirty::all_of(&concerned),
                    false => dirty::all_of(&cut_off),
                });
            }
            done.map(|()| new)
        }
        Err(errno) => {
            if let Some(target) = target {
                moving.failed(target);
                // What other threads have stored there since it was asked.
                if culvert_intercept::multi_threaded() {
                    stored.extend(dirty::all_of(&concerned));
                }
            }
            Err(errno)
        }
    };
    write_back_some_time(stored);
    nodes::release();
    answer
}

/// A call of mremap(2), and what is known of the memory that it moves.
struct Move {
    old: usize,
    old_length: usize,
    new_length: usize,
    /// Where it must go (MREMAP_FIXED).
    target: Option<usize>,
    /// What is at `old` stays there, too.
    stays: bool,
    /// The mappings at `old` that can be written.
    regions: Vec<Mapped>,
    /// Those that are filled on demand.
    parts: Vec<Part>,
}

impl Move {
    /// Whether several mappings are moved by one call, as the kernel does since Linux 6.17.
    fn has_several(&self) -> bool {
        let length = nodes::pages(self.old_length);
        let whole = |part: (usize, usize)| part == (self.old, length);
        self.target.is_some()
            && length == nodes::pages(self.new_length)
            && !extents(&self.regions).any(whole)
            && !part_extents(&self.parts).any(whole)
    }

    /// Makes ready what is moved. The answer is which memory will be replaced at the target, by
    /// where it comes from.
    fn prepare(&self) -> Result<Vec<(usize, usize)>, Errno> {
        let Some(target) = self.target else {
            return Ok(Vec::new());
        };
        // What is put where others may look already is filled before: a moved mapping has lost its
        // registration.
        fill(&self.parts)?;
        if !self.has_several() {
            return Ok(alloc::vec![(self.old, self.new_length)]);
        }
        // The kernel moves none of several that is registered (`vma_multi_allowed`, mm/mremap.c).
        extents(&self.regions)
            .chain(part_extents(&self.parts))
            .for_each(pager::unregister);
        // Only where something of ours lies at the target.
        let regions = nodes::between(target, self.new_length);
        let parts = pager::between(target, nodes::pages(self.new_length));
        let there = |(start, length)| nodes::what_is_there(self.old + (start - target), length);
        Ok(extents(&regions)
            .chain(part_extents(&parts))
            .flat_map(there)
            .collect())
    }

    /// The kernel has moved it to `new`, where `pieces` ([`Move::prepare`]) are.
    fn done(&self, new: usize, pieces: &[(usize, usize)]) -> Result<(), Errno> {
        // Where there was nothing, what lies at the target stays.
        for (start, length) in pieces {
            let start = new + (start - self.old);
            pager::unmapped(start, *length);
            nodes::take(start, *length);
        }
        if !self.stays {
            nodes::take(self.old, self.old_length);
        }
        for region in &self.regions {
            let (start, end) = self.place_of(region.start, region.end, new);
            nodes::insert(Region {
                start,
                end,
                ..region.clone()
            });
        }
        if !self.stays {
            pager::unmapped(self.old, self.old_length);
        }
        let attached = self.attach_parts(new);
        if attached.is_err() {
            // SAFETY: what the call made, which nobody knows yet.
            let _ = unsafe { syscall::call(culvert_sys::nr::MUNMAP, [new, self.new_length]) };
        }
        // After that: the pager's registration has replaced the one that watches stores.
        if self.is_watched_anew(new) {
            stores::rewatch(new, self.new_length);
            stores::rewatch(self.old, self.old_length);
        }
        attached
    }

    /// Whether nobody knows any more what was stored before it was moved to `new`.
    fn is_watched_anew(&self, new: usize) -> bool {
        new != self.old || !self.parts.is_empty()
    }

    /// Where what lies from `start` to `end` is, now that all is at `new`.
    fn place_of(&self, start: usize, end: usize, new: usize) -> (usize, usize) {
        let (start, end) = (start - self.old, end - self.old);
        let new_length = nodes::pages(self.new_length);
        // The last one grows with the mapping; one that is mapped once more (`old_length` 0) is as
        // long as was asked for.
        let end = match end >= nodes::pages(self.old_length) {
            true => new_length,
            false => end.min(new_length),
        };
        (new + start, new + end.max(start))
    }

    /// The pager hears of the parts that are filled on demand, which lie at `new` now, or they are
    /// filled.
    fn attach_parts(&self, new: usize) -> Result<(), Errno> {
        for part in &self.parts {
            let (start, end) = self.place_of(part.start, part.start + part.length, new);
            let moved = Part {
                start,
                length: end - start,
                ..*part
            };
            if moved.length != 0 && !pager::mapped(&moved) {
                fill(&[moved])?;
            }
        }
        Ok(())
    }

    /// The kernel has failed to move it to `target`. What lay there is unmapped before anything
    /// else can fail (`mremap_to`, mm/mremap.c).
    fn failed(&self, target: usize) {
        forget_what_is_gone(target, nodes::pages(self.new_length));
        if self.has_several() {
            self.not_all_moved(target);
            stores::rewatch(self.old, self.old_length);
        }
    }

    /// The kernel has moved the first of several mappings, or none, before it found one that it
    /// could not move. What is not at `old` any more is at `target`.
    fn not_all_moved(&self, target: usize) {
        for region in &self.regions {
            let length = region.end - region.start;
            if !nodes::is_there(region.start, length) {
                nodes::take(region.start, length);
                let start = target + (region.start - self.old);
                nodes::insert(Region {
                    start,
                    end: start + length,
                    ..region.clone()
                });
                stores::rewatch(start, length);
            }
        }
        for part in &self.parts {
            let now = match nodes::is_there(part.start, part.length) {
                true => *part,
                false => {
                    pager::unmapped(part.start, part.length);
                    let start = target + (part.start - self.old);
                    Part { start, ..*part }
                }
            };
            stays(&[now]);
        }
    }
}

/// Address and length of each of these.
fn extents(regions: &[Mapped]) -> impl Iterator<Item = (usize, usize)> {
    regions.iter().map(|it| (it.start, it.end - it.start))
}

/// The same of what is filled on demand.
fn part_extents(parts: &[Part]) -> impl Iterator<Item = (usize, usize)> {
    parts.iter().map(|it| (it.start, it.length))
}

/// Forgets the mappings of a range, as far as nothing is mapped there any more.
fn forget_what_is_gone(start: usize, length: usize) {
    let regions = nodes::between(start, length);
    let parts = pager::between(start, length);
    for (start, length) in extents(&regions).chain(part_extents(&parts)) {
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

//! Advice about memory in which driven files are mapped: madvise, process_madvise.

use super::mappings::fill;
use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_cache::{nodes, pager, stores};
use culvert_intercept::Call;

const MADV_REMOVE: usize = 9;
const MADV_DONTFORK: usize = 10;
const MADV_HUGEPAGE: usize = 14;
const MADV_COLLAPSE: usize = 25;
const MADV_GUARD_INSTALL: usize = 102;

/// Pages from `start` on are about to be guarded. The pager enters pages around those that are
/// touched, and would take guards away (`mfill_atomic_install_pte`, mm/userfaultfd.c): of a file
/// that is filled it enters none. Where stores are watched the kernel would try for ever
/// (`guard_install_pte_entry`, mm/madvise.c, makes room for its mark by a call that leaves the
/// other one's).
fn before_guards(start: usize, length: usize) -> Result<(), Errno> {
    fill(&pager::between(start, nodes::pages(length)))?;
    stores::unwatch(start, length);
    Ok(())
}

/// What madvise(2) may be told that takes pages out of page tables: `MADV_DONTNEED`, `MADV_PAGEOUT`
/// (without swap, too), `MADV_DONTNEED_LOCKED`, `MADV_GUARD_INSTALL`.
fn takes_pages_out(advice: usize) -> bool {
    matches!(advice, 4 | 21 | 24 | MADV_GUARD_INSTALL)
}

/// madvise(2): a hole becomes one of the file, too.
pub fn madvise(_: &Process, call: &mut Call) -> Answer {
    let [start, length, advice, ..] = call.args;
    let empties = takes_pages_out(advice);
    let known = matches!(
        advice,
        MADV_REMOVE | MADV_DONTFORK | MADV_HUGEPAGE | MADV_COLLAPSE
    );
    if !empties && !known {
        return Err(FORWARD);
    }
    if nodes::between(start, length).is_empty() && !pager::is_lazy(start, length) {
        return Err(FORWARD);
    }
    let _changing = nodes::changing();
    if advice == MADV_GUARD_INSTALL {
        before_guards(start, length)?;
    }
    if empties {
        let _flushing = nodes::flushing();
        stores::pages_go(start, length);
        return call.execute();
    }
    if advice == MADV_HUGEPAGE {
        return beside_ours(start, length, call);
    }
    if advice == MADV_COLLAPSE {
        // It would take pages away from other processes, too, which cannot tell then whether they
        // have stored into them.
        return Err(Errno::EINVAL);
    }
    if advice == MADV_DONTFORK {
        nodes::some_stay();
        return call.execute();
    }
    let lazy = pager::between(start, nodes::pages(length));
    // The kernel's own mapping could be written to (pager::mapped).
    if lazy.iter().any(|part| part.read_only) {
        return Err(Errno::EACCES);
    }
    let answer = call.execute();
    if answer.is_ok() {
        for region in nodes::between(start, length) {
            region.of.punch(region.bytes());
        }
        // Pages that were filled in between have the old bytes.
        if !lazy.is_empty() {
            return call.execute();
        }
    }
    answer
}

/// Gives the advice of `call` to what lies between `start` and `length` bytes from there, but not
/// to mappings of driven files. A page that is punched out of a shadow as part of a huge one is not
/// taken out of the file but emptied in place (`truncate_inode_partial_folio`, mm/truncate.c), and
/// what a pipe has been given of it before (`evict`) is empty, too. Pages of the usual size
/// are always right.
fn beside_ours(start: usize, length: usize, call: &Call) -> Answer {
    let end = start.saturating_add(nodes::pages(length));
    let regions = nodes::between(start, length).into_iter();
    let parts = pager::between(start, nodes::pages(length)).into_iter();
    let mut ours: Vec<(usize, usize)> = regions
        .map(|it| (it.start, it.end))
        .chain(parts.map(|it| (it.start, it.start + it.length)))
        .collect();
    ours.sort_unstable();
    ours.push((end, end));
    let (mut at, mut answer) = (start, Ok(0));
    for (from, to) in ours {
        if at < from {
            let part = call.replacing().word(0, at).word(1, from - at);
            answer = answer.and(part.execute());
        }
        at = at.max(to);
    }
    answer
}

/// process_madvise(2): from Linux 6.13 on a process may give itself any advice. A hole of a mapped
/// file, and huge pages, get the answer of older ones.
pub fn process_madvise(_: &Process, call: &mut Call) -> Answer {
    let [_, list, count, advice, ..] = call.args;
    // A list that cannot be read is the kernel's EFAULT.
    let spans = culvert_run::memory::spans(list, count).unwrap_or_default();
    if nodes::any() && takes_pages_out(advice) {
        let _changing = nodes::changing();
        let guards = advice == MADV_GUARD_INSTALL;
        for span in spans.iter().filter(|_| guards) {
            before_guards(span.base, span.length)?;
        }
        let _flushing = nodes::flushing();
        for span in &spans {
            stores::pages_go(span.base, span.length);
        }
        return call.execute();
    }
    let known = matches!(
        advice,
        MADV_REMOVE | MADV_DONTFORK | MADV_HUGEPAGE | MADV_COLLAPSE
    );
    if !known {
        return Err(FORWARD);
    }
    let ours =
        |start, length| !nodes::between(start, length).is_empty() || pager::is_lazy(start, length);
    if !spans.iter().any(|span| ours(span.base, span.length)) {
        return Err(FORWARD);
    }
    if advice == MADV_DONTFORK {
        nodes::some_stay();
        return Err(FORWARD);
    }
    culvert_sys::log!(
        "process_madvise with advice {advice} of a mapped file of a mount is refused, EINVAL: \
        madvise(2) makes holes"
    );
    Err(Errno::EINVAL)
}

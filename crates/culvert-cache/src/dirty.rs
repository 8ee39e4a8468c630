//! Which pages a process has stored into: the kernel knows, where it has asynchronous write
//! protection (`UFFD_FEATURE_WP_ASYNC`, Linux 6.7; userfaultfd(2) says that ordinary users may have
//! it, too).
//!
//! A mapping is write-protected page by page when it is made. The first store into a page takes the
//! protection away, without anybody being asked, and PAGEMAP_SCAN (ioctl_pagemap_scan(2)) tells
//! which pages still have it. A page that the kernel took out of memory after it was stored into
//! has nothing left that says so, while a mark stays for a protected one: so what is not known to
//! be protected counts as stored into.
//!
//! The child of a fork has no page tables for mappings of files (`vma_needs_copy`, mm/memory.c),
//! and making them to protect pages would cost more than the fork. There a page that is not there
//! was not stored into, and one that is there and not protected is compared with the file: it may
//! only have been read. That holds while nothing takes pages out of page tables but calls that are
//! seen here: without swap, on a file system without huge pages.
//!
//! Elsewhere all that is mapped counts, and is compared with the file.

use super::fill;
use super::nodes::{self, Mapped, Node};
use super::pager::{self, userfault};
use super::regions::Watch;
use crate::shadow;
use alloc::{sync::Arc, vec::Vec};
use culvert_run::stat_descriptor;
use culvert_run::task;
use culvert_sys::PAGE64;
use culvert_sys::process::sysinfo;
use culvert_sys::{Errno, nr, syscall};

/// Bytes of a file that this process may have stored.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Where they are.
    pub ranges: Vec<(u64, u64)>,
    /// They need not be compared with the file: they were stored.
    pub exact: bool,
}

impl Dirty {
    /// Takes over what could not be written back before: it may not have been stored at all, so all
    /// is compared.
    pub fn take_over(&mut self, failed: &mut Vec<(u64, u64)>) {
        self.exact &= failed.is_empty();
        self.ranges.append(failed);
    }
}

const MODE_MISSING: u64 = 1;
const MODE_WP: u64 = 2;
/// `_IOWR('f', 16, struct pm_scan_arg)`, include/uapi/linux/fs.h; then the categories of pages.
const PAGEMAP_SCAN: usize = 0xc060_6610;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// How many runs of pages one call of it tells.
const RUNS: usize = 64;

/// Begins to watch the stores into `length` bytes at `start`, a mapping that nobody has stored into
/// yet.
pub fn watch(start: usize, length: usize) -> Watch {
    match register(start, length) {
        Some(fd) if protect(fd, start as u64, length as u64).is_ok() => Watch::Protected,
        _ => Watch::No,
    }
}

/// Enters what is there of a mapping that is watched into the page tables, which costs a tenth of
/// reading it from its driver and a quarter of the faults: for who has just done that.
pub fn enter(start: usize, length: usize) {
    if let Some(fd) = pager::userfault() {
        pager::userfault::enter(fd, start as u64, length as u64);
    }
}

/// The same of a region of a process that was just forked: no page of it is there.
pub fn watch_absent(region: &Mapped) -> Watch {
    if task::is_confined() {
        return Watch::No;
    }
    let (start, length) = (region.start, region.end - region.start);
    match pages_stay(&region.of) {
        true if register(start, length).is_some() => Watch::Absent,
        true => Watch::No,
        false => watch(start, length),
    }
}

/// Whether pages of the node's shadow that are mapped stay in page tables: swapped out
/// (try_to_unmap) they leave nothing behind, nor do huge ones that are split
/// (`__split_huge_pmd_locked`). Asked at the beginning and at the end: swap that comes and goes
/// within the life of a child is not thought of.
fn pages_stay(node: &Node) -> bool {
    let told = sysinfo();
    let shadow = nodes::open(node.name).map(|(_node, fd)| stat_descriptor(fd));
    told.is_ok_and(|told| told.swap == 0)
        && shadow.is_some_and(|found| found.is_ok_and(|found| fill::is_fit(&found)))
}

/// Registers what is mapped for write protection, no page of which is protected by that; the
/// userfaultfd.
fn register(start: usize, length: usize) -> Option<i32> {
    if task::is_confined() || task::vfork_child().is_some() {
        return None;
    }
    let fd = pager::userfault()?;
    let mode = match pager::is_lazy(start, length) {
        true => MODE_MISSING | MODE_WP,
        false => MODE_WP,
    };
    userfault::note(fd, start as u64, length as u64, mode).ok()?;
    Some(fd)
}

fn protect(fd: i32, start: u64, length: u64) -> Result<(), Errno> {
    userfault::protect(fd, start, length, 1)
}

/// Takes all marks of [`watch`] away.
pub fn unwatch(start: usize, length: usize) {
    if let Some(fd) = pager::userfault() {
        let _ = userfault::protect(fd, start as u64, length as u64, 0);
    }
}

/// What was stored through `regions` since it was last asked, node by node. The caller holds
/// [`nodes::flushing`] until that is written back, so that nobody else finds nothing to do
/// meanwhile.
pub fn collect(regions: &[Mapped]) -> Vec<(Arc<Node>, Dirty)> {
    let mut found: Vec<(Arc<Node>, Dirty)> = Vec::new();
    for region in regions.iter().filter(|region| region.written) {
        let stored = match region.watch {
            _ if task::is_confined() => None,
            Watch::No => None,
            Watch::Protected => stored(region).ok(),
            Watch::Absent if pages_stay(&region.of) => there(region).ok(),
            Watch::Absent => None,
        };
        let exact = stored.is_some() && region.watch == Watch::Protected;
        let mut ranges = stored.unwrap_or_else(|| alloc::vec![region.bytes()]);
        match found
            .iter_mut()
            .find(|(node, _)| Arc::ptr_eq(node, &region.of))
        {
            Some((_, dirty)) => {
                dirty.ranges.append(&mut ranges);
                dirty.exact &= exact;
            }
            None => found.push((region.of.clone(), Dirty { ranges, exact })),
        }
    }
    found
}

/// Everything that `regions` show and that can be stored into, to be compared: where other threads
/// may have stored after it was asked, and the answer is gone with the mapping.
pub fn all_of(regions: &[Mapped]) -> Vec<(Arc<Node>, Dirty)> {
    let written = regions.iter().filter(|region| region.written);
    written
        .map(|region| {
            let all = Dirty {
                ranges: alloc::vec![region.bytes()],
                exact: false,
            };
            (region.of.clone(), all)
        })
        .collect()
}

/// Ends all stores into `regions`, which are about to be unmapped: whoever stores from now on gets
/// the signal that he would get then. False: it cannot be done.
pub fn forbid(regions: &[Mapped]) -> bool {
    const PROT_READ: usize = 1;
    protect_all(regions, PROT_READ)
}

/// Allows them again, because the mappings stay.
pub fn allow_again(regions: &[Mapped]) {
    const PROT_READ_WRITE: usize = 3;
    protect_all(regions, PROT_READ_WRITE);
}

fn protect_all(regions: &[Mapped], protection: usize) -> bool {
    let mut written = regions.iter().filter(|region| region.written);
    written.all(|region| {
        let arguments = [region.start, region.end - region.start, protection];
        // SAFETY: mappings of the program, which is about to lose them or has kept them.
        unsafe { syscall::call(nr::MPROTECT, arguments) }.is_ok()
    })
}

/// The bytes of the file that were stored through `region`, whose pages are protected again.
fn stored(region: &Mapped) -> Result<Vec<(u64, u64)>, Errno> {
    let fd = pager::userfault().ok_or(Errno::EBADF)?;
    let map = shadow::open(c"/proc/self/pagemap", 0, 0)?;
    let (start, end) = (region.start as u64, region.end as u64);
    let mut ranges = Vec::new();
    let mut note = |from: u64, to: u64| -> Result<(), Errno> {
        if from < to {
            // Before anybody reads the bytes: what is stored from now on is found the next time.
            protect(fd, from, to - from)?;
            let offset = |address: u64| region.offset + (address - start);
            ranges.push((offset(from), offset(to)));
        }
        Ok(())
    };
    // The first byte that is not known to be protected.
    let mut from = start;
    let protected = Wanted {
        flags: 0,
        inverted: PAGE_IS_WRITTEN,
    };
    scan(map.raw(), (start, end), &protected, &mut |run| {
        note(from, run.0.max(from))?;
        from = from.max(run.1);
        Ok(())
    })?;
    note(from, end)?;
    debug_assert!(ranges.iter().all(|range| range.0 % PAGE64 == 0));
    Ok(ranges)
}

/// The bytes of the file in pages of `region` that are there and not protected; from now on they
/// are.
fn there(region: &Mapped) -> Result<Vec<(u64, u64)>, Errno> {
    const PM_SCAN_WP_MATCHING: u64 = 1;
    const PM_SCAN_CHECK_WPASYNC: u64 = 2;
    let map = shadow::open(c"/proc/self/pagemap", 0, 0)?;
    let (start, end) = (region.start as u64, region.end as u64);
    let mut ranges = Vec::new();
    // The look and the protection are one, so that no store falls between.
    let unprotected = Wanted {
        flags: PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC,
        inverted: 0,
    };
    scan(map.raw(), (start, end), &unprotected, &mut |(from, to)| {
        let offset = |address: u64| region.offset + (address - start);
        ranges.push((offset(from), offset(to)));
        Ok(())
    })?;
    Ok(ranges)
}

/// What PAGEMAP_SCAN is to do with pages that are there, or were once.
struct Wanted {
    flags: u64,
    /// `PAGE_IS_WRITTEN`: those that are not written are wanted, 0: those that are.
    inverted: u64,
}

/// Calls `found` with each run of such pages, in the order of their addresses.
fn scan(
    map: i32,
    (start, end): (u64, u64),
    wanted: &Wanted,
    found: &mut dyn FnMut((u64, u64)) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut at = start;
    while at < end {
        let mut runs = [[0u64; 3]; RUNS];
        // `struct pm_scan_arg`.
        let there = PAGE_IS_PRESENT | PAGE_IS_SWAPPED;
        let (size, vector) = (96, runs.as_mut_ptr() as u64);
        let mut words = [
            size,
            wanted.flags,
            at,
            end,
            0,
            vector,
            RUNS as u64,
            0,
            wanted.inverted,
            PAGE_IS_WRITTEN,
            there,
            PAGE_IS_WRITTEN,
        ];
        let address = words.as_mut_ptr() as usize;
        // SAFETY: the structure is 12 words long, and the vector has the length that it says.
        let count = unsafe { syscall::call(nr::IOCTL, [map as usize, PAGEMAP_SCAN, address]) }?;
        for run in runs.iter().take(count) {
            found((run[0], run[1]))?;
        }
        let walked = words[4];
        if walked <= at {
            return Err(Errno::EIO);
        }
        at = walked;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that were only mapped must not be written over what somebody else has written there.
    #[test]
    fn what_failed_before_is_compared() {
        let mut failed = alloc::vec![(4096, 8192)];
        let mut dirty = Dirty {
            ranges: alloc::vec![(0, 4096)],
            exact: true,
        };
        dirty.take_over(&mut failed);
        assert!(failed.is_empty() && !dirty.exact);
        assert_eq!(dirty.ranges, [(0, 4096), (4096, 8192)]);
    }

    #[test]
    fn where_nothing_failed_nothing_is_compared_for_it() {
        for exact in [true, false] {
            let mut dirty = Dirty {
                ranges: alloc::vec![(0, 4096)],
                exact,
            };
            dirty.take_over(&mut Vec::new());
            assert_eq!((dirty.exact, &dirty.ranges[..]), (exact, &[(0, 4096)][..]));
        }
    }
}

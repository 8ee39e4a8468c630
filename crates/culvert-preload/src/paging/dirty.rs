//! Which pages a process has stored into: the kernel knows, where it has asynchronous write protection (`UFFD_FEATURE_WP_ASYNC`, Linux 6.7; userfaultfd(2) says that
//! ordinary users may have it, too).
//!
//! A mapping is write-protected page by page when it is made. The first store into a page takes the protection away, without anybody being asked, and
//! PAGEMAP_SCAN (ioctl_pagemap_scan(2)) tells which pages still have it. A page that the kernel took out of memory after it was stored into has nothing
//! left that says so, while a mark stays for a protected one: so what is not known to be protected counts as stored into.
//!
//! Elsewhere all that is mapped counts, and is compared with the file.

use super::bytes::PAGE;
use super::nodes::{self, Mapped, Node};
use super::pager;
use crate::process;
use crate::shadow;
use alloc::{sync::Arc, vec::Vec};
use culvert_sys::{Errno, nr, syscall};

/// Bytes of a file that this process may have stored.
#[derive(Debug, Default)]
pub struct Dirty {
    /// Where they are.
    pub ranges: Vec<(u64, u64)>,
    /// They need not be compared with the file: they were stored.
    pub exact: bool,
}

const UFFDIO_REGISTER: usize = 0xc020_aa00;
const UFFDIO_WRITEPROTECT: usize = 0xc018_aa06;
const MODE_MISSING: u64 = 1;
const MODE_WP: u64 = 2;
/// `_IOWR('f', 16, struct pm_scan_arg)`, include/uapi/linux/fs.h; then the categories of pages.
const PAGEMAP_SCAN: usize = 0xc060_6610;
const PAGE_IS_WRITTEN: u64 = 1 << 1;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
/// How many runs of pages one call of it tells.
const RUNS: usize = 64;

fn control<const N: usize>(
    fd: i32,
    request: usize,
    mut words: [u64; N],
) -> Result<[u64; N], Errno> {
    let address = words.as_mut_ptr() as usize;
    // SAFETY: the structures of these requests are N words long.
    unsafe { syscall::call(nr::IOCTL, [fd as usize, request, address]) }?;
    Ok(words)
}

/// Begins to watch the stores into `length` bytes at `start`, a mapping that nobody has stored into yet. False: that cannot be known.
pub fn watch(start: usize, length: usize) -> bool {
    if process::get().is_confined() || process::vfork_child().is_some() {
        return false;
    }
    let Some(fd) = pager::userfault() else {
        return false;
    };
    let mode = match pager::is_lazy(start, length) {
        true => MODE_MISSING | MODE_WP,
        false => MODE_WP,
    };
    let (start, length) = (start as u64, length as u64);
    control(fd, UFFDIO_REGISTER, [start, length, mode, 0]).is_ok()
        && protect(fd, start, length).is_ok()
}

fn protect(fd: i32, start: u64, length: u64) -> Result<(), Errno> {
    const UFFDIO_WRITEPROTECT_MODE_WP: u64 = 1;
    let words = [start, length, UFFDIO_WRITEPROTECT_MODE_WP];
    control(fd, UFFDIO_WRITEPROTECT, words).map(|_| ())
}

/// This is the child of a fork, to which the registrations do not come: its mappings get new ones.
pub fn forked() {
    nodes::rewatch(0, usize::MAX);
}

/// What was stored through `regions` since it was last asked, node by node. The caller holds [`nodes::flushing`] until that is written back, so that nobody
/// else finds nothing to do meanwhile.
pub fn collect(regions: &[Mapped]) -> Vec<(Arc<Node>, Dirty)> {
    let mut found: Vec<(Arc<Node>, Dirty)> = Vec::new();
    for region in regions.iter().filter(|region| region.written) {
        let stored = match region.watched && !process::get().is_confined() {
            true => stored(region).ok(),
            false => None,
        };
        let exact = stored.is_some();
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

/// Everything that `regions` show and that can be stored into, to be compared: where other threads may have stored after it was asked, and the answer is gone
/// with the mapping.
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

/// Ends all stores into `regions`, which are about to be unmapped: whoever stores from now on gets the signal that he would get then. False: it cannot be done.
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
    let map = shadow::open(b"/proc/self/pagemap\0", 0, 0)?;
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
    let mut at = start;
    // The first byte that is not known to be protected.
    let mut from = start;
    while at < end {
        let mut runs = [[0u64; 3]; RUNS];
        // `struct pm_scan_arg`: pages that are there, or were once, and are not written.
        let there = PAGE_IS_PRESENT | PAGE_IS_SWAPPED;
        let (size, vector) = (96, runs.as_mut_ptr() as u64);
        let (inverted, mask) = (PAGE_IS_WRITTEN, PAGE_IS_WRITTEN);
        let mut words = [
            size,
            0,
            at,
            end,
            0,
            vector,
            RUNS as u64,
            0,
            inverted,
            mask,
            there,
            PAGE_IS_WRITTEN,
        ];
        let address = words.as_mut_ptr() as usize;
        // SAFETY: the structure is 12 words long, and the vector has the length that it says.
        let count = unsafe { syscall::call(nr::IOCTL, [map.0 as usize, PAGEMAP_SCAN, address]) }?;
        for run in runs.iter().take(count) {
            note(from, run[0].max(from))?;
            from = from.max(run[1]);
        }
        let walked = words[4];
        if walked <= at {
            return Err(Errno::EIO);
        }
        at = walked;
    }
    note(from, end)?;
    debug_assert!(ranges.iter().all(|range| range.0 % PAGE == 0));
    Ok(ranges)
}

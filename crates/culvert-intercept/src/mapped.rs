//! ELF objects as they lie in memory.
//!
//! Everything is found by file offset, among all mappings of the same file: when ld.so maps the
//! code of a library, it has mapped the whole file span before but not yet the other segments at
//! their own addresses (glibc, `elf/dl-map-segments.h`), and that is when the code has to be
//! patched.

use crate::elf::{Image, LOAD, ProgramHeader};
use crate::maps::Mapping;
use core::ffi::CStr;
use culvert_sys::fd::CWD;
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::memory::{self, Of};
use culvert_sys::{Errno, PAGE, PAGE64, fs};

/// Why there is no [`image`] when no mapping shows the ELF header.
pub const NO_BEGINNING: &str = "the file's first page is not mapped";

/// The object to which the executable mapping `code` belongs. Of executable segments only what
/// `code` maps is visible.
///
/// # Safety
/// The mappings exist as described, and stay and are not written for as long as the image is used.
pub unsafe fn image<'a>(mappings: &[Mapping], code: &Mapping) -> Result<Image<'a>, &'static str> {
    let same = |mapping: &&Mapping| mapping.file == code.file && mapping.readable;
    let begins = |mapping: &&Mapping| same(mapping) && mapping.offset == 0;
    // The copy to which the code belongs, should there be several, begins below it.
    let below = mappings
        .iter()
        .filter(begins)
        .rfind(|mapping| mapping.start <= code.start);
    let first = below
        .or_else(|| mappings.iter().find(begins))
        .ok_or(NO_BEGINNING)?;
    let bytes = |start: u64, length: u64| {
        // SAFETY: readable by the caller's promise, but for pages behind the end of the file, and
        // the last one is tried.
        readable(start + length - 1)
            .then(|| unsafe { core::slice::from_raw_parts(start as *const u8, length as usize) })
    };
    let first = bytes(first.start, PAGE64).ok_or("the file is empty")?;

    let (_, _, headers) = crate::elf::header(first)?;
    let holds_code = |header: &&ProgramHeader| {
        let page = header.offset & !(PAGE64 - 1);
        header.kind == LOAD
            && header.flags & 1 != 0
            && page <= code.offset
            && code.offset < header.offset.saturating_add(header.file_size)
    };
    let segment = *headers
        .iter()
        .find(holds_code)
        .ok_or("mapped differently from what its headers say")?;
    // Both are congruent to the page (gABI, "Program Loading"), so the difference of pages is that
    // of bytes.
    let bias = code.start.wrapping_sub(
        code.offset
            .wrapping_add(segment.address)
            .wrapping_sub(segment.offset),
    );

    let visible = |header: &ProgramHeader| {
        let source = if *header == segment {
            *code
        } else if header.flags & 1 != 0 {
            return None;
        } else {
            let page = header.offset & !(PAGE64 - 1);
            let shows = |mapping: &&Mapping| {
                same(mapping)
                    && mapping.offset <= page
                    && page - mapping.offset < mapping.end - mapping.start
            };
            let proper = header.address.wrapping_add(bias);
            let there = mappings
                .iter()
                .filter(shows)
                .find(|mapping| (mapping.start..mapping.end).contains(&proper));
            *there.or_else(|| mappings.iter().find(shows))?
        };
        // From the later of both starts to the earlier of both ends, in the file.
        let from = header.offset.max(source.offset);
        let to = header
            .offset
            .saturating_add(header.file_size)
            .min(source.offset + (source.end - source.start));
        if from >= to {
            return None;
        }
        let bytes = bytes(source.start + (from - source.offset), to - from)?;
        Some((header.address.checked_add(from - header.offset)?, bytes))
    };
    Image::new(first, |_| bias, visible)
}

/// Calls `read` with the contents of the file at `path`, which ends in NUL.
pub fn with_file<T>(path: &[u8], read: impl FnOnce(&[u8], (u64, u64)) -> T) -> Option<T> {
    let path = CStr::from_bytes_with_nul(path).ok()?;
    let file = fs::openat(CWD, path, OFlags::CLOEXEC | OFlags::NONBLOCK, 0).ok()?;
    let status = fs::fstat(&file).ok()?;
    let (of, length) = (Of::Private(file.borrow(), 0), status.st_size as usize);
    let mapping = memory::Mapping::near(0, of, length, Protection::READ).ok()?;
    drop(file);
    // SAFETY: mapped above. Whoever shortens a program's file while it is started ends the program
    // in any case.
    let bytes = unsafe { core::slice::from_raw_parts(mapping.start(), length) };
    Some(read(bytes, (device(status.st_dev), status.st_ino)))
}

/// A device as [`Mapping::file`] has it, from an `st_dev` (`new_encode_dev`,
/// include/linux/kdev_t.h).
fn device(number: u64) -> u64 {
    let major = number >> 8 & 0xfff | number >> 32 & !0xfff;
    let minor = number & 0xff | number >> 12 & 0xffff_ff00;
    major << 32 | minor
}

/// Whether the page of `address`, which is mapped, can be read; behind the end of a file that would
/// be SIGBUS.
fn readable(address: u64) -> bool {
    let page = (address & !(PAGE64 - 1)) as *mut u8;
    let result = memory::populate_read(page, PAGE);
    // Others (EINVAL: an older kernel; a seccomp filter's choice) say nothing about the page.
    !matches!(result, Err(Errno::EFAULT | Errno::EIO | Errno::ENOMEM))
}

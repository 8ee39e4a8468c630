//! Listings of descriptors by the kernel, without those that Culvert itself holds.
//!
//! Which directory lists descriptors is seen by what it lists, not by the path or descriptor that
//! it was opened by: Chromium opens `self/fd` below a descriptor of /proc in a root that has no
//! /proc.

use crate::answer::Answer;
use crate::process::Process;
use crate::vfs::native::stat_at;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::ffi::CStr;
use culvert::Errno;
use culvert_intercept::{Call, user};
use culvert_run::files::{c_string, lowest_internal};
use culvert_run::{memory::Path, stat_descriptor};
use culvert_sys::raw::general;
use culvert_sys::{BorrowedFd, fs, nr};

/// DT_LNK, as `/proc/PID/fd` has them, and DT_REG, as `/proc/PID/fdinfo`.
const KINDS: [u8; 2] = [10, 8];

/// getdents64(2), getdents(2) of a directory of the kernel's own.
pub fn list(process: &Process, call: &Call) -> Answer {
    loop {
        // It may take long, and others may fork meanwhile.
        let got = call.wait()?;
        if !numbers_first(call, got) {
            return Ok(got);
        }
        match without_ours(process, call, got)? {
            // All of these: there may be more.
            0 => {}
            kept => return Ok(kept),
        }
    }
}

/// What tells files apart.
fn identity(found: general::stat) -> (u64, u64) {
    (found.st_dev, found.st_ino)
}

/// The fields of the entry at the start of `entries`: its length, name and type.
fn entry(call: &Call, entries: &[u8]) -> Option<(usize, Vec<u8>, u8)> {
    let old = call.number == nr::GETDENTS;
    let length = usize::from(u16::from_ne_bytes([*entries.get(16)?, *entries.get(17)?]));
    let this = entries.get(..length)?;
    let name = this.get(if old { 18 } else { 19 }..)?;
    let name = name.split(|&byte| byte == 0).next()?.to_vec();
    let kind = if old { this.last() } else { this.get(18) };
    Some((length, name, *kind?))
}

fn number(name: &[u8]) -> Option<i32> {
    core::str::from_utf8(name).ok()?.parse().ok()
}

/// Whether the first of the `got` bytes of entries, but for `.` and `..`, is as in a listing of
/// descriptors: one look into the buffer is all that other directories pay.
fn numbers_first(call: &Call, got: usize) -> bool {
    let mut head = [0u8; 128];
    let head = &mut head[..got.min(128)];
    if user::copy_in(head, call.args[1]).is_err() {
        return false;
    }
    let mut rest = &head[..];
    while let Some((length, name, kind)) = entry(call, rest) {
        if name != b"." && name != b".." {
            return KINDS.contains(&kind) && number(&name).is_some();
        }
        rest = &rest[length..];
    }
    false
}

/// Takes what Culvert holds out of the entries in the program's buffer; returns how many bytes
/// stay.
fn without_ours(process: &Process, call: &Call, got: usize) -> Answer {
    let [listing, buffer, ..] = call.args;
    if !is_of_proc(listing) {
        return Ok(got);
    }
    let mut bytes = vec![0u8; got];
    user::copy_in(&mut bytes, buffer).map_err(|_| Errno::EFAULT)?;
    let ours: Vec<_> = process
        .run
        .internal()
        .into_iter()
        .map(|fd| (fd, stat_descriptor(fd).map(identity)))
        .collect();
    // Other processes of the run hold the same files, at numbers of which some are the same.
    let high = lowest_internal();
    let is_ours = |number: i32| {
        // Of the process whose `fd` or `fdinfo` directory this is.
        let path = c_string(format!("../fd/{number}").as_bytes());
        let found = stat_at(listing as i32, Path::of(&path), 0).map(identity);
        if number >= high && is_of_run(process, listing, &path) {
            return true;
        }
        ours.iter().any(|(fd, own)| match (found, own) {
            (Ok(found), Ok(own)) => (*fd == number || number >= high) && found == *own,
            // Not to be looked at, by a seccomp filter.
            _ => *fd == number,
        })
    };
    let mut kept = Vec::with_capacity(got);
    let mut rest = &bytes[..];
    while let Some((length, name, _)) = entry(call, rest) {
        let (this, others) = rest.split_at(length);
        if !number(&name).is_some_and(is_ours) {
            kept.extend_from_slice(this);
        }
        rest = others;
    }
    user::copy_out(buffer, &kept).map_err(|_| Errno::EFAULT)?;
    Ok(kept.len())
}

/// Whether `path` below `listing` is the link of what a process of the run may hold alone: a file
/// of the run directory, or that of its private descriptors.
fn is_of_run(process: &Process, listing: usize, path: &CStr) -> bool {
    let run = &process.run.path;
    fs::read_link(BorrowedFd::number(listing as i32), path).is_ok_and(|link| {
        link == b"/memfd:culvert (deleted)"
            || link
                .strip_prefix(&run[..])
                .is_some_and(|rest| rest.starts_with(b"/"))
    })
}

fn is_of_proc(listing: usize) -> bool {
    const PROC_SUPER_MAGIC: i64 = 0x9fa0;
    let found = fs::fstatfs(BorrowedFd::number(listing as i32));
    found.map_or(true, |found| found.f_type == PROC_SUPER_MAGIC)
}

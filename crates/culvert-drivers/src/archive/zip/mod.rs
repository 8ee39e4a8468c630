//! Zip archives (APPNOTE.TXT 6.3), with zip64, junk in front (self-extracting programs), and the
//! extra fields of Unix.
//!
//! Only the central directory is read for the index; a member's local header is when it is opened.

mod end;
mod entry;
mod extra;

use super::bytes::{Bytes, u16_at};
use super::codec::Member;
use super::format::{NONE, NodeRecord, Storage};
use super::tree::{TARGET_MAX, Tree};
use alloc::{format, sync::Arc, vec, vec::Vec};
use culvert::{Errno, Error, FileKind, Result};
use end::Directory;
use entry::{Entry, HEADER};

/// Whether `raw` ends as a zip archive does.
pub fn detect(raw: &dyn Bytes) -> Result<bool> {
    Ok(end::find(raw)?.is_some())
}

/// Bytes of the central directory read at once; an entry has at most 46 + 3 x 64 KiB.
const WINDOW: usize = 512 << 10;
const ENTRY_MAX: usize = 46 + 3 * 0xffff;

/// Puts the members of `raw` into `tree`.
pub fn scan(raw: &Arc<dyn Bytes>, tree: &mut Tree, progress: &mut dyn FnMut(u64)) -> Result<()> {
    let directory = Directory::read(&**raw)?;
    let mut window: Vec<u8> =
        vec![0; WINDOW.min(usize::try_from(directory.length).unwrap_or(WINDOW))];
    let (mut at, mut length, mut read, mut members) = (0, 0, 0u64, 0u64);
    loop {
        if length - at < ENTRY_MAX && read < directory.length {
            window.copy_within(at..length, 0);
            length -= at;
            at = 0;
            let room = (window.len() - length) as u64;
            let piece = room.min(directory.length - read) as usize;
            raw.read_exact_at(directory.start + read, &mut window[length..length + piece])?;
            (length, read) = (length + piece, read + piece as u64);
            progress(read);
        }
        let rest = &window[at..length];
        if rest.is_empty() {
            break;
        }
        let Some(entry) = Entry::parse(rest) else {
            // A digital signature or what an archiver left there (APPNOTE 4.3.13); the count tells
            // whether something is missing.
            break;
        };
        at += entry.length;
        members += 1;
        add(raw, &directory, &entry, tree)?;
    }
    if members != directory.members && members % 0x1_0000 != directory.members {
        return Err(Error::because(
            Errno::EIO,
            format!(
                "the central directory is damaged: it has {members} members, not {} as stated",
                directory.members
            ),
        ));
    }
    Ok(())
}

fn add(
    raw: &Arc<dyn Bytes>,
    directory: &Directory,
    entry: &Entry<'_>,
    tree: &mut Tree,
) -> Result<()> {
    let name = entry.path();
    let mode = entry.mode();
    let kind = FileKind::of_mode(mode).unwrap_or(FileKind::Regular);
    let refused = if entry.disk != 0 {
        Some("left out: it is on another disk of a multi-volume archive")
    } else if entry.size > i64::MAX as u64 || entry.compressed > i64::MAX as u64 {
        Some("left out: its size makes no sense")
    } else {
        None
    };
    let place = entry.header.checked_add(directory.shift);
    let (Some(place), None) = (place, refused) else {
        tree.warnings.add(
            &name,
            refused.unwrap_or("left out: its place makes no sense"),
        );
        return Ok(());
    };
    let mut record = NodeRecord {
        uid: entry.extra.uid.unwrap_or(NONE),
        gid: entry.extra.gid.unwrap_or(NONE),
        ..NodeRecord::new(mode, entry.mtime())
    };
    match kind {
        FileKind::Regular => {
            record.size = entry.size;
            (record.place, record.extent) = (place, entry.compressed);
            (record.extra, record.method) = (entry.crc, entry.method);
            record.storage = if entry.encrypted() {
                Storage::Encrypted
            } else {
                Storage::Member
            };
            tree.add(&name, record, b"")
        }
        FileKind::Symlink => match target(raw, place, entry) {
            Ok(target) => tree.add(&name, record, &target),
            Err(error) => {
                tree.warnings.add(
                    &name,
                    format!("left out: the target of this symbolic link: {error}"),
                );
                Ok(())
            }
        },
        _ => tree.add(&name, record, b""),
    }
}

/// The target of a symbolic link: the member's content.
fn target(raw: &Arc<dyn Bytes>, place: u64, entry: &Entry<'_>) -> Result<Vec<u8>> {
    if entry.encrypted() {
        return Err(Error::because(Errno::EACCES, "encrypted"));
    }
    if entry.size > TARGET_MAX as u64 {
        return Err(Error::new(Errno::ENAMETOOLONG));
    }
    let data = data_offset(&**raw, place)?;
    let member = Member::open(
        entry.method,
        raw.clone(),
        data,
        entry.compressed,
        entry.size,
        entry.crc,
    )?;
    let mut target = vec![0; entry.size as usize];
    let mut done = 0;
    while done < target.len() {
        let mut rest = &mut target[done..];
        match member.read_at(done as u64, &mut rest)? {
            0 => return Err(Error::because(Errno::EIO, "truncated")),
            count => done += count,
        }
    }
    Ok(target)
}

/// Where the data of the member whose local header lies at `place` starts.
pub fn data_offset(raw: &dyn Bytes, place: u64) -> Result<u64> {
    let mut header = [0; HEADER];
    raw.read_exact_at(place, &mut header)?;
    if header[..4] != *b"PK\x03\x04" {
        return Err(Error::because(
            Errno::EIO,
            "damaged: no local header where the central directory says",
        ));
    }
    let names = u64::from(u16_at(&header, 26)) + u64::from(u16_at(&header, 28));
    // No overflow: the header lies inside the file.
    Ok(place + HEADER as u64 + names)
}

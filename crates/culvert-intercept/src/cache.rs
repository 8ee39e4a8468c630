//! Site tables kept in files, by build-id: finding the sites of libc takes milliseconds, reading
//! them microseconds.
//!
//! A build-id is what an object says of itself, so a table is a hint: whoever uses it compares the
//! recorded bytes of every site that is to be changed. That no jump leads into a region cannot be
//! seen there; for that the file must come from root or from the same user. Files are written under
//! another name and renamed; failure is silent, for the cache is only a matter of time.
//!
//! Format, little-endian: magic (8 bytes), count (4), shape (8), checksum of all that follows (8),
//! build-id as length (1) and bytes (64), then the sites: link-time address (4), number (2), kind
//! (1), bytes of the region before the `syscall` (1), and for other kinds than [`Kind::Mov`], whose
//! bytes follow from that, length of the region (1), island (1), bytes (20) and pieces (8). The
//! magic changes with the format and with what [`crate::sites`] finds.

use crate::elf::{Image, array, long, word};
use crate::functions::Functions;
use crate::search;
use crate::sites::{JUMP, Kind, MOVED, REGION, SYSCALL, Site};
use alloc::{ffi::CString, vec::Vec};
use core::ffi::CStr;
use culvert_sys::fd::CWD;
use culvert_sys::flags::OFlags;
use culvert_sys::{Errno, fs, trust};

const MAGIC: [u8; 8] = *b"culvsit2";
const HEADER: usize = 8 + 4 + 8 + 8 + 1 + 64;
const CHECKED: usize = 8 + 4 + 8 + 8;
const HEAD: usize = 4 + 2 + 1 + 1;
const BODY: usize = 1 + 1 + REGION + MOVED;
/// More sites than any object has; bounds what a damaged file can make us read.
const MOST: usize = 1 << 16;

/// What a table is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    build_id: Vec<u8>,
    /// A checksum of the program headers.
    shape: u64,
}

impl Key {
    /// The key of an object; `None` without build-id.
    pub fn of(image: &Image<'_>) -> Option<Self> {
        let mut shape = 0;
        for header in &image.headers {
            for field in [
                header.kind.into(),
                header.flags.into(),
                header.offset,
                header.address,
                header.file_size,
            ] {
                shape = mix(shape, field);
            }
        }
        let build_id = image.build_id()?.into();
        Some(Self { build_id, shape })
    }

    /// `directory/<build-id in hexadecimal><ending>`.
    fn path(&self, directory: &[u8], ending: &[u8]) -> CString {
        let digit = |value: u8| b"0123456789abcdef"[usize::from(value & 15)];
        let digits = self
            .build_id
            .iter()
            .flat_map(|byte| [digit(byte >> 4), digit(*byte)]);
        let name: Vec<u8> = digits.collect();
        CString::new([directory, b"/", &name, ending].concat()).unwrap_or_default()
    }
}

fn mix(sum: u64, word: u64) -> u64 {
    // An odd multiplier makes each step reversible, so no single change of a word goes unseen.
    (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Four interleaved sums, as one would wait for its multiplications.
fn checksum(bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<32>();
    let mut sums = [1, 2, 3, bytes.len() as u64];
    for block in blocks {
        for (sum, at) in sums.iter_mut().zip([0, 8, 16, 24]) {
            *sum = mix(*sum, long(block, at).unwrap_or(0));
        }
    }
    let tail = rest
        .iter()
        .fold(0, |sum, byte| mix(sum, u64::from(*byte) + 1));
    sums.into_iter().fold(tail, mix)
}

/// The sites in the table for `key` for which `wanted` has something to say, given their address,
/// the start of their region and their number; from the first of `directories` (absolute paths)
/// that has a sound table that can be trusted. `wanted` may be asked about a table that turns out
/// not to be sound.
pub fn load<T>(
    directories: &[&[u8]],
    key: &Key,
    mut wanted: impl FnMut(u64, u64, i32) -> Option<T>,
) -> Option<Vec<(Site, T)>> {
    directories.iter().find_map(|directory| {
        let contents = read_trusted(&key.path(directory, b".sites"))?;
        decode(&contents, key, &mut wanted)
    })
}

/// Writes the table for `key` into the first of `directories` that takes it.
pub fn store(directories: &[&[u8]], key: &Key, sites: &[Site]) {
    if directories.is_empty() || sites.len() > MOST {
        return;
    }
    if let Some(contents) = encode(key, sites) {
        directories
            .iter()
            .any(|directory| write_atomically(directory, key, &contents).is_ok());
    }
}

/// Makes sure that the first of `directories` that can be written has a table for the ELF file with
/// these contents, so that no program has to find the sites itself: for launchers. Returns how many
/// sites there are; `None` for a file without build-id. Nothing is written where a table is
/// already.
pub fn prepare(directories: &[&[u8]], file: &[u8]) -> Result<Option<usize>, &'static str> {
    let image = Image::of_file(file)?;
    let Some(key) = Key::of(&image) else {
        return Ok(None);
    };
    let mut count = 0;
    let known = load(directories, &key, |_, _, _| {
        count += 1;
        None::<()>
    });
    if known.is_some() {
        return Ok(Some(count));
    }
    let found = search::find(&image, &Functions::of_file(&image, file));
    store(directories, &key, &found.sites);
    Ok(Some(found.sites.len()))
}

/// `None` when a field has no room for its value.
fn encode(key: &Key, sites: &[Site]) -> Option<Vec<u8>> {
    let mut contents = Vec::with_capacity(HEADER + sites.len() * (HEAD + BODY));
    contents.extend_from_slice(&MAGIC);
    contents.extend_from_slice(&u32::try_from(sites.len()).ok()?.to_le_bytes());
    contents.extend_from_slice(&key.shape.to_le_bytes());
    contents.extend_from_slice(&[0; 8]);
    contents.push(u8::try_from(key.build_id.len()).ok()?);
    contents.extend_from_slice(&key.build_id);
    contents.resize(HEADER, 0);
    for site in sites {
        if site.kind == Kind::Mov && site.number < 0 {
            return None; // a mov of what is no number
        }
        contents.extend_from_slice(&u32::try_from(site.address).ok()?.to_le_bytes());
        contents.extend_from_slice(&i16::try_from(site.number).ok()?.to_le_bytes());
        contents.extend_from_slice(&[site.kind as u8, site.before]);
        if site.kind != Kind::Mov {
            contents.extend_from_slice(&[site.length, site.island as u8]);
            contents.extend_from_slice(&site.bytes);
            contents.extend_from_slice(&site.pieces);
        }
    }
    let sum = checksum(contents.get(CHECKED..)?);
    contents
        .get_mut(CHECKED - 8..CHECKED)?
        .copy_from_slice(&sum.to_le_bytes());
    Some(contents)
}

fn decode<T>(
    contents: &[u8],
    key: &Key,
    mut wanted: impl FnMut(u64, u64, i32) -> Option<T>,
) -> Option<Vec<(Site, T)>> {
    let count = word(contents, 8)? as usize;
    let sum = long(contents, 20)?;
    let build_id = contents
        .get(CHECKED + 1..HEADER)?
        .get(..usize::from(*contents.get(CHECKED)?))?;
    let ours =
        contents.get(..8)? == MAGIC && long(contents, 12)? == key.shape && build_id == key.build_id;
    if !ours || count > MOST || checksum(contents.get(CHECKED..)?) != sum {
        return None;
    }
    let mut rest = contents.get(HEADER..)?;
    let mut found = Vec::with_capacity(count.min(rest.len() / HEAD));
    for _ in 0..count {
        let (head, behind) = rest.split_first_chunk::<HEAD>()?;
        let [a, b, c, d, number_low, number_high, kind, before] = *head;
        let kind = Kind::from_number(kind)?;
        let (body, behind) = behind.split_at_checked(if kind == Kind::Mov { 0 } else { BODY })?;
        rest = behind;
        let address = u64::from(u32::from_le_bytes([a, b, c, d]));
        let number = i16::from_le_bytes([number_low, number_high]).into();
        // Most sites are not wanted, and are not looked at more closely.
        if let Some(value) = wanted(address, address.wrapping_sub(before.into()), number) {
            found.push((decode_site(address, number, kind, before, body)?, value));
        }
    }
    rest.is_empty().then_some(found)
}

/// A site from its parts; `body` is empty for [`Kind::Mov`].
fn decode_site(address: u64, number: i32, kind: Kind, before: u8, body: &[u8]) -> Option<Site> {
    let mut site = Site::new(address, number, kind);
    site.before = before;
    if kind == Kind::Mov {
        // mov $number,%eax
        site.length = JUMP as u8;
        let [a, b, c, d] = number.to_le_bytes();
        *site.bytes.first_chunk_mut::<JUMP>()? = [0xb8, a, b, c, d];
        *site.pieces.first_mut()? = JUMP as u8;
    } else {
        let [length, island] = array(body, 0)?;
        site.length = length;
        site.island = island as i8;
        site.bytes = array(body, 2)?;
        site.pieces = array(body, 2 + REGION)?;
    }
    is_sound(&site).then_some(site)
}

/// Whether the parts of a site fit together.
fn is_sound(site: &Site) -> bool {
    let (before, length) = (usize::from(site.before), usize::from(site.length));
    let moved: usize = site
        .pieces
        .iter()
        .map(|piece| usize::from(piece & 15))
        .sum();
    let holds_syscall = site.bytes.get(before..before + SYSCALL.len()) == Some(&SYSCALL)
        && before + SYSCALL.len() <= length;
    let fits = match site.kind {
        Kind::Mov => before == JUMP && site.number >= 0,
        Kind::Before => length >= JUMP && before == length,
        Kind::Next => before == 0 && length >= JUMP && holds_syscall,
        Kind::Around => before > 0 && length >= JUMP && holds_syscall,
        Kind::Island => {
            length == SYSCALL.len()
                && before == 0
                && holds_syscall
                && site.island.checked_sub(SYSCALL.len() as i8).is_some()
        }
        Kind::Trap => length == SYSCALL.len() && before == 0 && holds_syscall,
    };
    fits && length <= REGION && moved <= length
}

/// The contents of a file that belongs to root or to us and that nobody else may write.
fn read_trusted(path: &CStr) -> Option<Vec<u8>> {
    let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = fs::openat(CWD, path, flags, 0).ok()?;
    let size = usize::try_from(trust::kept(file.raw()).ok()?.st_size).ok()?;
    if size > HEADER + MOST * (HEAD + BODY) {
        return None;
    }
    let mut contents = Vec::with_capacity(size);
    fs::read_more(&file, &mut contents).ok()?;
    Some(contents)
}

fn write_atomically(directory: &[u8], key: &Key, contents: &[u8]) -> Result<(), Errno> {
    // Unique by process and, between processes that see different process numbers, by where the
    // kernel put our stack.
    let mut ending = Vec::from(*b".new-");
    let process = culvert_sys::process::getpid().into();
    let mut unique = mix(process, &raw const ending as u64);
    for _ in 0..12 {
        ending.push(b'a' + (unique & 15) as u8);
        unique >>= 4;
    }
    let (new, path) = (key.path(directory, &ending), key.path(directory, b".sites"));
    // Beyond it a write would be SIGXFSZ.
    if culvert_sys::process::file_size_limit() < contents.len() as u64 {
        return Err(Errno::EFBIG);
    }
    let flags = OFlags::WRONLY | OFlags::CREAT | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = fs::openat(CWD, &new, flags, 0o644)?;
    let written = fs::write(&file, contents);
    drop(file);
    let renamed = match written {
        Ok(count) if count == contents.len() => fs::rename(&new, &path),
        Ok(_) => Err(Errno::ENOSPC),
        Err(errno) => Err(errno),
    };
    if renamed.is_err() {
        let _ = fs::unlink(&new);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;
    use std::string::String;
    use std::{format, fs};

    /// A directory of its own, removed at the end.
    struct Directory(PathBuf);

    impl Directory {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("culvert-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn path(&self) -> &[u8] {
            self.0.to_str().unwrap().as_bytes()
        }

        fn only_file(&self) -> PathBuf {
            let mut files = fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| entry.unwrap().path());
            let file = files.next().unwrap();
            assert_eq!(files.next(), None, "nothing but the table");
            file
        }
    }

    impl Drop for Directory {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The whole table.
    fn load_all(directory: &[u8], key: &Key) -> Option<Vec<Site>> {
        let sites = load(
            &[&b"/nonexistent/culvert"[..], directory],
            key,
            |_, _, _| Some(()),
        )?;
        Some(sites.into_iter().map(|(site, ())| site).collect())
    }

    fn decode_all(contents: &[u8], key: &Key) -> Option<Vec<Site>> {
        let sites = decode(contents, key, |_, _, _| Some(()))?;
        Some(sites.into_iter().map(|(site, ())| site).collect())
    }

    /// The sites of ld.so.
    fn sample() -> (Key, Vec<Site>) {
        let file = fs::read("/lib64/ld-linux-x86-64.so.2").unwrap();
        let image = Image::of_file(&file).unwrap();
        let sites = search::find(&image, &Functions::of_image(&image)).sites;
        assert!(sites.len() > 20);
        (Key::of(&image).unwrap(), sites)
    }

    #[test]
    fn what_is_stored_is_loaded() {
        let directory = Directory::new("stored");
        let (key, sites) = sample();
        let directories = [&b"/nonexistent/culvert"[..], directory.path()];
        assert_eq!(load_all(directory.path(), &key), None);
        store(&directories, &key, &sites);
        store(&directories, &key, &sites);
        assert_eq!(load_all(directory.path(), &key), Some(sites.clone()));
        let name = directory
            .only_file()
            .file_name()
            .unwrap()
            .to_str()
            .map(String::from)
            .unwrap();
        assert!(
            name.ends_with(".sites") && name.len() == 2 * key.build_id.len() + 6,
            "{name}"
        );
        let other = Key {
            shape: key.shape + 1,
            ..key
        };
        assert_eq!(load_all(directory.path(), &other), None);
    }

    #[test]
    fn a_prepared_table_is_found() {
        let directory = Directory::new("prepared");
        let (key, sites) = sample();
        let file = fs::read("/lib64/ld-linux-x86-64.so.2").unwrap();
        for _ in 0..2 {
            assert_eq!(prepare(&[directory.path()], &file), Ok(Some(sites.len())));
        }
        assert_eq!(load_all(directory.path(), &key), Some(sites));
        assert!(prepare(&[directory.path()], b"#!/bin/sh").is_err());
    }

    #[test]
    fn only_files_that_nobody_else_can_write_are_trusted() {
        let directory = Directory::new("trusted");
        let (key, sites) = sample();
        store(&[directory.path()], &key, &sites);
        let file = directory.only_file();
        for (mode, trusted) in [(0o644, true), (0o664, false), (0o646, false), (0o600, true)] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                load_all(directory.path(), &key).is_some(),
                trusted,
                "{mode:o}"
            );
        }
        let elsewhere = directory.0.join("elsewhere");
        fs::rename(&file, &elsewhere).unwrap();
        symlink(&elsewhere, &file).unwrap();
        assert_eq!(load_all(directory.path(), &key), None, "a symbolic link");
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert_eq!(load_all(directory.path(), &key), None, "a directory");
    }

    #[test]
    fn damaged_tables_are_not_used() {
        let (key, sites) = sample();
        let contents = encode(&key, &sites).unwrap();
        assert_eq!(decode_all(&contents, &key), Some(sites));
        for length in 0..contents.len() {
            assert_eq!(decode_all(&contents[..length], &key), None);
        }
        for place in 0..contents.len() {
            let mut damaged = contents.clone();
            damaged[place] ^= 1 << (place % 8);
            assert_eq!(decode_all(&damaged, &key), None, "byte {place}");
        }
        // With a right checksum too, nothing that does not fit together is accepted.
        for place in HEADER..contents.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = contents.clone();
                damaged[place] = value;
                let sum = checksum(&damaged[CHECKED..]);
                damaged[CHECKED - 8..CHECKED].copy_from_slice(&sum.to_le_bytes());
                let sound = decode_all(&damaged, &key);
                assert!(sound.is_none_or(|sites| sites.iter().all(is_sound)));
            }
        }
    }
}

//! Site tables kept in files, by build-id: finding the sites of libc takes milliseconds, reading them microseconds.
//!
//! A build-id is what an object says of itself, so a table is a hint: whoever uses it compares the recorded bytes of every site that is to be changed. That
//! no jump leads into a region cannot be seen there; for that the file must come from root or from the same user. Files are written
//! under another name and renamed; failure is silent, for the cache is only a matter of time.
//!
//! Format, little-endian: magic (8 bytes), count (4), shape (8), checksum of all that follows (8), build-id as length (1) and bytes (64), then the sites, 44
//! bytes each. The magic changes with the format and with what [`crate::sites`] finds.

use crate::elf::{Image, array, long, word};
use crate::sites::{JUMP, Kind, MOVED, REGION, SYSCALL, Site};
use alloc::vec::Vec;
use culvert_sys::{Errno, nr, raw::general as linux, syscall};

const MAGIC: [u8; 8] = *b"culvsit1";
const HEADER: usize = 8 + 4 + 8 + 8 + 1 + 64;
const CHECKED: usize = 8 + 4 + 8 + 8;
const RECORD: usize = 44;
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

    /// `directory/<build-id in hexadecimal><ending>`, with a NUL.
    fn path(&self, directory: &[u8], ending: &[u8]) -> Vec<u8> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut path =
            Vec::with_capacity(directory.len() + 2 * self.build_id.len() + ending.len() + 2);
        path.extend_from_slice(directory);
        path.push(b'/');
        path.extend(self.build_id.iter().flat_map(|byte| {
            [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ]
        }));
        path.extend_from_slice(ending);
        path.push(0);
        path
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

/// The table for `key` in the first of `directories` (absolute paths) that has a sound one that can be trusted.
pub fn load(directories: &[&[u8]], key: &Key) -> Option<Vec<Site>> {
    directories
        .iter()
        .find_map(|directory| decode(&read_trusted(&key.path(directory, b".sites"))?, key))
}

/// Writes the table for `key` into the first of `directories` that takes it.
pub fn store(directories: &[&[u8]], key: &Key, sites: &[Site]) {
    if sites.len() <= MOST {
        let contents = encode(key, sites);
        directories
            .iter()
            .any(|directory| write_atomically(directory, key, &contents).is_ok());
    }
}

fn encode(key: &Key, sites: &[Site]) -> Vec<u8> {
    let mut contents = Vec::with_capacity(HEADER + sites.len() * RECORD);
    contents.extend_from_slice(&MAGIC);
    contents.extend_from_slice(&(sites.len() as u32).to_le_bytes());
    contents.extend_from_slice(&key.shape.to_le_bytes());
    contents.extend_from_slice(&[0; 8]);
    let mut build_id = [0; 65];
    for (place, byte) in build_id
        .iter_mut()
        .zip(core::iter::once(&(key.build_id.len() as u8)).chain(&key.build_id))
    {
        *place = *byte;
    }
    contents.extend_from_slice(&build_id);
    for site in sites {
        contents.extend_from_slice(&site.address.to_le_bytes());
        contents.extend_from_slice(&site.number.to_le_bytes());
        contents.extend_from_slice(&[site.kind as u8, site.before, site.length, site.island as u8]);
        contents.extend_from_slice(&site.bytes);
        contents.extend_from_slice(&site.pieces);
    }
    let sum = checksum(&contents[CHECKED..]);
    contents[CHECKED - 8..CHECKED].copy_from_slice(&sum.to_le_bytes());
    contents
}

fn decode(contents: &[u8], key: &Key) -> Option<Vec<Site>> {
    let count = word(contents, 8)? as usize;
    let sum = long(contents, 20)?;
    let build_id = contents
        .get(CHECKED + 1..HEADER)?
        .get(..usize::from(*contents.get(CHECKED)?))?;
    let expected = (contents.get(..8)? == MAGIC
        && long(contents, 12)? == key.shape
        && build_id == key.build_id)
        && contents.len() == HEADER + count.checked_mul(RECORD)?
        && checksum(contents.get(CHECKED..)?) == sum;
    let (records, _) = contents.get(HEADER..)?.as_chunks::<RECORD>();
    let records = Some(records).filter(|_| expected)?;
    records.iter().map(decode_site).collect()
}

fn decode_site(record: &[u8; RECORD]) -> Option<Site> {
    let [kind, before, length, island] = array(record, 12)?;
    let site = Site {
        address: long(record, 0)?,
        number: word(record, 8)? as i32,
        kind: Kind::from_number(kind)?,
        before,
        length,
        island: island as i8,
        bytes: array::<REGION>(record, 16)?,
        pieces: array::<MOVED>(record, 16 + REGION)?,
    };
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
        Kind::Mov => {
            length == JUMP
                && before == JUMP
                && site.bytes.first() == Some(&0xb8)
                && word(&site.bytes, 1) == Some(site.number as u32)
        }
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
fn read_trusted(path: &[u8]) -> Option<Vec<u8>> {
    let flags =
        (linux::O_RDONLY | linux::O_CLOEXEC | linux::O_NOFOLLOW | linux::O_NONBLOCK) as usize;
    // SAFETY: the path ends in NUL.
    let file = unsafe {
        syscall::call(
            nr::OPENAT,
            [linux::AT_FDCWD as usize, path.as_ptr() as usize, flags],
        )
    }
    .ok()?;
    let contents = size_if_trusted(file).and_then(|size| {
        let mut contents = Vec::with_capacity(size);
        // SAFETY: the kernel writes at most `size` bytes into memory of that size, and says how many.
        unsafe {
            let count =
                syscall::call(nr::READ, [file, contents.as_mut_ptr() as usize, size]).ok()?;
            contents.set_len(count.min(size));
        }
        Some(contents)
    });
    close(file);
    contents
}

fn size_if_trusted(file: usize) -> Option<usize> {
    // SAFETY: plain numbers, for which zeros are valid; fstat fills them.
    let status = unsafe {
        let mut status: linux::stat = core::mem::zeroed();
        syscall::call(nr::FSTAT, [file, &raw mut status as usize]).ok()?;
        status
    };
    // SAFETY: has no arguments and no effects.
    let user = unsafe { syscall::call::<0>(nr::GETEUID, []) }.ok()?;
    let trusted = (status.st_uid == 0 || status.st_uid as usize == user)
        && status.st_mode & 0o022 == 0
        && status.st_mode & linux::S_IFMT == linux::S_IFREG;
    let size = usize::try_from(status.st_size).ok()?;
    (trusted && size <= HEADER + MOST * RECORD).then_some(size)
}

fn write_atomically(directory: &[u8], key: &Key, contents: &[u8]) -> Result<(), Errno> {
    // Unique by process and, between processes that see different process numbers, by where the kernel put our stack.
    let mut ending = Vec::from(*b".new-");
    // SAFETY: has no arguments and no effects.
    let process = unsafe { syscall::call::<0>(nr::GETPID, []) }? as u64;
    let mut unique = mix(process, &raw const ending as u64);
    for _ in 0..12 {
        ending.push(b'a' + (unique & 15) as u8);
        unique >>= 4;
    }
    let (new, path) = (key.path(directory, &ending), key.path(directory, b".sites"));
    let flags =
        (linux::O_WRONLY | linux::O_CREAT | linux::O_EXCL | linux::O_CLOEXEC | linux::O_NOFOLLOW)
            as usize;
    // SAFETY: paths end in NUL, the slice is ours, the descriptor is our own.
    unsafe {
        let file = syscall::call(
            nr::OPENAT,
            [
                linux::AT_FDCWD as usize,
                new.as_ptr() as usize,
                flags,
                0o644,
            ],
        )?;
        let written = syscall::call(
            nr::WRITE,
            [file, contents.as_ptr() as usize, contents.len()],
        );
        close(file);
        let renamed = match written {
            Ok(count) if count == contents.len() => {
                syscall::call(nr::RENAME, [new.as_ptr() as usize, path.as_ptr() as usize])
            }
            Ok(_) => Err(Errno::ENOSPC),
            Err(errno) => Err(errno),
        };
        if renamed.is_err() {
            let _ = syscall::call(nr::UNLINK, [new.as_ptr() as usize]);
        }
        renamed.map(|_| ())
    }
}

fn close(file: usize) {
    // SAFETY: our own descriptor.
    let _ = unsafe { syscall::call(nr::CLOSE, [file]) };
}

//! Which files are known, and where their images are: one file that all processes of the user map,
//! so that a library costs an fstat(2) and a look.
//!
//! It begins with a page of counts; then come 512 entries, found by the key's hash. An entry is
//! written once, by one pwrite(2) under a lock, and never changes. A sum tells a reader that an
//! entry is whole. What a file of root's or the user's own says here is believed, as no other can
//! write it.

use super::layout::{Key, Layout};
use crate::user;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert_sys::fd::{self, CWD};
use culvert_sys::flags::{AtFlags, OFlags, Protection};
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::plain::{Packed, Plain};
use culvert_sys::{Errno, OwnedFd, PAGE, fs, process, trust};

const MAGIC: u64 = u64::from_le_bytes(*b"culvidx1");
const ENTRIES: usize = 512;
/// Entries that are used at most, so that a search is short.
const FULL: u64 = 384;
/// Bytes of all images: they may lie in memory.
const MOST_BYTES: u64 = 256 << 20;
/// How many places a key may be at.
const TRIED: usize = 24;
const SIZE: usize = PAGE + ENTRIES * size_of::<Entry>();
/// The longest name of an image, with its NUL.
const NAME: usize = 152;

/// What is known of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Kind {
    /// It has no system call that anybody wants.
    Nothing = 1,
    /// It is patched where it is mapped.
    InPlace = 2,
    /// It has an image.
    Image = 3,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    sum: u64,
    /// A [`Kind`]; 0: the entry is free.
    kind: u64,
    key: Key,
    layout: Layout,
    name: [u8; NAME],
    zero: u64,
}

const _: () = assert!(size_of::<Entry>() == 256);

// SAFETY: words and bytes.
unsafe impl Plain for Entry {}
// SAFETY: words and bytes by eights, and nothing between them.
unsafe impl Packed for Entry {}

impl Entry {
    fn sum_of(&self) -> u64 {
        let (words, _) = self.bytes().as_chunks::<8>();
        words.iter().skip(1).fold(1, |sum: u64, word| {
            (sum.rotate_left(23) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        })
    }
}

/// The page at the beginning.
#[repr(C)]
#[derive(Clone, Copy)]
struct Counts {
    magic: u64,
    used: u64,
    bytes: u64,
}

// SAFETY: words.
unsafe impl Plain for Counts {}
// SAFETY: words, and nothing between them.
unsafe impl Packed for Counts {}

/// What the index says of a file.
pub struct Known {
    pub kind: Kind,
    pub layout: Layout,
    name: [u8; NAME],
}

impl Known {
    /// The image's name below the store.
    pub fn name(&self) -> &[u8] {
        CStr::from_bytes_until_nul(&self.name).map_or(&[], CStr::to_bytes)
    }
}

/// The index, mapped.
pub struct Index(Mapping);

impl Index {
    /// That of the store in `directory`, if there is one that is to be believed.
    pub fn open(directory: &[u8]) -> Option<Self> {
        let file = open(directory, OFlags::RDONLY).ok()?;
        // Not shared with what a program could ask of its own mappings; nobody writes it.
        let mapping = Mapping::new(Of::file(&file), SIZE, Protection::READ).ok()?;
        Some(Self(mapping))
    }

    /// What it says of the file `key`.
    pub fn find(&self, key: &Key) -> Option<Known> {
        for place in places(key) {
            // A file that was cut meanwhile is an error, not a SIGBUS.
            let entry: Entry = user::read(self.0.address() + place).ok()?;
            let kind = match entry.kind {
                1 => Kind::Nothing,
                2 => Kind::InPlace,
                3 => Kind::Image,
                _ => return None,
            };
            if entry.key == *key && entry.sum == entry.sum_of() {
                return Some(Known {
                    kind,
                    layout: entry.layout,
                    name: entry.name,
                });
            }
        }
        None
    }
}

/// Where the entry of `key` may be, in the order in which the places are taken.
fn places(key: &Key) -> impl Iterator<Item = usize> {
    let first = key.hash() as usize >> 8;
    (0..TRIED).map(move |step| PAGE + (first + step) % ENTRIES * size_of::<Entry>())
}

fn path(directory: &[u8]) -> CString {
    CString::new([directory, b"/index"].concat()).unwrap_or_default()
}

fn open(directory: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = fs::openat(CWD, &path(directory), flags, 0)?;
    let found = trust::kept(file.raw()).map_err(trust::Why::errno)?;
    match found.st_size as usize == SIZE {
        true => Ok(file),
        false => Err(Errno::EINVAL),
    }
}

/// The index, open to be written by this process alone.
pub struct Writer {
    file: OwnedFd,
    counts: Counts,
}

impl Writer {
    /// Opens it, and makes one where there is none. Errors when somebody else writes it, or when a
    /// write would be SIGXFSZ.
    pub fn open(directory: &[u8]) -> Result<Self, Errno> {
        const LOCK_EX: u32 = 2;
        const LOCK_NB: u32 = 4;
        if process::file_size_limit() < SIZE as u64 {
            return Err(Errno::EFBIG);
        }
        let file = match open(directory, OFlags::RDWR) {
            Err(Errno::ENOENT) => {
                create(directory)?;
                open(directory, OFlags::RDWR)?
            }
            other => other?,
        };
        fd::flock(&file, LOCK_EX | LOCK_NB)?;
        let mut counts = Counts::zeroed();
        fs::pread(&file, counts.bytes_mut(), 0)?;
        match counts.magic == MAGIC && counts.used < FULL {
            true => Ok(Self { file, counts }),
            false => Err(Errno::ENOSPC),
        }
    }

    /// Whether an image of so many bytes may be added.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.counts.bytes.saturating_add(bytes) <= MOST_BYTES
    }

    /// Enters what is known of the file `key`; `bytes` is what its image takes. EEXIST when it is
    /// known.
    pub fn enter(
        mut self,
        key: &Key,
        kind: Kind,
        image: Option<(&Layout, &[u8])>,
        bytes: u64,
    ) -> Result<(), Errno> {
        let mut entry = Entry {
            kind: kind as u64,
            key: *key,
            ..Entry::zeroed()
        };
        if let Some((layout, name)) = image {
            entry.layout = *layout;
            let place = entry.name.get_mut(..name.len() + 1);
            let place = place.and_then(|place| place.get_mut(..name.len()));
            place.ok_or(Errno::ENAMETOOLONG)?.copy_from_slice(name);
        }
        entry.sum = entry.sum_of();
        for place in places(key) {
            let mut there = Entry::zeroed();
            fs::pread(&self.file, there.bytes_mut(), place as u64)?;
            if there.kind != 0 {
                if there.key == *key {
                    return Err(Errno::EEXIST);
                }
                continue;
            }
            self.counts.used += 1;
            self.counts.bytes += bytes;
            fs::pwrite(&self.file, self.counts.bytes(), 0)?;
            return match fs::pwrite(&self.file, entry.bytes(), place as u64)? {
                written if written == size_of::<Entry>() => Ok(()),
                _ => Err(Errno::ENOSPC),
            };
        }
        Err(Errno::ENOSPC)
    }
}

/// Whether the store in `directory` takes no more images.
pub fn is_full(directory: &[u8]) -> bool {
    let mut counts = Counts::zeroed();
    let read =
        open(directory, OFlags::RDONLY).and_then(|file| fs::pread(&file, counts.bytes_mut(), 0));
    read.is_ok() && (counts.used >= FULL || counts.bytes >= MOST_BYTES / 4 * 3)
}

/// Makes an empty index.
fn create(directory: &[u8]) -> Result<(), Errno> {
    let counts = Counts {
        magic: MAGIC,
        used: 0,
        bytes: 0,
    };
    let mut contents = Vec::from(counts.bytes());
    contents.resize(SIZE, 0);
    let file = unnamed(directory, 0o600)?;
    if fs::write(&file, &contents)? != SIZE {
        return Err(Errno::ENOSPC);
    }
    match publish(&file, directory, b"index", 0o600) {
        Err(Errno::EEXIST) => Ok(()),
        other => other,
    }
}

/// A file in `directory` that has no name yet.
pub fn unnamed(directory: &[u8], mode: u32) -> Result<OwnedFd, Errno> {
    let path = CString::new(directory).map_err(|_| Errno::EINVAL)?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    fs::openat(CWD, &path, flags, mode)
}

/// Gives a file that is whole the name `name` in `directory`, and these rights. EEXIST when there is
/// one.
pub fn publish(file: &OwnedFd, directory: &[u8], name: &[u8], mode: u32) -> Result<(), Errno> {
    // Whatever the program's umask says.
    fs::fchmod(file, mode)?;
    // On a disk the name is not to come back without the bytes.
    fs::fsync(file)?;
    let own = alloc::format!("/proc/self/fd/{}\0", file.raw());
    let from = CStr::from_bytes_with_nul(own.as_bytes()).map_err(|_| Errno::EINVAL)?;
    let to = CString::new([directory, b"/", name].concat()).map_err(|_| Errno::EINVAL)?;
    fs::linkat(CWD, from, CWD, &to, AtFlags::SYMLINK_FOLLOW)
}

//! Which files are known, and where their images are: one file that all processes of the user map,
//! so that a library costs an fstat(2) and a look, and the program of an exec that was started
//! before the look alone.
//!
//! It begins with a page of counts and of numbers, found by a key's hash; then come the entries of
//! these numbers, in the order in which they were made, so that those that every program asks for
//! lie side by side. An entry is written once, by one pwrite(2) under a lock, before its number,
//! and never changes. A sum tells a reader that an entry is whole. What a file of root's or the
//! user's own says here is believed, as no other can write it.

use super::layout::{Key, Layout};
use super::worn;
use crate::user;
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert_sys::fd::{self, AsFd, CWD};
use culvert_sys::flags::{AtFlags, OFlags, Protection};
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::plain::{Packed, Plain};
use culvert_sys::{Errno, OwnedFd, PAGE, PAGE64, fs, process, trust};

const MAGIC: u64 = u64::from_le_bytes(*b"culvidx4");
const ENTRIES: usize = 512;
/// Places for their numbers, and where these begin in the first page.
const PLACES: usize = 1024;
const NUMBERS: usize = PAGE - PLACES * size_of::<u16>();
/// Entries that are used at most, so that a search is short.
const FULL: u64 = 500;
/// Bytes of all images: they may lie in memory.
const MOST_BYTES: u64 = 256 << 20;
/// How many places a key may be at.
const TRIED: usize = 24;
const SIZE: usize = PAGE + ENTRIES * size_of::<Entry>();
/// The longest name of an image, with its NUL.
const NAME: usize = 144;

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
    /// Of a program: the sum of its first page; else 0.
    first: u64,
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

/// What the page at the beginning begins with.
#[repr(C)]
#[derive(Clone, Copy)]
struct Counts {
    magic: u64,
    used: u64,
    bytes: u64,
    /// Where each process has its slots ([`Layout::slots`]).
    slots: u64,
    /// The hashes of programs that want something of their own ([`Writer::mark`]), then zeros.
    marks: [u64; MARKS],
}

/// Where slots may lie: above a position-independent program and what its heap may take, below all
/// libraries; where sanitizers expect mappings of a program's, too (tsan_platform.h, msan.h).
const SLOTS: core::ops::Range<u64> = 0x5660_0000_0000..0x5670_0000_0000;

/// A page among [`SLOTS`] that nobody can foretell.
fn any_slots() -> Result<u64, Errno> {
    let mut random = 0_u64;
    process::getrandom(random.bytes_mut(), 0)?;
    let pages = (SLOTS.end - SLOTS.start) / PAGE64;
    Ok(SLOTS.start + random % pages * PAGE64)
}

const MARKS: usize = 128;
const _: () = assert!(size_of::<Counts>() <= NUMBERS);

// SAFETY: words.
unsafe impl Plain for Counts {}
// SAFETY: words, and nothing between them.
unsafe impl Packed for Counts {}

/// What the index says of a file.
pub struct Known {
    pub kind: Kind,
    pub layout: Layout,
    /// Of a program: the sum of its first page; else 0.
    pub first: u64,
    name: [u8; NAME],
}

impl Known {
    /// The image's name below the store; of a program the path of its interpreter.
    pub fn name(&self) -> &[u8] {
        CStr::from_bytes_until_nul(&self.name).map_or(&[], CStr::to_bytes)
    }
}

impl Entry {
    /// What it says of the file `key`, if it is that one's and whole.
    fn of(&self, key: &Key) -> Option<Known> {
        let kind = match self.kind {
            1 => Kind::Nothing,
            2 => Kind::InPlace,
            3 => Kind::Image,
            _ => return None,
        };
        (self.key == *key && self.sum == self.sum_of()).then_some(Known {
            kind,
            layout: self.layout,
            first: self.first,
            name: self.name,
        })
    }
}

/// Some entries of a store's index, for processes that need no others. They stay right as long as
/// the store is there, as no entry changes.
///
/// Each is a word, half of the hash of its key above a bit for each word of the entry that is not
/// zero, and these words: most of what an entry has room for is not used.
pub struct Excerpt<'a> {
    /// The name of the store.
    store: &'a [u8],
    words: &'a [[u8; WORD]],
}

const WORD: usize = size_of::<u64>();
const WORDS: usize = size_of::<Entry>() / WORD;
const _: () = assert!(WORDS == u32::BITS as usize);

/// How a packed entry begins whose key has this `hash`, but for the bits of its words.
fn mark_in_excerpt(hash: u64) -> u64 {
    hash & !u64::from(u32::MAX)
}

impl<'a> Excerpt<'a> {
    /// Words of all entries: what is read when a process joins its run. The first are of what was
    /// asked for first: ld.so, libc, shells. Some forty fit, in about a page.
    const MOST: usize = 496;
    const STORE: usize = 16;

    /// That of the store `store` in the directory of stores that lies at `directory` below `place`;
    /// as it can be handed on. Empty where there is none that is to be believed.
    pub fn take(place: impl AsFd, directory: &str, store: &str) -> Vec<u8> {
        /// Entries that are read at once.
        const AT_ONCE: usize = 16;
        let path = CString::new(alloc::format!("{directory}/{store}/index")).unwrap_or_default();
        let Ok(file) = open_at(place, &path, OFlags::RDONLY) else {
            return Vec::new();
        };
        if store.len() != Self::STORE {
            return Vec::new();
        }
        let mut all = Vec::from(store.as_bytes());
        let mut entries = [0; AT_ONCE * size_of::<Entry>()];
        for at in (PAGE..SIZE).step_by(entries.len()) {
            if fs::pread(&file, &mut entries, at as u64) != Ok(entries.len()) {
                return all;
            }
            let (whole, _) = entries.as_chunks::<{ size_of::<Entry>() }>();
            for bytes in whole {
                let mut entry = Entry::zeroed();
                entry.bytes_mut().copy_from_slice(bytes);
                let packed = entry.packed();
                let is_full = all.len() + packed.len() > Self::STORE + Self::MOST * WORD;
                if entry.kind == 0 || is_full {
                    return all;
                }
                all.extend(packed);
            }
        }
        all
    }

    /// What was taken, of whatever store.
    pub fn of(bytes: &'a [u8]) -> Option<Self> {
        let (store, entries) = bytes.split_at_checked(Self::STORE)?;
        let (words, _) = entries.as_chunks();
        Some(Self { store, words })
    }

    /// Whether it is of this store.
    pub fn is_of(&self, store: &str) -> bool {
        self.store == store.as_bytes()
    }

    pub(super) fn find(&self, key: &Key) -> Option<Known> {
        self.first(key.hash(), |entry| entry.of(key))
    }

    /// The key of this hash.
    pub(super) fn key(&self, hash: u64) -> Option<Key> {
        self.first(hash, |entry| {
            let is_it = entry.key.hash() == hash && entry.sum == entry.sum_of();
            is_it.then_some(entry.key)
        })
    }

    /// The first that `of` finds among the entries whose keys may have this `hash`.
    fn first<R>(&self, hash: u64, of: impl Fn(&Entry) -> Option<R>) -> Option<R> {
        let mark = mark_in_excerpt(hash);
        let mut rest = self.words;
        while let Some((first, behind)) = rest.split_first() {
            let first = u64::from_le_bytes(*first);
            let bits = first as u32;
            let (words, behind) = behind.split_at_checked(bits.count_ones() as usize)?;
            if first & !u64::from(u32::MAX) == mark
                && let Some(found) = of(&Entry::unpacked(bits, words))
            {
                return Some(found);
            }
            rest = behind;
        }
        None
    }
}

impl Entry {
    /// As an [`Excerpt`] has it.
    fn packed(&self) -> Vec<u8> {
        let (words, _) = self.bytes().as_chunks::<WORD>();
        let is_used = |word: &&[u8; WORD]| **word != [0; WORD];
        let mut bits = 0_u64;
        for (place, word) in words.iter().enumerate() {
            bits |= u64::from(is_used(&word)) << place;
        }
        let first = (mark_in_excerpt(self.key.hash()) | bits).to_le_bytes();
        let used = words.iter().filter(is_used);
        [&first]
            .into_iter()
            .chain(used)
            .flatten()
            .copied()
            .collect()
    }

    /// The way back.
    fn unpacked(bits: u32, words: &[[u8; WORD]]) -> Self {
        let mut entry = Self::zeroed();
        let (places, _) = entry.bytes_mut().as_chunks_mut::<WORD>();
        let places = places.iter_mut().enumerate();
        let used = places.filter(|(place, _)| bits >> place & 1 != 0);
        used.zip(words).for_each(|((_, to), from)| *to = *from);
        entry
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

    /// Whether `key` is marked.
    pub fn is_marked(&self, key: &Key) -> bool {
        let (hash, begin) = (key.hash(), core::mem::offset_of!(Counts, marks));
        // A file that was cut meanwhile is an error, not a SIGBUS.
        let mark = |place| user::read(self.0.address() + begin + place * size_of::<u64>());
        let mut marks = (0..MARKS).map(mark);
        let last = marks.find(|mark| !matches!(mark, Ok(other) if *other != 0 && *other != hash));
        // Where all places are taken, it may have found none; who cannot read looks at the program.
        last != Some(Ok(0))
    }

    /// What it says of the file `key`.
    pub fn find(&self, key: &Key) -> Option<Known> {
        for place in places(key) {
            // A file that was cut meanwhile is an error, not a SIGBUS.
            let number: u16 = user::read(self.0.address() + place).ok()?;
            let at = self.0.address() + place_of(number)?;
            let entry: Entry = user::read(at).ok()?;
            if entry.kind == 0 {
                return None;
            }
            let known = entry.of(key);
            if known.is_some() {
                return known;
            }
        }
        None
    }
}

/// Where the number of the entry of `key` may be, in the order in which the places are taken.
fn places(key: &Key) -> impl Iterator<Item = usize> {
    let first = key.hash() as usize >> 8;
    (0..TRIED).map(move |step| NUMBERS + (first + step) % PLACES * size_of::<u16>())
}

/// Where the entry `number` lies; 0 is none's.
fn place_of(number: u16) -> Option<usize> {
    let before = usize::from(number).checked_sub(1)?;
    (before < ENTRIES).then_some(PAGE + before * size_of::<Entry>())
}

fn path(directory: &[u8]) -> CString {
    CString::new([directory, b"/index"].concat()).unwrap_or_default()
}

fn open(directory: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    open_at(CWD, &path(directory), flags)
}

fn open_at(place: impl AsFd, path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = fs::openat(place, path, flags, 0)?;
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

    /// Whether this index was removed meanwhile: another one is there, or will be.
    pub fn is_removed(&self) -> bool {
        fs::fstat(&self.file).is_ok_and(|found| found.st_nlink == 0)
    }

    /// Where the stubs of all images here find their process's slots.
    pub fn slots(&self) -> u64 {
        self.counts.slots
    }

    /// Whether an image of so many bytes may be added.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.counts.bytes.saturating_add(bytes) <= MOST_BYTES
    }

    /// Enters what is known of the file `key`: layout and name of its image, or those of nothing
    /// and of a program's interpreter. `first` is the sum of a program's first page
    /// ([`super::first_page`]), `bytes` is what its image takes. EEXIST when it is known.
    pub fn enter(
        mut self,
        key: &Key,
        kind: Kind,
        image: (&Layout, &[u8]),
        first: u64,
        bytes: u64,
    ) -> Result<(), Errno> {
        let (layout, name) = image;
        let mut entry = Entry {
            kind: kind as u64,
            key: *key,
            first,
            layout: *layout,
            ..Entry::zeroed()
        };
        let place = entry.name.get_mut(..name.len() + 1);
        let place = place.and_then(|place| place.get_mut(..name.len()));
        place.ok_or(Errno::ENAMETOOLONG)?.copy_from_slice(name);
        entry.sum = entry.sum_of();
        for place in places(key) {
            let mut number = 0_u16;
            fs::pread(&self.file, number.bytes_mut(), place as u64)?;
            if let Some(taken) = place_of(number) {
                let mut there = Entry::zeroed();
                fs::pread(&self.file, there.bytes_mut(), taken as u64)?;
                if there.key == *key {
                    return Err(Errno::EEXIST);
                }
                continue;
            }
            self.counts.used += 1;
            self.counts.bytes += bytes;
            let number = self.counts.used as u16;
            let free = place_of(number).ok_or(Errno::ENOSPC)?;
            self.put(self.counts.bytes(), 0)?;
            self.put(entry.bytes(), free)?;
            return self.put(number.bytes(), place);
        }
        Err(Errno::ENOSPC)
    }

    /// Marks `key` for whoever finds its entry: what is wanted stands elsewhere.
    pub fn mark(mut self, key: &Key) -> Result<(), Errno> {
        let hash = key.hash();
        let mut marks = self.counts.marks.iter_mut();
        match marks.find(|mark| **mark == 0 || **mark == hash) {
            Some(mark) => *mark = hash,
            None => return Ok(()),
        }
        self.put(self.counts.bytes(), 0)
    }

    fn put(&self, bytes: &[u8], at: usize) -> Result<(), Errno> {
        match fs::pwrite(&self.file, bytes, at as u64)? {
            written if written == bytes.len() => Ok(()),
            _ => Err(Errno::ENOSPC),
        }
    }
}

/// Whether the store in `directory` is to begin anew: it takes no more images, or is worn.
pub fn is_spent(directory: &[u8]) -> bool {
    let mut counts = Counts::zeroed();
    let Ok(file) = open(directory, OFlags::RDONLY) else {
        return false;
    };
    let read = fs::pread(&file, counts.bytes_mut(), 0);
    let is_full = counts.used >= FULL || counts.bytes >= MOST_BYTES / 4 * 3;
    read.is_ok() && (is_full || worn::is_worn(&file, SIZE))
}

/// Makes an empty index.
fn create(directory: &[u8]) -> Result<(), Errno> {
    let counts = Counts {
        magic: MAGIC,
        slots: any_slots()?,
        ..Counts::zeroed()
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

/// Gives a file that is whole the name `name` in `directory`, and these rights. EEXIST when there
/// is one.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn key(inode: u64) -> Key {
        let mut key = Key::zeroed();
        key.bytes_mut()[8..16].copy_from_slice(inode.bytes());
        key
    }

    fn entry(inode: u64, name: &[u8]) -> Entry {
        let mut entry = Entry {
            kind: Kind::Image as u64,
            key: key(inode),
            first: inode % 3,
            ..Entry::zeroed()
        };
        entry.name[..name.len()].copy_from_slice(name);
        entry.sum = entry.sum_of();
        entry
    }

    #[test]
    fn programs_that_are_marked_are_told_from_others() {
        let directory = std::env::temp_dir().join(std::format!("marks-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let name = directory.to_str().unwrap().as_bytes();
        for inode in 0..MARKS as u64 - 1 {
            Writer::open(name).unwrap().mark(&key(inode + 1)).unwrap();
            Writer::open(name).unwrap().mark(&key(1)).unwrap();
        }
        let index = Index::open(name).unwrap();
        let is_marked = |inode| index.is_marked(&key(inode));
        assert!((1..MARKS as u64).all(is_marked));
        assert!(!(1_000..9_000).any(is_marked));
        // One more, and nobody can say of the others that they are not.
        Writer::open(name).unwrap().mark(&key(900)).unwrap();
        assert!(is_marked(900) && is_marked(901));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn an_excerpt_holds_whole_entries_and_nothing_else() {
        let entries = [entry(1, b"a"), entry(2, &[b'x'; NAME - 1]), entry(3, b"")];
        let packed: Vec<Vec<u8>> = entries.iter().map(Entry::packed).collect();
        assert!(packed[0].len() < 80 && packed[1].len() > NAME);
        let mut bytes = Vec::from(&b"0123456789abcdef"[..]);
        bytes.extend(packed.concat());
        let excerpt = Excerpt::of(&bytes).unwrap();
        assert!(excerpt.is_of("0123456789abcdef") && !excerpt.is_of("0123456789abcdee"));
        for entry in &entries {
            let known = excerpt.find(&entry.key).unwrap();
            assert_eq!((known.kind, known.first), (Kind::Image, entry.first));
            assert_eq!(known.name, entry.name);
            assert_eq!(excerpt.key(entry.key.hash()), Some(entry.key));
        }
        assert!(excerpt.find(&key(4)).is_none() && excerpt.key(key(4).hash()).is_none());
        // Cut or changed somewhere: what is there is whole, or not there.
        for length in 16..bytes.len() {
            let cut = Excerpt::of(&bytes[..length]).unwrap();
            let found = entries
                .iter()
                .filter(|entry| cut.find(&entry.key).is_some());
            assert!(found.count() < entries.len(), "{length}");
            let mut other = bytes.clone();
            other[length] ^= 4;
            let other = Excerpt::of(&other).unwrap();
            let found = |entry: &&Entry| other.find(&entry.key).is_some();
            assert!(
                entries.iter().filter(found).count() < entries.len(),
                "{length}"
            );
        }
    }
}

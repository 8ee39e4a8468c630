//! The directory of images: `<index>` and `<build-id>-<key>/<name of the file>`, so that profilers,
//! debuggers and crash reporters show the object's name and find its symbols.
//!
//! It is the user's alone, and so are its files (mode 0400). Whoever can write here as this user
//! could change what the user's runs execute, as he could change the runs themselves.

use super::index::{self, Index, Kind, Known, Writer, publish};
use super::layout::{self, Key, LARGE_PAGE, Layout, Planned, Reason};
use crate::elf::Image;
use crate::functions::Functions;
use crate::{Interest, cache, sites};
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ffi::CStr;
use culvert_sys::fd::{AsFd, CWD};
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::memory::{Advice, Mapping, Of};
use culvert_sys::{BorrowedFd, Errno, OwnedFd, fs, process, trust};

/// Files of more bytes have no image.
const LARGEST: u64 = 32 << 20;
/// A file that was changed so recently may be changed again without a later time of change, which
/// the kernel takes from its tick (nanoseconds).
const SETTLED: u64 = 2_000_000_000;
/// SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER of sync_file_range(2).
const WRITE_AND_WAIT: u32 = 7;

/// Where images are kept, and how objects are rewritten.
pub struct Store {
    /// Its directory, an absolute path.
    pub directory: &'static [u8],
    /// Where site tables are cached.
    pub site_tables: &'static [&'static [u8]],
    /// Which numbers are interesting.
    pub interest: fn(i32) -> Option<Interest>,
    /// Whether images may be made now ([`crate::Config::may_make_images`]).
    pub may_make: fn() -> bool,
}

/// An image that is open.
pub(super) struct Opened {
    pub file: OwnedFd,
    pub inode: u64,
}

/// A mapped file.
pub(super) struct Bytes(Mapping);

impl Bytes {
    pub(super) fn of(file: BorrowedFd<'_>, size: u64) -> Option<Self> {
        Mapping::new(Of::Private(file, 0), size as usize, Protection::READ)
            .ok()
            .map(Self)
    }

    pub(super) fn get(&self) -> &[u8] {
        // SAFETY: mapped above. Whoever shortens a library while it is loaded ends the program in
        // any case.
        unsafe { core::slice::from_raw_parts(self.0.start(), self.0.len()) }
    }
}

impl Store {
    /// Opens an image that is to be believed: a file of root's or the user's own, with one name,
    /// that nobody may write.
    /// ENOENT where there is none, and for one that was cut, which is removed.
    pub(super) fn open(&self, known: &Known) -> Result<Opened, Errno> {
        let path = CString::new([self.directory, b"/", known.name()].concat());
        let path = path.map_err(|_| Errno::EINVAL)?;
        let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = fs::openat(CWD, &path, flags, 0)?;
        let found = trust::kept(file.raw()).map_err(trust::Why::errno)?;
        if found.st_mode & 0o222 != 0 || found.st_nlink != 1 {
            return Err(Errno::EACCES);
        }
        if found.st_size as u64 != known.layout.extent() {
            let _ = fs::unlink(&path);
            return Err(Errno::ENOENT);
        }
        Ok(Opened {
            file,
            inode: found.st_ino,
        })
    }

    /// Makes the image of the object that is open in `file`, if it can have one, and remembers what
    /// there is to know of it.
    pub fn make(&self, file: BorrowedFd<'_>) -> Result<Kind, Reason> {
        let (found, key) = self.settled(file)?;
        // Where nothing can be written, nothing is looked for.
        let new = self.unnamed().map_err(|_| "the store cannot be written")?;
        let writer = Writer::open(self.directory).map_err(|_| "the index cannot be written")?;
        let is_regular = found.st_mode & 0o170_000 == 0o100_000;
        if !is_regular || key.size() == 0 || key.size() > LARGEST {
            return remember(writer, &key, (0, b""), Kind::InPlace);
        }
        if !writer.has_room(key.size()) || !may_write(key.size()) {
            return Err("there is no room for an image");
        }
        // Pages that were stored into by mappings are written back, so that each later store is a
        // change with a time of its own.
        let _ = fs::sync_file_range(file, 0, 0, WRITE_AND_WAIT);
        let bytes = Bytes::of(file, key.size()).ok_or("it cannot be mapped")?;
        let image = Image::of_file(bytes.get())?;
        let wanted: Vec<_> = self.sites(&image, bytes.get());
        if fs::fstat(file).map(|now| Key::of(&now)) != Ok(key) {
            return Err("it has changed meanwhile");
        }
        if wanted.is_empty() {
            return remember(writer, &key, (0, b""), Kind::Nothing);
        }
        let Ok(planned) = layout::plan(&key, bytes.get(), &image, &wanted, writer.slots()) else {
            return remember(writer, &key, (0, b""), Kind::InPlace);
        };
        self.write(writer, new, &key, file, bytes.get(), &planned)
            .map_err(|_| "its image cannot be written")?;
        Ok(Kind::Image)
    }

    /// Remembers that the program that is open in `file`, with such a first page and interpreter,
    /// has no image, but what it has of system calls.
    pub fn remember_program(
        &self,
        file: BorrowedFd<'_>,
        first: u64,
        interpreter: &[u8],
        kind: Kind,
    ) -> Result<Kind, Reason> {
        const OTHER_RIGHTS: u32 = 0o6000;
        let (found, key) = self.settled(file)?;
        self.unnamed().map_err(|_| "the store cannot be written")?;
        let writer = Writer::open(self.directory).map_err(|_| "the index cannot be written")?;
        // Whether it has other rights than its caller's depends on him: it is looked at each time.
        let interpreter = match found.st_mode & OTHER_RIGHTS {
            0 => interpreter,
            _ => b"",
        };
        remember(writer, &key, (first, interpreter), kind)
    }

    /// Marks the program whose file is `key`: [`super::Images::started_before`] knows it no more.
    pub fn mark(&self, key: &Key) -> Result<(), Errno> {
        Writer::open(self.directory)?.mark(key)
    }

    /// The file that is open in `file`, if something may be remembered of it.
    fn settled(&self, file: BorrowedFd<'_>) -> Result<(fs::Stat, Key), Reason> {
        let found = fs::fstat(file).map_err(|_| "it cannot be looked at")?;
        let key = Key::of(&found);
        // To use an image takes no other calls than to patch in place.
        if !(self.may_make)() {
            return Err("a seccomp filter is in force");
        }
        if !may_be_remembered(file, &key) {
            return Err("its time of change does not tell whether it has changed");
        }
        Ok((found, key))
    }

    /// The sites that are to be rewritten.
    pub(super) fn sites(&self, image: &Image<'_>, file: &[u8]) -> Vec<(sites::Site, Interest)> {
        let all = |_: u64, _: u64, _: i32| Some(());
        let key = cache::Key::of(image);
        let cached = key
            .as_ref()
            .and_then(|key| cache::load(self.site_tables, key, all));
        let sound = |site: &sites::Site| crate::patch::is_as_recorded(image, site);
        let found = match cached.filter(|sites| sites.iter().all(|(site, ())| sound(site))) {
            Some(cached) => cached.into_iter().map(|(site, ())| site).collect(),
            None => {
                let found = crate::search::find(image, &Functions::of_file(image, file)).sites;
                if let Some(key) = key {
                    cache::store(self.site_tables, &key, &found);
                }
                found
            }
        };
        let wanted = |site: sites::Site| (self.interest)(site.number).map(|one| (site, one));
        found.into_iter().filter_map(wanted).collect()
    }

    /// A file that has no name yet, for an image.
    fn unnamed(&self) -> Result<OwnedFd, Errno> {
        match index::unnamed(self.directory, 0o400) {
            Err(Errno::ENOENT) => {
                self.make_directory();
                index::unnamed(self.directory, 0o400)
            }
            other => other,
        }
    }

    fn make_directory(&self) {
        let above = self.directory.iter().rposition(|byte| *byte == b'/');
        let above = above.and_then(|at| self.directory.get(..at));
        for directory in [above.unwrap_or_default(), self.directory] {
            if let Ok(path) = CString::new(directory) {
                let _ = make_private(&path);
            }
        }
    }

    /// Whether the index says something of the file `key`.
    fn knows(&self, key: &Key) -> bool {
        Index::open(self.directory).is_some_and(|index| index.find(key).is_some())
    }

    fn write(
        &self,
        writer: Writer,
        new: OwnedFd,
        key: &Key,
        file: BorrowedFd<'_>,
        bytes: &[u8],
        planned: &Planned,
    ) -> Result<(), Errno> {
        let end = planned.layout.chunk_offset + planned.tail.len() as u64;
        if !may_write(end) {
            return Err(Errno::EFBIG);
        }
        let (taken, large) = planned.pages(bytes.len() as u64);
        if !writer.has_room(taken) {
            return Err(Errno::ENOSPC);
        }
        fill(new.as_fd(), bytes, planned)?;
        // Where the kernel cannot, it is as it was.
        for page in large {
            let _ = into_large_page(new.as_fd(), page);
        }
        // Of the longest build-ids a part: the name has to fit into an entry.
        let digits = planned.build_id.iter().take(20);
        let hexadecimal: alloc::string::String =
            digits.map(|byte| alloc::format!("{byte:02x}")).collect();
        let folder = alloc::format!("{hexadecimal}-{:016x}", key.hash()).into_bytes();
        let directory = [self.directory, b"/", &folder].concat();
        let path = CString::new(&*directory).map_err(|_| Errno::EINVAL)?;
        match make_private(&path) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno),
        }
        let name = name_of(file);
        let put = || publish(&new, &directory, &name, 0o400);
        match put() {
            // Somebody else was faster; or makes it for another index, and is about to enter it.
            Err(Errno::EEXIST) if writer.is_removed() || self.knows(key) => return Ok(()),
            // Nobody finds that one: who made it was killed, or had opened an index that was
            // removed meanwhile, and its slots lie elsewhere.
            Err(Errno::EEXIST) => {
                let path = CString::new([&directory[..], b"/", &name].concat());
                fs::unlink(&path.map_err(|_| Errno::EINVAL)?)?;
                put()?;
            }
            other => other?,
        }
        let name = [&folder[..], b"/", &name].concat();
        let image = (&planned.layout, &name[..]);
        match writer.enter(key, Kind::Image, image, 0, taken) {
            Err(Errno::EEXIST) => Ok(()),
            // Nobody would find it.
            Err(errno) => {
                let path = CString::new([self.directory, b"/", &name].concat());
                let _ = path.map(|path| fs::unlink(&path));
                Err(errno)
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Makes all calls that making an image takes, in the empty directory `scratch`: under a seccomp
/// filter one of them may fail, or end the process. What it makes is removed with the directory.
pub fn rehearse(scratch: &'static [u8]) -> Result<(), Errno> {
    let new = index::unnamed(scratch, 0o400)?;
    let writer = Writer::open(scratch)?;
    let key = Key::of(&fs::fstat(&new)?);
    let planned = Planned {
        layout: layout::Layout::default(),
        build_id: Vec::new(),
        changes: Vec::new(),
        tail: Vec::from(b"tail"),
        is_loader: false,
    };
    let bytes = b"bytes";
    let _ = may_be_remembered(new.as_fd(), &key);
    let _ = may_write(0);
    fs::pwrite(&new, bytes, 0)?;
    fs::sync_file_range(&new, 0, 0, WRITE_AND_WAIT)?;
    let mapped = Bytes::of(new.as_fd(), bytes.len() as u64).ok_or(Errno::EACCES)?;
    // It is too short for that.
    let _ = mapped.0.advise(Advice::COLLAPSE);
    drop(mapped);
    let store = Store {
        directory: scratch,
        site_tables: &[],
        interest: |_| None,
        may_make: || true,
    };
    let file = index::unnamed(scratch, 0o400)?;
    store.write(writer, file, &key, new.as_fd(), bytes, &planned)?;
    fs::unlink(&CString::new([scratch, b"/index"].concat()).map_err(|_| Errno::EINVAL)?)
}

/// Makes a directory that is the user's alone, whatever the program's umask says.
fn make_private(path: &CStr) -> Result<(), Errno> {
    const MODE: u32 = 0o700;
    fs::mkdir(path, MODE)?;
    fs::chmod(path, MODE)
}

/// Whether a file may have so many bytes: beyond them a write would be SIGXFSZ.
pub(super) fn may_write(bytes: u64) -> bool {
    process::file_size_limit() >= bytes
}

/// Remembers that a file has no image, and why; of a program also its first page and interpreter.
fn remember(
    writer: Writer,
    key: &Key,
    (first, interpreter): (u64, &[u8]),
    kind: Kind,
) -> Result<Kind, Reason> {
    let image = (&Layout::default(), interpreter);
    let entered = writer.enter(key, kind, image, first, 0);
    entered.map_err(|_| "the index has no room for it")?;
    Ok(kind)
}

/// Writes an image.
pub(super) fn fill(to: BorrowedFd<'_>, bytes: &[u8], planned: &Planned) -> Result<(), Errno> {
    let put = |bytes: &[u8], offset: u64| match fs::pwrite(to, bytes, offset)? {
        written if written == bytes.len() => Ok(()),
        _ => Err(Errno::ENOSPC),
    };
    put(bytes, 0)?;
    for (offset, new) in &planned.changes {
        put(new, *offset)?;
    }
    put(&planned.tail, planned.layout.chunk_offset)
}

/// Makes what stands at `offset` in `file` one page of the kernel's. In memory (tmpfs) all others
/// have 4 KiB, each of which is counted where a process maps or leaves it.
pub fn into_large_page(file: BorrowedFd<'_>, offset: u64) -> Result<(), Errno> {
    const LENGTH: usize = LARGE_PAGE as usize;
    // It has to lie in memory as in the file.
    let room = Mapping::new(Of::Nothing, 2 * LENGTH, Protection::READ)?;
    let start = room.address().next_multiple_of(LENGTH);
    drop(room);
    let of = Of::Shared(file, offset);
    Mapping::near(start, of, LENGTH, Protection::READ)?.advise(Advice::COLLAPSE)
}

/// The last component of the file's path, as the kernel tells it.
fn name_of(file: BorrowedFd<'_>) -> Vec<u8> {
    const LONGEST: usize = 64;
    let own = alloc::format!("/proc/self/fd/{}", file.raw());
    let path = CString::new(own).map_err(|_| Errno::EINVAL);
    let path = path.and_then(|own| fs::read_link(CWD, &own));
    let path = path.unwrap_or_default();
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    match name.is_empty() || name.len() > LONGEST || name.ends_with(b" (deleted)") {
        true => b"object".into(),
        false => name.into(),
    }
}

/// Whether the kernel gives this file another time of change whenever it changes, and will from
/// now on. File systems that others serve, or whose images may share inode numbers and times, are
/// not believed; nor is tmpfs, where a store into a shared mapping leaves the times.
fn may_be_remembered(file: BorrowedFd<'_>, key: &Key) -> bool {
    const EXT: u64 = 0xef53;
    const XFS: u64 = 0x5846_5342;
    const BTRFS: u64 = 0x9123_683e;
    const F2FS: u64 = 0xf2f5_2010;
    const OVERLAY: u64 = 0x794c_7630;
    const BCACHEFS: u64 = 0xca45_1a4e;
    const ZFS: u64 = 0x2fc1_2fc1;
    const KNOWN: [u64; 7] = [EXT, XFS, BTRFS, F2FS, OVERLAY, BCACHEFS, ZFS];
    const CLOCK_REALTIME: u32 = 0;
    let keeps = fs::fstatfs(file).is_ok_and(|found| KNOWN.contains(&(found.f_type as u64)));
    let now = process::clock_gettime(CLOCK_REALTIME);
    let now = now.map_or(0, |now| {
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    });
    keeps && key.changed().saturating_add(SETTLED) < now
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn an_image_for_another_index_stays() {
        let place = std::env::temp_dir().join(format!("culvert-images-{}", std::process::id()));
        std::fs::create_dir(&place).unwrap();
        let directory = format!("{}", place.display()).into_bytes().leak();
        let store = Store {
            directory,
            site_tables: &[],
            interest: |_| None,
            may_make: || true,
        };
        let object = index::unnamed(store.directory, 0o400).unwrap();
        let key = Key::of(&fs::fstat(&object).unwrap());
        let write = |writer, tail: &[u8]| {
            let planned = Planned {
                layout: Layout::default(),
                build_id: Vec::new(),
                changes: Vec::new(),
                tail: tail.into(),
                is_loader: false,
            };
            let new = index::unnamed(store.directory, 0o400).unwrap();
            store.write(writer, new, &key, object.as_fd(), b"", &planned)
        };
        let open = || Writer::open(store.directory).unwrap();
        let forget = || std::fs::remove_file(place.join("index")).unwrap();
        let image = place.join(format!("-{:016x}/object", key.hash()));
        let late = open();
        forget();
        assert_eq!(write(open(), b"fresh"), Ok(()));
        // As it is before it is entered.
        forget();
        drop(open());
        assert_eq!(write(late, b"late"), Ok(()));
        assert_eq!(std::fs::read(&image).unwrap(), b"fresh");
        // Whoever would have entered it was killed.
        assert_eq!(write(open(), b"next"), Ok(()));
        assert_eq!(std::fs::read(&image).unwrap(), b"next");
        std::fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn images_are_in_large_pages_where_they_fill_them() {
        const MEGA: u64 = 1 << 20;
        let planned = |chunk: u64, is_loader| Planned {
            layout: Layout {
                chunk_offset: chunk,
                ..Layout::default()
            },
            build_id: Vec::new(),
            changes: Vec::new(),
            tail: std::vec![1; 4096],
            is_loader,
        };
        let half = MEGA / 2;
        for (length, chunk, is_loader, expected) in [
            (half, half, false, (half + 4096, std::vec![])),
            (half, half, true, (2 * MEGA, std::vec![0])),
            (3 * half, 3 * half, false, (2 * MEGA, std::vec![0])),
            // Behind a hole, and with a little more than what fits.
            (MEGA, 20 * MEGA, false, (2 * MEGA + 4096, std::vec![0])),
            (2 * MEGA, 2 * MEGA, false, (2 * MEGA + 4096, std::vec![0])),
        ] {
            assert_eq!(planned(chunk, is_loader).pages(length), expected);
        }
    }

    #[test]
    fn what_is_made_one_page_keeps_its_bytes() {
        const CLOEXEC: u32 = 1;
        let file = culvert_sys::fd::memfd_create(c"image", CLOEXEC).unwrap();
        let bytes: Vec<u8> = (0..1_500_000_u32).map(|at| (at * 7) as u8).collect();
        assert_eq!(fs::pwrite(&file, &bytes, 0), Ok(bytes.len()));
        // Not every kernel can.
        let made = into_large_page(file.as_fd(), 0);
        let found = fs::fstat(&file).unwrap();
        assert_eq!(found.st_size as usize, bytes.len());
        if made.is_ok() {
            assert_eq!(found.st_blocks as u64 * 512, LARGE_PAGE);
        }
        let mut read = std::vec![0; bytes.len()];
        assert_eq!(fs::pread(&file, &mut read, 0), Ok(bytes.len()));
        assert!(read == bytes);
    }
}

//! The user's copy of libculvert.so that is linked to an address of its own
//! (docs/design/library-copy.md): made once for each build, by the first run that misses it.

use culvert_intercept::images;
use culvert_launch::library_copy::{
    FILE, Found, LARGE_PAGE, NAME, Place, cache, find, is_safe, key, length, place,
};
use culvert_run::files::c_string;
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::{AsFd, Errno, OwnedFd, flags::Protection, process, trust};
use std::ffi::OsStr;
use std::os::unix::{
    ffi::{OsStrExt, OsStringExt},
    fs::DirBuilderExt,
};
use std::{fs, os::fd::IntoRawFd, path::Path};

/// How many copies are kept: of builds, and of installations.
const MOST: usize = 6;
/// Where copies may lie: below the last 1 TiB, within which the kernel begins to map, and so far
/// above 0x7e80_0000_0000 that what Culvert maps 256 GiB below (culvert-sys, `place.rs`) lies
/// there, too: ThreadSanitizer ends a program that has mappings below.
const FIRST: u64 = 0x7ec0_0000_0000;
const LAST: u64 = 0x7ef0_0000_0000;

/// The path of the copy of the library at `library`, for programs of a run. None: there can be
/// none, and the library itself is loaded.
pub fn copy(library: &Path) -> Option<Vec<u8>> {
    let library = fs::File::open(library).ok()?;
    let library = OwnedFd::from_raw(library.into_raw_fd());
    let variable = |name| std::env::var_os(name).map(OsStringExt::into_vec);
    let [runtime, home] = [variable("XDG_RUNTIME_DIR"), variable("HOME")];
    let cache = cache(variable("XDG_CACHE_HOME").as_deref(), home.as_deref());
    let directories = || runtime.as_deref().into_iter().chain(cache.as_deref());
    let place = place(directories()).or_else(|| {
        // Not in another user's home, as under sudo(8), nor where it would be of no use.
        let cache = cache.as_deref().filter(|cache| is_safe(cache))?;
        let cache = Path::new(OsStr::from_bytes(cache));
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(cache);
        made.ok().and_then(|()| place(directories()))
    })?;
    let found = match find(&place, &library) {
        // A filter may end who tries.
        Found::Missing if process::is_filtered() => return None,
        Found::Missing => {
            let _ = make(&place, &library);
            find(&place, &library)
        }
        found => found,
    };
    match found {
        Found::Copy(path) => Some(path),
        Found::Impossible | Found::Missing => None,
    }
}

/// Makes the copy. Where that fails an empty directory says so.
fn make(place: &Place, library: &OwnedFd) -> Result<(), Errno> {
    let key = key(library).ok_or(Errno::EIO)?;
    let all = trust::make_directory(place.opened.number(), &c_string(NAME));
    let all = all.map_err(trust::Why::errno)?;
    let path = [&place.path[..], b"/", NAME.as_bytes()].concat();
    tidy(Path::new(OsStr::from_bytes(&path)), key.as_bytes());
    let mut secret = [0; 16];
    process::getrandom(&mut secret, 0)?;
    let name = format!("{key}{:032x}", u128::from_ne_bytes(secret));
    let own = trust::make_directory(all.number(), &c_string(&name));
    own.map_err(trust::Why::errno)?;
    let size = culvert_sys::fs::fstat(library)?.st_size as u64;
    if process::file_size_limit() < length(size) {
        return Err(Errno::EFBIG);
    }
    let mut bytes = vec![0; size as usize];
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match culvert_sys::fs::pread(library, rest, read as u64)? {
            0 => return Err(Errno::EIO),
            more => read += more,
        }
    }
    link(&mut bytes, address()?).ok_or(Errno::ENOEXEC)?;
    bytes.resize(length(size) as usize, 0);
    let directory = [&path[..], b"/", name.as_bytes()].concat();
    let new = images::unnamed(&directory, 0o500)?;
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        written += culvert_sys::fs::pwrite(&new, rest, written as u64)?;
    }
    // As ld.so will map it.
    let code = Of::Private(new.as_fd(), 0);
    drop(Mapping::new(
        code,
        bytes.len(),
        Protection::READ | Protection::EXEC,
    )?);
    for page in (0..length(size)).step_by(LARGE_PAGE as usize) {
        // Where the kernel cannot, it is as it was.
        let _ = images::into_large_page(new.as_fd(), page);
    }
    images::publish(&new, &directory, FILE.as_bytes(), 0o500)
}

/// Removes from `directory` what is there of the same library, which is not to be believed, and
/// the oldest of many copies.
fn tidy(directory: &Path, key: &[u8]) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let (same, others): (Vec<_>, Vec<_>) =
        entries.partition(|entry| entry.file_name().as_bytes().starts_with(key));
    let age = |entry: &fs::DirEntry| entry.metadata().and_then(|found| found.modified()).ok();
    let mut others: Vec<_> = others
        .iter()
        .map(|entry| (age(entry), entry.path()))
        .collect();
    others.sort();
    let many = (others.len() + 1).saturating_sub(MOST);
    let oldest = others.into_iter().take(many).map(|(_, path)| path);
    for copy in same.iter().map(fs::DirEntry::path).chain(oldest) {
        let _ = fs::remove_dir_all(copy);
    }
}

/// Where a new copy lies: at a random large page.
fn address() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    process::getrandom(&mut bytes, 0)?;
    let pages = (LAST - FIRST) / LARGE_PAGE;
    Ok(FIRST + u64::from_ne_bytes(bytes) % pages * LARGE_PAGE)
}

// elf(5), of a file of 64 bits.
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_RELRO: u32 = 0x6474_e552;
/// As libculvert.so knows it (`relocation.rs`).
const PT_COPY_RELRO: u32 = 0x6c76_6372;
const PT_NULL: u32 = 0;
const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_INIT: u64 = 12;
const DT_INIT_ARRAY: u64 = 25;
const DT_RELRSZ: u64 = 35;
const DT_RELR: u64 = 36;
const DT_RELRENT: u64 = 37;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const SHT_SYMTAB: u32 = 2;
const SHT_DYNAMIC: u32 = 6;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;
const HEADER: usize = 56;
const SYMBOL: usize = 24;
/// How the room for the dynamic section begins (libculvert, `relocation.rs`), and how long it is.
const ROOM: &[u8] = b"culvert dynamic ";
const ROOM_SIZE: usize = 272;

/// A file that is changed; none where it has not that many bytes.
struct File<'a>(&'a mut [u8]);

impl File<'_> {
    fn get<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    fn half(&self, at: usize) -> Option<u16> {
        self.get(at).map(u16::from_le_bytes)
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.get(at).map(u32::from_le_bytes)
    }

    fn long(&self, at: usize) -> Option<u64> {
        self.get(at).map(u64::from_le_bytes)
    }

    /// A place within the file.
    fn place(&self, at: usize) -> Option<usize> {
        let place = usize::try_from(self.long(at)?).ok()?;
        (place <= self.0.len()).then_some(place)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> Option<()> {
        self.0
            .get_mut(at..at.checked_add(bytes.len())?)?
            .copy_from_slice(bytes);
        Some(())
    }

    fn add(&mut self, at: usize, number: u64) -> Option<()> {
        let sum = self.long(at)?.wrapping_add(number);
        self.put(at, &sum.to_le_bytes())
    }

    /// The symbols from `start` to `end` lie further up by `base`.
    fn move_symbols(&mut self, start: usize, end: usize, base: u64) -> Option<()> {
        for symbol in (start..end).step_by(SYMBOL) {
            if !matches!(self.half(symbol + 6)?, SHN_UNDEF | SHN_ABS) {
                self.add(symbol + 8, base)?;
            }
        }
        Some(())
    }
}

/// Links libculvert.so, which is `bytes`, to the address `base`: ld.so has nothing to relocate, and
/// what is only read from then on lies in one segment with the code. None: it is not laid out as
/// expected (libculvert, `build.rs`).
fn link(bytes: &mut [u8], base: u64) -> Option<()> {
    let mut file = File(bytes);
    let headers = file.place(32)?;
    let count = usize::from(file.half(56)?);
    let headers = (0..count).map(|index| headers + index * HEADER);
    let of_kind = |file: &File<'_>, kind| {
        let found = headers.clone().filter(|&at| file.word(at) == Some(kind));
        found.collect::<Vec<_>>()
    };
    let (loads, relro) = (of_kind(&file, PT_LOAD), of_kind(&file, PT_GNU_RELRO));
    let (&[code, read_only, data], &[relro], &[dynamic]) =
        (&loads[..], &relro[..], &of_kind(&file, PT_DYNAMIC)[..])
    else {
        return None;
    };
    // Each byte of the file has the address that is its place there.
    let is_straight = |at: &usize| file.long(at + 8) == file.long(at + 16);
    let (start, length) = (file.long(read_only + 8)?, file.long(read_only + 32)?);
    let is_as_expected = [code, read_only, data, relro, dynamic]
        .iter()
        .all(is_straight)
        && file.long(code + 8)? == 0
        && file.long(code + 32)?.checked_next_multiple_of(4096)? == start
        && file.long(relro + 8)? == start;
    if !is_as_expected {
        return None;
    }
    let room = {
        let (from, length) = (file.place(data + 8)?, file.place(data + 32)?);
        let data = file.0.get(from..from.checked_add(length)?)?;
        from + data.windows(ROOM.len()).position(|at| at == ROOM)?
    };

    let section = file.place(dynamic + 8)?;
    let entries: Vec<(u64, u64)> = (0..)
        .map(|index| section + index * 16)
        .map_while(|at| file.long(at).zip(file.long(at + 8)))
        .take_while(|&(tag, _)| tag != DT_NULL)
        .collect();
    let value = |wanted| {
        entries
            .iter()
            .find(|&&(tag, _)| tag == wanted)
            .map(|&(_, value)| value)
    };
    for word in relocated(&file, value(DT_RELR)? as usize, value(DT_RELRSZ)? as usize)? {
        file.add(word, base)?;
    }
    let mut moved = Vec::new();
    for &(tag, value) in &entries {
        let value = match tag {
            DT_RELR | DT_RELRSZ | DT_RELRENT => continue,
            DT_STRTAB | DT_SYMTAB | DT_INIT | DT_INIT_ARRAY | DT_GNU_HASH => value + base,
            _ => value,
        };
        moved.extend(tag.to_le_bytes().into_iter().chain(value.to_le_bytes()));
    }
    if moved.len() + 16 > ROOM_SIZE {
        return None;
    }
    // ld.so reads it there, up to the tag that is 0.
    moved.resize(ROOM_SIZE, 0);
    file.put(room, &moved)?;
    // The first symbol is none; behind the last lies the next table.
    let symbols = value(DT_SYMTAB)? as usize;
    let tables = [value(DT_STRTAB)?, value(DT_GNU_HASH)?, value(DT_RELR)?];
    let end = tables
        .into_iter()
        .filter(|&table| table as usize > symbols)
        .min()? as usize;
    file.move_symbols(symbols + SYMBOL, end, base)?;

    let (sections, count) = (file.place(40)?, usize::from(file.half(60)?));
    for section in (0..count).map(|index| sections + index * 64) {
        if file.long(section + 16)? != 0 {
            file.add(section + 16, base)?;
        }
        match file.word(section + 4)? {
            SHT_SYMTAB => {
                let (start, length) = (file.place(section + 24)?, file.place(section + 32)?);
                file.move_symbols(start, start.checked_add(length)?, base)?;
            }
            SHT_DYNAMIC => {
                file.put(section + 16, &(base + room as u64).to_le_bytes())?;
                file.put(section + 24, &(room as u64).to_le_bytes())?;
                file.put(section + 32, &(ROOM_SIZE as u64).to_le_bytes())?;
            }
            _ => {}
        }
    }
    for at in headers.clone() {
        file.add(at + 16, base)?;
        file.add(at + 24, base)?;
    }
    let (end, size) = (
        (start + length).to_le_bytes(),
        (ROOM_SIZE as u64).to_le_bytes(),
    );
    file.put(code + 32, &end)?;
    file.put(code + 40, &end)?;
    file.put(read_only, &PT_NULL.to_le_bytes())?;
    file.put(relro, &PT_COPY_RELRO.to_le_bytes())?;
    let room = room as u64;
    file.put(dynamic + 8, &room.to_le_bytes())?;
    file.put(dynamic + 16, &(base + room).to_le_bytes())?;
    file.put(dynamic + 24, &(base + room).to_le_bytes())?;
    file.put(dynamic + 32, &size)?;
    file.put(dynamic + 40, &size)
}

/// Where the words are that ld.so would relocate: `size` bytes at `table` say it (DT_RELR).
fn relocated(file: &File<'_>, table: usize, size: usize) -> Option<Vec<usize>> {
    let (mut words, mut next) = (Vec::new(), 0);
    for at in (table..table.checked_add(size)?).step_by(8) {
        let entry = file.long(at)? as usize;
        if entry & 1 == 0 {
            words.push(entry);
            next = entry + 8;
            continue;
        }
        words.extend(
            (0..63)
                .filter(|bit| entry >> (bit + 1) & 1 != 0)
                .map(|bit| next + bit * 8),
        );
        next += 63 * 8;
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = FIRST + LARGE_PAGE;

    #[test]
    fn what_is_not_laid_out_as_the_library_is_refused() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        for mut other in [Vec::new(), vec![0; 4096], vec![0xff; 4096], own] {
            assert_eq!(link(&mut other, BASE), None);
        }
    }

    #[test]
    fn words_are_relocated_as_the_table_says() {
        let entries = [0x100_u64, 0b1011, 0x300];
        let mut bytes: Vec<u8> = entries
            .iter()
            .flat_map(|entry| entry.to_le_bytes())
            .collect();
        let words = relocated(&File(&mut bytes), 0, 24).unwrap();
        assert_eq!(words, [0x100, 0x108, 0x118, 0x300]);
        assert_eq!(relocated(&File(&mut bytes), 8, 24), None);
    }

    #[test]
    fn addresses_are_large_pages_in_the_range() {
        let addresses: Vec<_> = (0..8).map(|_| address().unwrap()).collect();
        let is_right = |&at: &u64| (FIRST..LAST).contains(&at) && at % LARGE_PAGE == 0;
        assert!(addresses.iter().all(is_right));
        assert!(addresses.iter().any(|at| at != &addresses[0]));
    }
}

//! The user's copy of libculvert.so that is linked to an address of its own
//! (docs/design/library-copy.md): made once for each build, by the first run that misses it.

mod elf;

use crate::{
    failure::{reason, shown},
    umask::OwnerRights,
};
use culvert_intercept::images;
use culvert_launch::library_copy::{
    FILE, Found, LARGE_PAGE, NAME, Place, cache, find, fit, is_safe, key, length, place,
};
use culvert_run::files::c_string;
use culvert_sys::fd::flock;
use culvert_sys::flags::{OFlags, Protection};
use culvert_sys::memory::{Mapping, Of};
use culvert_sys::raw::general::{LOCK_EX, LOCK_NB};
use culvert_sys::{AsFd, Errno, OwnedFd, process};
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
    let library = opened(library).ok()?;
    let [runtime, cache] = &directories();
    let directories = || [runtime, cache].into_iter().flatten().map(|path| &path[..]);
    let _rights = OwnerRights::new();
    let place = place(directories()).or_else(|| {
        // Not in another user's home, as under sudo(8), nor where there is none.
        let cache = cache.as_deref().filter(|cache| is_safe(cache))?;
        let cache = Path::new(OsStr::from_bytes(cache));
        let mut own = fs::DirBuilder::new();
        let _ = own.mode(0o700).create(cache.parent()?);
        own.create(cache).ok()?;
        place(directories())
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

/// Where it may lie, as variables say: XDG_RUNTIME_DIR, and the cache.
fn directories() -> [Option<Vec<u8>>; 2] {
    let variable = |name| std::env::var_os(name).map(OsStringExt::into_vec);
    let [home, own] = [variable("HOME"), variable("XDG_CACHE_HOME")];
    [
        variable("XDG_RUNTIME_DIR"),
        cache(own.as_deref(), home.as_deref()),
    ]
}

fn opened(library: &Path) -> std::io::Result<OwnedFd> {
    let library = fs::File::open(library)?;
    Ok(OwnedFd::from_raw(library.into_raw_fd()))
}

/// Why programs start without a copy of the library at `library`, and what can be done about it.
pub fn why_none(library: &Path) -> (String, &'static str) {
    const PLACE: &str = "let XDG_RUNTIME_DIR name a directory of mode 0700 on this machine, below \
        those that only root or the user may write";
    let directories: Vec<_> = directories().into_iter().flatten().collect();
    if directories.is_empty() {
        return ("neither XDG_RUNTIME_DIR nor HOME is set".into(), PLACE);
    }
    let shown = |path: &[u8]| shown(OsStr::from_bytes(path));
    let Some(place) = place(directories.iter().map(|path| &path[..])) else {
        let unfit = directories.iter().filter_map(|path| {
            let why = fit(path).err()?;
            Some(format!("{}: {why}", shown(path)))
        });
        return (unfit.collect::<Vec<_>>().join("; "), PLACE);
    };
    let all = shown(&[&place.path[..], b"/", NAME.as_bytes()].concat());
    match opened(library).map(|library| find(&place, &library)) {
        Ok(Found::Impossible) => (
            format!("none could be made in {all} in the last ten minutes"),
            "let it have 6 MB of room; it is tried again by itself",
        ),
        Ok(Found::Missing) if process::is_filtered() => (
            "a seccomp filter is in force".into(),
            "none is made under a filter, but one that is there is used: run culvert before",
        ),
        Ok(Found::Missing) => (format!("none can be made in {all}"), PLACE),
        Ok(Found::Copy(_)) => (format!("ld.so has not loaded that in {all}"), ""),
        Err(error) => (reason(&error), ""),
    }
}

/// Makes the copy, unless another process does at this moment. Where that fails an empty directory
/// says so.
fn make(place: &Place, library: &OwnedFd) -> Result<(), Errno> {
    let key = key(library).ok_or(Errno::EIO)?;
    // What lies below a directory of the user's alone is the user's, whatever its mode.
    let all = directory(&place.opened, NAME)?;
    // Whose copy another one took for missing, that one would remove. The end lets go of it.
    flock(&all, LOCK_EX | LOCK_NB)?;
    if !matches!(find(place, library), Found::Missing) {
        return Ok(());
    }
    let path = [&place.path[..], b"/", NAME.as_bytes()].concat();
    tidy(Path::new(OsStr::from_bytes(&path)), key.as_bytes());
    let new = linked(library).and_then(|bytes| written(&path, &bytes));
    // This process has limits that others need not have.
    if let Err(Errno::EFBIG | Errno::ENOMEM) = new {
        return new.map(drop);
    }
    let mut secret = [0; 16];
    process::getrandom(&mut secret, 0)?;
    let name = format!("{key}{:032x}", u128::from_ne_bytes(secret));
    directory(&all, &name)?;
    let own = [&path[..], b"/", name.as_bytes()].concat();
    images::publish(&new?, &own, FILE.as_bytes(), 0o500)
}

/// The directory `name` in `parent`, which is made if it is missing.
fn directory(parent: impl AsFd + Copy, name: &str) -> Result<OwnedFd, Errno> {
    let name = c_string(name);
    match culvert_sys::fs::mkdirat(parent, &name, 0o700) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    culvert_sys::fs::openat(parent, &name, flags, 0)
}

/// The bytes of the copy.
fn linked(library: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let size = culvert_sys::fs::fstat(library)?.st_size as u64;
    if process::file_size_limit() < length(size) {
        return Err(Errno::EFBIG);
    }
    let mut bytes = Vec::new();
    let room = bytes.try_reserve_exact(length(size) as usize);
    room.map_err(|_| Errno::ENOMEM)?;
    bytes.resize(size as usize, 0);
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match culvert_sys::fs::pread(library, rest, read as u64)? {
            0 => return Err(Errno::EIO),
            more => read += more,
        }
    }
    elf::link(&mut bytes, address()?).ok_or(Errno::ENOEXEC)?;
    bytes.resize(length(size) as usize, 0);
    Ok(bytes)
}

/// A file of these `bytes` in `directory`, without a name, as ld.so can map it.
fn written(directory: &[u8], bytes: &[u8]) -> Result<OwnedFd, Errno> {
    let new = images::unnamed(directory, 0o500)?;
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        written += culvert_sys::fs::pwrite(&new, rest, written as u64)?;
    }
    let code = Of::Private(new.as_fd(), 0);
    drop(Mapping::new(
        code,
        bytes.len(),
        Protection::READ | Protection::EXEC,
    )?);
    for page in (0..bytes.len()).step_by(LARGE_PAGE as usize) {
        // Where the kernel cannot, it is as it was.
        let _ = images::into_large_page(new.as_fd(), page as u64);
    }
    Ok(new)
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

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_sys::trust;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    /// A directory for the copies of a library, which is none, removed when dropped.
    struct Fixture(PathBuf);

    impl Fixture {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("copy-{name}-{}", std::process::id()));
            fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
            fs::write(path.join("library"), [1; 5000]).unwrap();
            Self(path)
        }

        fn library(&self) -> OwnedFd {
            opened(&self.0.join("library")).unwrap()
        }

        fn place(&self) -> Place {
            let path = self.0.as_os_str().as_bytes().to_vec();
            let opened = trust::directory(&c_string(&path[..]), trust::user()).unwrap();
            Place { path, opened }
        }
    }

    impl Drop for Fixture {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn who_comes_second_keeps_what_the_first_has_made() {
        let fixture = Fixture::new("second");
        let (place, library) = (fixture.place(), fixture.library());
        let own = format!("{}0", key(&library).unwrap());
        let own = fixture.0.join(NAME).join(own);
        fs::create_dir_all(&own).unwrap();
        let first = fs::File::create(own.join(FILE)).unwrap();
        first.set_len(LARGE_PAGE).unwrap();
        let rights = fs::Permissions::from_mode(0o500);
        first.set_permissions(rights).unwrap();
        assert_eq!(make(&place, &library), Ok(()));
        let path = own.join(FILE).as_os_str().as_bytes().to_vec();
        assert!(matches!(find(&place, &library), Found::Copy(found) if found == path));
    }

    #[test]
    fn a_failure_counts_for_ten_minutes() {
        let fixture = Fixture::new("failure");
        let (place, library) = (fixture.place(), fixture.library());
        assert_eq!(make(&place, &library), Err(Errno::ENOEXEC));
        assert!(matches!(find(&place, &library), Found::Impossible));
        assert_eq!(make(&place, &library), Ok(()), "it is not tried again");
        let all = fs::read_dir(fixture.0.join(NAME)).unwrap();
        let all: Vec<_> = all.map(|entry| entry.unwrap().path()).collect();
        let [own] = &all[..] else { panic!("{all:?}") };
        let now = SystemTime::now();
        let hour = Duration::from_secs(3600);
        // A clock that was put back must not let it count for longer.
        for then in [now - Duration::from_secs(601), now + hour] {
            fs::File::open(own).unwrap().set_modified(then).unwrap();
            assert!(matches!(find(&place, &library), Found::Missing));
        }
        assert_eq!(make(&place, &library), Err(Errno::ENOEXEC));
        assert!(!own.exists(), "an earlier one is removed");
    }

    #[test]
    fn addresses_are_large_pages_in_the_range() {
        let addresses: Vec<_> = (0..8).map(|_| address().unwrap()).collect();
        let is_right = |&at: &u64| (FIRST..LAST).contains(&at) && at % LARGE_PAGE == 0;
        assert!(addresses.iter().all(is_right));
        assert!(addresses.iter().any(|at| at != &addresses[0]));
    }
}

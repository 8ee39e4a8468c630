//! The user's copies of libculvert.so at addresses of their own (docs/design/library-copy.md).

use crate::directory::entries;
use alloc::{format, string::String, vec::Vec};
use core::fmt;
use culvert_run::files::c_string;
use culvert_sys::fd::CWD;
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::trust::{self, Opened};
use culvert_sys::{Errno, OwnedFd, fs, process};

/// The directory of the copies, in their place.
pub const NAME: &str = "culvert-libraries";
/// The name of each, in a directory whose name begins with its [`key`].
pub const FILE: &str = "libculvert.so";
/// A large page: as many bytes lie in memory as in the file.
pub const LARGE_PAGE: u64 = 2 << 20;

/// `ST_RDONLY` and `ST_NOEXEC` (statfs(2)).
const ST_RDONLY: i64 = 1;
const ST_NOEXEC: i64 = 8;
/// File systems of this machine's own (include/uapi/linux/magic.h): tmpfs, ext4, XFS, Btrfs, F2FS,
/// overlayfs, bcachefs, ZFS.
const KNOWN: [i64; 8] = [
    0x0102_1994,
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x794c_7630,
    0xca45_1a4e,
    0x2fc1_2fc1,
];

/// After how many seconds one is tried to be made again.
const AGAIN: i64 = 600;

/// What there is of a copy.
pub enum Found {
    /// It, at this path.
    Copy(Vec<u8>),
    /// None could be made lately.
    Impossible,
    /// None was made yet, or it is not to be believed.
    Missing,
}

/// Where copies lie: a directory of the user's alone.
pub struct Place {
    /// Its path.
    pub path: Vec<u8>,
    /// It, open.
    pub opened: Opened,
}

/// Why copies cannot lie in a directory.
pub enum Unfit {
    /// ld.so takes its path for more than a name (ld.so(8)).
    Path,
    /// It is not the user's alone.
    Trust(trust::Why),
    /// Its file system is none that is this machine's own.
    System,
    /// Nothing can be made there.
    ReadOnly,
    /// Nothing can be executed there.
    Noexec,
    /// Somebody else can put another in its place.
    Above,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trust(why) => return why.fmt(f),
            Self::Path => "it is not absolute, or has a colon or a dollar sign",
            Self::System => "its file system may be another machine's",
            Self::ReadOnly => "it is mounted read-only",
            Self::Noexec => "it is mounted noexec",
            Self::Above => "others may put another directory in its place",
        })
    }
}

/// The place of this user's copies: the first of `directories` that is fit, of XDG_RUNTIME_DIR and
/// the cache.
pub fn place<'a>(directories: impl Iterator<Item = &'a [u8]>) -> Option<Place> {
    directories.into_iter().find_map(|path| fit(path).ok())
}

/// The directory `path`, if nobody else can put another in its place, and in the place of its
/// parents, as ld.so opens a copy by its name.
pub fn fit(path: &[u8]) -> Result<Place, Unfit> {
    if !path.starts_with(b"/") || path.iter().any(|byte| b":$".contains(byte)) {
        return Err(Unfit::Path);
    }
    let opened = trust::directory(&c_string(path), trust::user()).map_err(Unfit::Trust)?;
    let system = fs::fstatfs(&opened);
    let system = system.map_err(|errno| Unfit::Trust(trust::Why::Failed(errno)))?;
    let flags = system.f_flags as i64;
    match () {
        () if !KNOWN.contains(&system.f_type) => Err(Unfit::System),
        () if flags & ST_RDONLY != 0 => Err(Unfit::ReadOnly),
        () if flags & ST_NOEXEC != 0 => Err(Unfit::Noexec),
        () if !is_safe(path) => Err(Unfit::Above),
        () => Ok(Place {
            path: path.into(),
            opened,
        }),
    }
}

/// Whether nobody else can put another directory in the place of one of those above `path`; those
/// that are missing the user would make.
pub fn is_safe(path: &[u8]) -> bool {
    // Its number stands for all users whom a namespace does not know.
    let user = Some(trust::user()).filter(|&user| user != trust::OVERFLOW);
    let mut parents = (0..path.len()).filter(|&at| path.get(at) == Some(&b'/'));
    parents.all(|at| {
        let parent = c_string(path.get(..at.max(1)).unwrap_or_default());
        match fs::fstatat(CWD, &parent, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => {
                let is_known = found.st_uid == 0 || Some(found.st_uid) == user;
                is_known && found.st_mode & 0o022 == 0
            }
            Err(errno) => errno == Errno::ENOENT,
        }
    })
}

/// The cache of who has these variables: `$XDG_CACHE_HOME/culvert`, or `~/.cache/culvert`.
pub fn cache(cache: Option<&[u8]>, home: Option<&[u8]>) -> Option<Vec<u8>> {
    let is_absolute = |path: &&[u8]| path.starts_with(b"/");
    match cache.filter(is_absolute) {
        Some(cache) => Some([cache, b"/culvert"].concat()),
        None => Some([home.filter(is_absolute)?, b"/.cache/culvert"].concat()),
    }
}

/// Which file the copy of `library` is a copy of: its device, inode, size and time of change, and a
/// sum of its first page, which holds the build-id, and of the boot.
pub fn key(library: &OwnedFd) -> Option<String> {
    let found = fs::fstat(library).ok()?;
    let mut first = [0; 4096];
    let got = fs::pread(library, &mut first, 0).ok()?;
    let boot = culvert_run::read_file(c"/proc/sys/kernel/random/boot_id").unwrap_or_default();
    // FNV-1a.
    let sum = first
        .get(..got)?
        .iter()
        .chain(&boot)
        .fold(0xcbf2_9ce4_8422_2325, |sum: u64, &byte| {
            (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
    Some(format!(
        "{:x}-{:x}-{:x}-{:x}.{:x}-{sum:x}-",
        found.st_dev, found.st_ino, found.st_size, found.st_ctime, found.st_ctime_nsec
    ))
}

/// How long the copy of a library of `size` bytes is: whole large pages.
pub fn length(size: u64) -> u64 {
    size.next_multiple_of(LARGE_PAGE)
}

/// Whether there is no copy in the directory `name` because it could not be made shortly before.
fn has_failed_lately(place: &Place, name: &[u8]) -> bool {
    const CLOCK_REALTIME: u32 = 0;
    let name = c_string([NAME.as_bytes(), b"/", name].concat());
    let made = fs::fstatat(&place.opened, &name, AtFlags::SYMLINK_NOFOLLOW);
    let made = made.ok().map(|found| found.st_mtime as i64);
    let now = process::clock_gettime(CLOCK_REALTIME).map(|now| now.tv_sec);
    let age = now.ok().zip(made).map(|(now, made)| now - made);
    age.is_some_and(|age| (0..AGAIN).contains(&age))
}

/// Looks for the copy of `library` in `place`.
pub fn find(place: &Place, library: &OwnedFd) -> Found {
    let Some((key, size)) = key(library).zip(fs::fstat(library).ok()) else {
        return Found::Impossible;
    };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let all = fs::openat(&place.opened, &c_string(NAME), flags, 0);
    let names = all
        .and_then(|all| entries(all.borrow()))
        .unwrap_or_default();
    let mut names = names.iter().map(|entry| entry.name.to_bytes());
    let Some(name) = names.find(|name| name.starts_with(key.as_bytes())) else {
        return Found::Missing;
    };
    let within = [NAME.as_bytes(), b"/", name, b"/", FILE.as_bytes()].concat();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match fs::openat(&place.opened, &c_string(&within[..]), flags, 0) {
        Ok(file) => file,
        Err(Errno::ENOENT) if has_failed_lately(place, name) => return Found::Impossible,
        Err(_) => return Found::Missing,
    };
    // One that was cut, or changed, ends programs.
    let is_whole = trust::kept(file.raw()).is_ok_and(|found| {
        found.st_mode & 0o222 == 0
            && found.st_nlink == 1
            && found.st_size as u64 == length(size.st_size as u64)
    });
    match is_whole {
        true => Found::Copy([&place.path[..], b"/", &within].concat()),
        false => Found::Missing,
    }
}

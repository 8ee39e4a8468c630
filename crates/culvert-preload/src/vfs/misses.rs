//! Names that are not there, outside of all mounts.
//!
//! Where the kernel finds nothing, a link on the way may lead into a mount
//! ([`super::path::look_again`]). An openat2(2) with RESOLVE_NO_SYMLINKS that finds nothing either
//! has seen that there is none. So whoever opens what may not be there makes that call alone; and
//! whoever looks (stat) makes it first where the last names were missing. Where a link is on the
//! way, or the name is there after all, the program's own call follows: guesses cost a call at
//! most.

use super::native::open_restricted;
use crate::answer::{Answer, RESTART};
use crate::process::Process;
use core::sync::atomic::{AtomicBool, AtomicU16, Ordering::Relaxed};
use culvert::Errno;
use culvert_intercept::wait;
use culvert_mounts::resolver::last_slash;
use culvert_run::memory::Path;
use culvert_run::stat_descriptor;
use culvert_sys::BorrowedFd;
use culvert_sys::raw::general::{AT_FDCWD, O_CREAT, O_DIRECTORY, O_NOFOLLOW, O_PATH};
use culvert_sys::raw::general::{O_TMPFILE, open_how};

const RESOLVE_NO_SYMLINKS: u64 = 4;

/// What was found last in some directories, by a hash of their paths: part of the hash above
/// [`STATE`]; and how many names in a row were missing, up to [`MOST`], and [`LINKS`].
static SEEN: [AtomicU16; 32] = [const { AtomicU16::new(0) }; 32];

/// There is no openat2 here, or a filter refuses it.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// The part of a place of [`SEEN`] that is no hash.
const STATE: u16 = 0xff;

/// A link was on the way.
const LINKS: u16 = 0x80;

/// So many missing names say that the next one is missing, too.
const MOST: u16 = 2;

/// What is known of a directory.
pub struct Seen {
    place: &'static AtomicU16,
    /// Where another directory has the place, nothing is known of this one.
    tag: u16,
}

impl Seen {
    #[inline]
    fn state(&self) -> u16 {
        match self.place.load(Relaxed) {
            word if word & !STATE == self.tag => word & STATE,
            _ => 0,
        }
    }

    /// Takes the place from another directory.
    #[inline]
    fn set(&self, state: u16) {
        self.place.store(self.tag | state, Relaxed);
    }
}

/// What is known of the directory in which the last name of `path` lies.
#[inline]
pub fn seen(path: &[u8]) -> Seen {
    let directory = &path[..last_slash(path).unwrap_or(0)];
    let word = |from: usize| {
        let bytes = directory.get(from..).and_then(|rest| rest.first_chunk());
        bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
    };
    // The end tells directories apart, and where that is the same, the length.
    let end = directory.len();
    let (last, before) = (word(end.wrapping_sub(8)), word(end.wrapping_sub(16)));
    let mixed = (last ^ before.rotate_left(29) ^ end as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Seen {
        place: &SEEN[(mixed >> 59) as usize],
        tag: (mixed >> 43) as u16 & !STATE,
    }
}

/// Notes what the kernel has answered to a look at a name in that directory.
#[inline]
pub fn note(seen: &Seen, answer: Answer) {
    let now = seen.state();
    let next = match answer {
        Err(Errno::ENOENT) if now & !LINKS < MOST => now + 1,
        Err(Errno::ENOENT) => now,
        _ => now & LINKS,
    };
    if next != now {
        seen.set(next);
    }
}

/// Whether one call may tell more of `path` than the program's own.
#[inline]
fn is_asked(process: &Process, path: &[u8]) -> bool {
    !process.kernel_sees_all.load(Relaxed)
        && !IS_REFUSED.load(Relaxed)
        && !culvert_run::task::is_confined()
        && !culvert_run::task::has_left()
        // Most begin with a link.
        && !path.starts_with(b"/proc/")
}

/// Whether libraries are called so: their names often are links, in directories behind links.
fn is_library(path: &[u8]) -> bool {
    let name = &path[last_slash(path).unwrap_or(0)..];
    name.windows(3).any(|three| three == b".so")
}

/// Whether `path` begins in the empty directory under a mount, by a descriptor of which nobody has
/// told us (one that was inherited, or received): what is missing there may be in the mount.
#[cold]
fn may_be_in_mount(process: &Process, directory: i32, path: &[u8]) -> bool {
    directory != AT_FDCWD
        && path.first() != Some(&b'/')
        && process.targets_exist
        && stat_descriptor(directory)
            .is_ok_and(|it| process.mounts.is_target(it.st_dev, it.st_ino).is_some())
}

/// Opens `path`, which enters no mount by its text, with the flags of open(2), where nothing is to
/// be made. None: the program's own call tells. What is not there is in no mount either.
#[inline]
pub fn open(process: &Process, directory: i32, path: Path<'_>, flags: u32) -> Option<Answer> {
    let makes = flags & (O_CREAT | O_TMPFILE & !O_DIRECTORY) != 0;
    if makes || !is_asked(process, path.bytes()) || path.is_empty() {
        return None;
    }
    let seen = seen(path.bytes());
    if seen.state() & LINKS != 0 || is_library(path.bytes()) {
        return None;
    }
    let how = open_how {
        flags: u64::from(flags),
        mode: 0,
        resolve: RESOLVE_NO_SYMLINKS,
    };
    // It may wait (a FIFO), and signals must end that.
    let answer = wait::open_how(BorrowedFd::number(directory), path.c_str(), &how)
        .map(|fd| fd.into_raw() as usize);
    match answer {
        Err(Errno::ENOENT | Errno::ENOTDIR) => {
            note(&seen, answer);
            if !may_be_in_mount(process, directory, path.bytes()) {
                return Some(answer);
            }
        }
        Ok(_) | Err(RESTART | Errno::EINTR) => return Some(answer),
        Err(errno) => judge(&seen, errno),
    }
    wait::begins_anew();
    None
}

/// Whether nothing is at `path`, which enters no mount by its text: the error with which a look at
/// it ends. None: the program's own call tells.
#[inline]
pub fn expected(
    process: &Process,
    seen: &Seen,
    directory: i32,
    path: Path<'_>,
    follows: bool,
) -> Option<Errno> {
    if seen.state() < MOST || !is_asked(process, path.bytes()) {
        return None;
    }
    look(process, seen, directory, path, follows)
}

/// The same of a `path` of which nobody needs to have seen that others like it are missing.
#[inline]
pub fn confirmed(process: &Process, directory: i32, path: Path<'_>) -> Option<Errno> {
    let asked = is_asked(process, path.bytes());
    asked.then(|| look(process, &seen(path.bytes()), directory, path, true))?
}

/// Whether the caller may not search a directory on the way to `path`, which enters no mount by its
/// text, and no link was on the way to that directory.
#[cold]
pub fn is_out_of_reach(process: &Process, directory: i32, path: Path<'_>) -> bool {
    is_asked(process, path.bytes())
        && matches!(
            open_restricted(directory, path, O_PATH.into(), 0, RESOLVE_NO_SYMLINKS),
            Err(Errno::EACCES)
        )
        && !may_be_in_mount(process, directory, path.bytes())
}

#[cold]
fn look(
    process: &Process,
    seen: &Seen,
    directory: i32,
    path: Path<'_>,
    follows: bool,
) -> Option<Errno> {
    if seen.state() & LINKS != 0 {
        return None;
    }
    let flags = if follows { O_PATH } else { O_PATH | O_NOFOLLOW };
    match open_restricted(directory, path, flags.into(), 0, RESOLVE_NO_SYMLINKS) {
        Err(errno @ (Errno::ENOENT | Errno::ENOTDIR)) => {
            (!may_be_in_mount(process, directory, path.bytes())).then_some(errno)
        }
        Ok(_) => {
            seen.set(0);
            None
        }
        Err(errno) => {
            judge(seen, errno);
            None
        }
    }
}

/// Notes why a call did not tell.
#[cold]
fn judge(seen: &Seen, errno: Errno) {
    match errno {
        Errno::ELOOP => seen.set(LINKS),
        // EPERM may also be an answer; then the next are asked as if there were no such call.
        Errno::ENOSYS | Errno::EPERM => IS_REFUSED.store(true, Relaxed),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(path: &str) -> u16 {
        seen(path.as_bytes()).state()
    }

    #[test]
    fn names_missing_in_a_row_are_counted_by_their_directory() {
        let of = |name: &str| std::format!("/usr/share/locale/misses/{name}");
        for (name, answer, known) in [
            ("a", Err(Errno::ENOENT), 1),
            ("b", Err(Errno::ENOENT), 2),
            ("c", Err(Errno::ENOENT), 2),
            ("d", Ok(0), 0),
            ("e", Err(Errno::ENOENT), 1),
            ("f", Err(Errno::EACCES), 0),
        ] {
            note(&seen(of(name).as_bytes()), answer);
            assert_eq!(guess(&of("other")), known, "{name}");
        }
        judge(&seen(of("g").as_bytes()), Errno::ELOOP);
        note(&seen(of("h").as_bytes()), Ok(0));
        assert_eq!(guess(&of("h")), LINKS);
    }

    #[test]
    fn directories_are_told_apart_by_their_ends() {
        let place = |path: &str| {
            let seen = seen(path.as_bytes());
            (core::ptr::from_ref(seen.place), seen.tag)
        };
        assert_eq!(place("/usr/local/bin/a"), place("/usr/local/bin/b"));
        let directories = ["/usr/local/bin", "/usr/local/sbin", "/usr/bin", "/usr/sbin"];
        let places = directories.map(|directory| place(&std::format!("{directory}/x")));
        assert!(places.iter().any(|at| *at != places[0]));
        for short in ["", "x", "/x", "a/x"] {
            place(short);
        }
    }

    #[test]
    fn libraries_are_known_by_their_names() {
        for (path, is) in [
            ("/lib/libc.so.6", true),
            ("m.cpython-311-x86_64-linux-gnu.so", true),
            ("/usr/share/locale/C/LC_MESSAGES/so.mo", false),
            ("/lib/m.so.d/m", false),
        ] {
            assert_eq!(is_library(path.as_bytes()), is, "{path}");
        }
    }
}

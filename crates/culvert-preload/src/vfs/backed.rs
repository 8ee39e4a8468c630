//! Paths in a mount that is a tree of the kernel's own: where the kernel finds them below the
//! tree's root, in as few calls as path semantics allow.

use super::native::{open_restricted, stat_at};
use crate::process::{self, Process};
use alloc::ffi::CString;
use alloc::format;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use culvert::{Backing, BackingLinks, Errno};
use culvert_intercept::wait;
use culvert_mounts::MountId;
use culvert_mounts::resolver::{LastStep, Restrictions, last_slash};
use culvert_run::files::{kernel_flags, on_exec};
use culvert_run::{files::c_string, memory::Path};
use culvert_sys::raw::general::{AT_FDCWD, O_DIRECTORY, O_PATH};
use culvert_sys::{BorrowedFd, OwnedFd, fs, own_descriptors};

/// Something in the backing tree of a mount.
pub struct Backed<'p> {
    /// The mount.
    pub mount: MountId,
    /// Where [`Backed::path`] begins: the tree's root, one of its directories, or the working
    /// directory.
    pub base: i32,
    /// How links are to be followed.
    links: BackingLinks,
    /// [`Backing::bound`].
    bound: bool,
    text: Text<'p>,
    /// What keeps the descriptor of [`Backed::base`], where that was opened for this.
    _base: Option<OwnedFd>,
}

enum Text<'p> {
    /// As the program wrote it.
    Given(Path<'p>),
    /// As a walk found it: only the last component may be a link, and only if it is not to be
    /// followed. Ends in NUL.
    Found(CString),
}

impl<'p> Backed<'p> {
    /// What `path` names, which begins with the target of `mount`.
    #[inline]
    pub fn below_target(mount: MountId, backing: Backing, path: Path<'p>) -> Self {
        let mut rest = path.skip(process::get().mounts.target(mount).len());
        while rest.first() == Some(&b'/') {
            rest = rest.skip(1);
        }
        Self::below_directory(mount, backing, backing.root, rest)
    }

    /// What the relative `path` names from `directory`, which lies in the tree.
    #[inline]
    pub fn below_directory(
        mount: MountId,
        backing: Backing,
        directory: i32,
        path: Path<'p>,
    ) -> Self {
        Self {
            mount,
            base: directory,
            links: backing.links,
            bound: backing.bound,
            text: Text::Given(path),
            _base: None,
        }
    }

    /// The same for a path that begins with `..`, as long as that stays in the tree: by
    /// descriptors, for the text of a deep directory's path may be longer than any path that the
    /// kernel takes. None: it may leave the tree, or `..` is all there is and its name counts.
    #[cold]
    pub fn above_directory(
        mount: MountId,
        backing: Backing,
        directory: i32,
        path: Path<'p>,
        last: LastStep,
    ) -> Option<Self> {
        const O_PATH_DIRECTORY: u64 = 0o10200000;
        let root = crate::backing::identity(backing.root).ok()?;
        let here = stat_at(directory, Path::of(c"."), 0).ok()?;
        let mut at = (here.st_dev, here.st_ino);
        let mut base: Option<OwnedFd> = None;
        let mut rest = path;
        while matches!(*rest, [b'.', b'.'] | [b'.', b'.', b'/', ..]) {
            if at == root {
                return None;
            }
            let from = base.as_ref().map_or(directory, |base| base.raw());
            let above = open_restricted(from, Path::of(c".."), O_PATH_DIRECTORY, 0, 0).ok()?;
            at = crate::backing::identity(above.raw()).ok()?;
            base = Some(above);
            rest = rest.skip(2);
            while rest.first() == Some(&b'/') {
                rest = rest.skip(1);
            }
        }
        if rest.is_empty() {
            if last == LastStep::Parent {
                return None;
            }
            rest = Path::of(c".");
        }
        let above = base.as_ref().map_or(directory, |base| base.raw());
        Some(Self {
            _base: base,
            ..Self::below_directory(mount, backing, above, rest)
        })
    }

    /// What a walk that ended at `path` has found, if that lies in a backing tree.
    pub fn resolved(path: &[u8]) -> Option<Self> {
        let (mount, backing, rest) = process::get().mounts.backed(path)?;
        Some(Self {
            mount,
            base: backing.root,
            links: backing.links,
            bound: backing.bound,
            text: Text::Found(c_string(rest)),
            _base: None,
        })
    }

    /// The path from [`Backed::base`]; empty for the mount's root.
    #[inline]
    pub fn path(&self) -> Path<'_> {
        match &self.text {
            Text::Given(path) => *path,
            Text::Found(text) => Path::of(text),
        }
    }

    /// The same where the kernel takes no empty path.
    pub fn path_or_dot(&self) -> Path<'_> {
        match self.path() {
            path if path.is_empty() => Path::of(c"."),
            path => path,
        }
    }

    /// Whether no link needs to be looked out for any more.
    pub fn is_resolved(&self) -> bool {
        matches!(self.text, Text::Found(_))
    }

    /// Whether the kernel shall follow all links in the source itself, and `..` cannot lead out of
    /// it.
    #[inline]
    pub fn is_left_to_kernel(&self) -> bool {
        self.links == BackingLinks::Backing && !climbs(&self.path())
    }

    /// Whether the kernel finds by itself what the path means, links and `..` included.
    #[inline]
    pub fn is_seen_by_kernel(&self) -> bool {
        self.bound && process::get().kernel_sees_all.load(Relaxed)
    }

    /// Whether the kernel shall follow the links to a name that is not opened. What is opened may
    /// be taken for the mount's, so no link may lead out of that.
    #[inline]
    pub fn is_name_left_to_kernel(&self) -> bool {
        self.is_left_to_kernel() || self.is_seen_by_kernel()
    }
}

/// Whether `..` may lead above where the path begins.
fn climbs(path: &[u8]) -> bool {
    path.windows(2).any(|pair| pair == b"..")
        && path.split(|&b| b == b'/').any(|name| name == b"..")
}

/// The directory and the path that the kernel must be given for the place that is seen at `path`,
/// which is absolute and has no links but at its end.
pub fn native_place(process: &Process, path: &[u8]) -> (i32, CString) {
    match process.mounts.backed(path) {
        Some((_, backing, b"")) => (backing.root, c_string(b".")),
        Some((_, backing, rest)) => (backing.root, c_string(rest)),
        None => (AT_FDCWD, c_string(path)),
    }
}

/// A name in a directory of the kernel's: what calls on the name itself are made of.
pub struct Name<'n> {
    /// The directory; its descriptor goes when this does, unless it is the tree's root or the
    /// program's.
    pub directory: i32,
    /// The name, with the slashes behind it; more than a name where no link can be on the way.
    pub name: Path<'n>,
    _parent: Option<OwnedFd>,
}

impl<'n> Name<'n> {
    /// The last component of `place`, in its directory. None: it must be walked.
    #[inline]
    pub fn of(place: &'n Backed<'_>) -> Option<Self> {
        let path = place.path();
        /// Calls that take no directory are given a longer text ([`through_proc`]).
        const LONG: usize = 4000;
        let is_seen = place.is_seen_by_kernel() && path.len() < LONG;
        if place.is_resolved() || place.is_left_to_kernel() || is_seen {
            return Some(Self::plain(place.base, path));
        }
        let end = path.iter().rposition(|&b| b != b'/').map_or(0, |at| at + 1);
        let slash = path[..end].iter().rposition(|&b| b == b'/');
        let start = slash.map_or(0, |at| at + 1);
        if path.bytes().get(start..end) == Some(b"..") {
            return None;
        }
        match slash {
            None => Some(Self::plain(place.base, path)),
            Some(slash) => {
                let parent = open_parent(place.base, &path[..slash])?;
                Some(match parent {
                    Ok(parent) => Self {
                        directory: parent.raw(),
                        name: path.skip(start),
                        _parent: Some(parent),
                    },
                    // The kernel finds the same error again, in the call's own order of errors.
                    Err(_) => Self::plain(place.base, path),
                })
            }
        }
    }

    /// The same, where `other` is the name of `first`: to two names in one directory, by their
    /// text, its descriptor serves both.
    pub fn beside(place: &'n Backed<'_>, first: &Backed<'_>, other: &'n Name<'_>) -> Option<Self> {
        let (path, before) = (place.path(), first.path());
        let [start, end] =
            [path, before].map(|path| last_slash(path.bytes()).map_or(0, |at| at + 1));
        let name = path.skip(start);
        // Slashes behind a name, and what is no name, are looked at closely: the descriptor is of
        // the directory before the name that slashes follow.
        let is_shared = other._parent.is_some()
            && !place.is_resolved()
            && before.last() != Some(&b'/')
            && (place.mount, place.base) == (first.mount, first.base)
            && path[..start] == before[..end]
            && !matches!(name.bytes(), b"" | b"..");
        match is_shared {
            true => Some(Self::plain(other.directory, name)),
            false => Self::of(place),
        }
    }

    /// Directory and name for a call that takes no empty one.
    pub fn shown(&self) -> (i32, Path<'n>) {
        let name = match self.name.is_empty() {
            true => Path::of(c"."),
            false => self.name,
        };
        (self.directory, name)
    }

    /// Whether it is a symbolic link.
    pub fn is_link(&self) -> bool {
        let directory = BorrowedFd::number(self.directory);
        fs::readlinkat(directory, self.name.c_str(), &mut [0]).is_ok()
    }

    /// `name` in `directory`, both as they are.
    pub fn plain(directory: i32, name: Path<'n>) -> Self {
        Self {
            directory,
            name,
            _parent: None,
        }
    }
}

/// Opens the directory at `path` without leaving `base`. None: only a walk can tell. An error is
/// the path's own.
fn open_parent(base: i32, path: &[u8]) -> Option<Result<OwnedFd, Errno>> {
    let mut room = MaybeUninit::<[u8; 4096]>::uninit();
    if path.len() >= 4096 {
        return None;
    }
    // SAFETY: the path, in which there is no NUL, and one behind it fit, and nothing but them is
    // read.
    let path = unsafe {
        let start = room.as_mut_ptr().cast::<u8>();
        core::ptr::copy_nonoverlapping(path.as_ptr(), start, path.len());
        start.add(path.len()).write(0);
        CStr::from_ptr(start.cast())
    };
    open_beneath(base, Path::of(path), O_PATH | O_DIRECTORY)
}

/// A link was on the way to something in a tree of the kernel's.
static LINKS: AtomicBool = AtomicBool::new(false);

/// What `open` gives, an openat2(2) of `path` with these restrictions: so that it does not leave
/// the directory where it begins.
///
/// Without links and `..` no path does, and where links are refused the kernel need not look
/// whether the end is below the beginning (0.2 of 1.5 µs). A process that has met a link goes on
/// without that: what is remembered decides which call is made, and never what it answers.
#[inline]
pub fn within<T>(path: &[u8], open: impl Fn(u64) -> Result<T, Errno>) -> Result<T, Errno> {
    if !LINKS.load(Relaxed) && path.first() != Some(&b'/') && !climbs(path) {
        match open(Restrictions::NO_SYMLINKS) {
            Err(Errno::ELOOP) => met_link(),
            answer => return answer,
        }
    }
    open(Restrictions::BENEATH)
}

#[cold]
fn met_link() {
    LINKS.store(true, Relaxed);
    // It stopped at the link, and has waited for nothing.
    wait::begins_anew();
}

/// Opens what is at `path` without leaving `base`, with the flags of an open that does nothing.
/// None: only a walk can tell. An error is the path's own.
pub fn open_beneath(base: i32, path: Path<'_>, flags: u32) -> Option<Result<OwnedFd, Errno>> {
    let opened = within(&path, |resolve| {
        open_restricted(base, path, flags.into(), 0, resolve)
    });
    match opened {
        Ok(opened) => Some(Ok(opened)),
        Err(errno @ (Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ENAMETOOLONG)) => {
            Some(Err(errno))
        }
        Err(_) => None,
    }
}

/// A path to `name` in the directory behind the descriptor `directory`.
pub fn through_proc(directory: i32, name: &[u8]) -> CString {
    let mut path = match directory {
        AT_FDCWD => Vec::new(),
        _ => format!("{}{directory}/", own_descriptors::directory()).into_bytes(),
    };
    path.extend_from_slice(if name.is_empty() { b"." } else { name });
    c_string(path)
}

/// Makes descriptor `fd`, which the kernel opened on the empty directory under `mount`, one of its
/// tree's root.
pub fn take_over(
    process: &Process,
    fd: i32,
    mount: MountId,
    backing: Backing,
) -> Result<(), Errno> {
    const KEPT: u64 = 0o10204003; // O_ACCMODE, O_NONBLOCK, O_DIRECTORY, O_PATH
    let flags = u64::from(kernel_flags(fd)?);
    let opened = open_restricted(backing.root, Path::of(c"."), flags & KEPT, 0, 0)?;
    // The program's descriptor becomes the one just made, at the same number.
    culvert_sys::fd::replace(&opened, fd, on_exec(fd)?)?;
    process.table.note_directory(fd, mount);
    Ok(())
}

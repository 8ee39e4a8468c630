//! The first question about every path: can it have to do with a mount at all?

use super::scan::{Tracker, climbs, needs_care, rest_below, stays_below_first};
use super::{MountTable, Place};
use crate::table::is_below;

/// What text alone says about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quick {
    /// It enters no mount, unless a link outside leads there: the kernel gets the call. When it
    /// answers `ENOENT` or `ENOTDIR`, [`MountTable::after_miss`] has the last word.
    Untouched,
    /// [`MountTable::walk`] must tell.
    Walk,
    /// The base directory must be known to tell; find it and ask again. Only when none was given.
    AskBase,
}

impl MountTable {
    /// Sorts out paths that have nothing to do with mounts. `base` is the directory that a relative
    /// path starts from; None for a directory of the host whose path nobody has asked for yet
    /// (directories in mounts are always known). Allocates nothing, calls nobody.
    ///
    /// Under `RESOLVE_IN_ROOT` a leading slash means something else, and under `RESOLVE_NO_XDEV` a
    /// path may not even pass through a target that it leaves by `..` again: call
    /// [`MountTable::walk`] at once.
    pub fn quick(&self, base: Option<&Place>, path: &[u8]) -> Quick {
        let walk = match (path.first(), base) {
            (None, _) => false, // ENOENT, or AT_EMPTY_PATH: no path at all
            (Some(b'/'), _) => self.absolute_enters(path) || may_be_magic(path),
            (_, Some(Place::Mount { .. })) => true,
            (_, Some(Place::Host(base))) => self.relative_enters(base, path),
            (_, None) => {
                return if self.suffix_enters(path) {
                    Quick::AskBase
                } else {
                    Quick::Untouched
                };
            }
        };
        if walk { Quick::Walk } else { Quick::Untouched }
    }

    fn absolute_enters(&self, path: &[u8]) -> bool {
        if self.targets().any(|target| is_below(path, target)) {
            return true;
        }
        needs_care(path) && self.enters_with_care(path)
    }

    /// The same for a path with dots or double slashes.
    #[cold]
    fn enters_with_care(&self, path: &[u8]) -> bool {
        let first = path.get(1).copied();
        let elsewhere = !matches!(first, Some(b'/' | b'.'))
            && self.targets().all(|t| t.get(1).copied() != first);
        !(elsewhere && stays_below_first(path))
            && self.targets().any(|t| Tracker::at(t, 0).enters(path))
    }

    fn relative_enters(&self, base: &[u8], path: &[u8]) -> bool {
        if base.starts_with(b"/proc") || base.starts_with(b"/dev") {
            return true;
        }
        let care = needs_care(path);
        self.targets().any(|target| {
            // A base at or under a target is a covered directory: the walk turns it into the
            // mount's own.
            if is_below(base, target) {
                return true;
            }
            if care {
                let mut tracker = Tracker::at(target, 0);
                return tracker.enters(base) || tracker.enters(path);
            }
            let left = if base == b"/" {
                target.strip_prefix(b"/")
            } else {
                rest_below(target, base)
            };
            left.is_some_and(|left| is_below(path, left))
        })
    }

    /// Whether there is a directory from which `path` enters a mount.
    fn suffix_enters(&self, path: &[u8]) -> bool {
        let care = needs_care(path);
        self.root().is_some()
            || (care && climbs(path))
            || self.targets().any(|target| {
                let mut starts = (0..target.len()).filter(|&i| target[i] == b'/');
                starts.any(|start| match care {
                    true => Tracker::at(target, start).enters(path),
                    false => is_below(path, &target[start + 1..]),
                })
            })
    }
}

/// Whether the path may be one of the links of proc(5) that lead to the process's own files.
fn may_be_magic(path: &[u8]) -> bool {
    if let Some(rest) = path.strip_prefix(b"/proc/") {
        let mut names = rest
            .split(|&b| b == b'/')
            .skip(1)
            .filter(|n| !n.is_empty() && *n != b".");
        let mut name = names.next();
        if name == Some(b"task") {
            name = names.nth(1);
        }
        return matches!(name, Some(b"fd" | b"cwd" | b"root" | b"exe"));
    }
    path.strip_prefix(b"/dev/")
        .is_some_and(|rest| rest.starts_with(b"fd") || rest.starts_with(b"std"))
}

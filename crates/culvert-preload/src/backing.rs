//! Mounts that are trees of the kernel's own ([`culvert::FileSystem::backing`]): where a directory
//! of the kernel's lies in one.
//!
//! Files and directories of such a mount are open by the kernel's own descriptors, and the kernel's
//! working directory is the real one. Nothing about them is kept here but *that* they belong to the
//! mount; where they lie now, whoever has renamed what, the kernel says by its link in proc(5).

use alloc::vec::Vec;
use culvert::{Backing, Errno};
use culvert_mounts::MountId;
use culvert_run::{descriptor_path, stat_descriptor};

/// The backing tree of `mount`, whose driver is opened if need be.
pub fn of(mount: MountId) -> Option<Backing> {
    culvert_run::get().mounts.backing(mount).ok().flatten()
}

/// What is left of the kernel's path `path` below `root`, without leading slash; none when it is
/// not below.
fn rest_below<'p>(path: &'p [u8], root: &[u8]) -> Option<&'p [u8]> {
    let rest = path.strip_prefix(root.strip_suffix(b"/").unwrap_or(root))?;
    match rest {
        [] => Some(rest),
        [b'/', below @ ..] => Some(below),
        _ => None,
    }
}

/// The path at which a program sees what the kernel calls `path`: none when that lies outside the
/// tree of `mount`.
pub fn seen(mount: MountId, path: &[u8]) -> Option<Vec<u8>> {
    let root = descriptor_path(of(mount)?.root).ok()?;
    let rest = rest_below(path, &root)?;
    let mut seen = culvert_run::get().mounts.target(mount).to_vec();
    if !rest.is_empty() {
        seen.push(b'/');
        seen.extend_from_slice(rest);
    }
    Some(seen)
}

/// The path at which directory `fd` of `mount` is seen: `ENOENT` when it was moved out of the tree.
pub fn directory(mount: MountId, fd: i32) -> Result<Vec<u8>, Errno> {
    seen(mount, &descriptor_path(fd)?).ok_or(Errno::ENOENT)
}

/// The mount that a directory with the kernel's path `path` belongs to, for one that nobody told us
/// of: inherited through a program that was not intercepted, or received. A directory below a
/// mount's source is taken for the mount's; where the source is bound over the target, one below
/// that is.
pub fn mount_above(path: &[u8]) -> Option<MountId> {
    let run = culvert_run::get();
    let mut best: Option<(MountId, usize)> = None;
    for (mount, specification) in run.mounts.ids().zip(&run.specifications) {
        let bound = culvert_drivers::binding::is_bound(specification);
        let root = match bound {
            true => &specification.target,
            false => &specification.source,
        };
        let covered = || {
            run.specifications.iter().any(|other| {
                rest_below(&other.target, root).is_some_and(|rest| !rest.is_empty())
                    && rest_below(path, &other.target).is_some()
            })
        };
        if rest_below(path, root).is_some()
            && best.is_none_or(|(_, longest)| longest < root.len())
            // What the kernel has at another mount's target within is not the tree's.
            && !(bound && covered())
            && of(mount).is_some()
        {
            best = Some((mount, root.len()));
        }
    }
    best.map(|(mount, _)| mount)
}

/// The mount that the inherited working directory belongs to, whose path the kernel says is `path`.
pub fn inherited_working_directory(path: &[u8]) -> Option<MountId> {
    mount_above(path)
}

/// What tells one directory from another: `(st_dev, st_ino)`.
pub fn identity(fd: i32) -> Result<(u64, u64), Errno> {
    stat_descriptor(fd).map(|found| (found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use super::rest_below;

    #[test]
    fn paths_below_a_root() {
        for (path, root, rest) in [
            ("/src", "/src", Some("")),
            ("/src/a/b", "/src", Some("a/b")),
            ("/srcs/a", "/src", None),
            ("/a", "/", Some("a")),
            ("/", "/", Some("")),
            ("pipe:[1]", "/", None),
        ] {
            let found = rest_below(path.as_bytes(), root.as_bytes());
            assert_eq!(found, rest.map(str::as_bytes), "{path} below {root}");
        }
    }
}

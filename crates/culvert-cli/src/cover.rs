//! `--private`: in a mount namespace of the run's own, what is not intercepted finds at a target
//! either the very tree that is served, where that is a directory of the kernel's as it is, or a
//! read-only nothing instead of an empty directory that it could fill.

use crate::failure::{Failure, path, reason, shown};
use culvert::mount::Mount;
use culvert_drivers::binding;
use culvert_sys::{
    BorrowedFd, flags::AtFlags, fs::mount_setattr, process::unshare, raw::general as linux,
};
use rustix::{
    fs::CWD,
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
        move_mount, open_tree,
    },
};
use std::{
    fs, io,
    os::fd::{AsRawFd, OwnedFd},
    path::Path,
};

/// Covers the targets of `mounts` that exist, and notes in a mount that its source is bound there.
/// Where the kernel refuses, fails only when the user has `asked`.
pub fn cover(mounts: &mut [Mount], asked: bool) -> Result<(), Failure> {
    let root = rustix::process::geteuid().is_root();
    if !(asked || root) || !mounts.iter().any(|mount| path(&mount.target).is_dir()) {
        return Ok(());
    }
    match enter(root).and_then(|()| cover_all(mounts, asked)) {
        Err(why) if asked => Err(Failure::new(format!("--private: {why}")).advice(
            "without --private the run works too; what is not intercepted then meets an \
                empty directory",
        )),
        // As root it was only our idea.
        _ => Ok(()),
    }
}

/// Covers the targets from the outermost one on: those inside may come to exist on the way.
fn cover_all(mounts: &mut [Mount], asked: bool) -> Result<(), String> {
    // Before the first target changes: what is bound is the source as it was outside, whatever lies
    // in it.
    let sources: Vec<_> = mounts.iter().map(source).collect();
    let mut order: Vec<_> = (0..mounts.len()).collect();
    order.sort_by_key(|&index| mounts[index].target.len());
    for index in order {
        let mount = &mut mounts[index];
        if !path(&mount.target).is_dir() {
            continue;
        }
        match &sources[index] {
            Some(Ok(tree)) => {
                attach(tree, path(&mount.target))?;
                binding::set_bound(mount);
            }
            Some(Err(why)) if asked => return Err(why.clone()),
            _ => hide(path(&mount.target))?,
        }
    }
    Ok(())
}

/// The tree that is to be bound over the target of `mount`, if it is one.
fn source(mount: &Mount) -> Option<Result<OwnedFd, String>> {
    if !binding::may_be_bound(mount) {
        return None;
    }
    let tree = copy_of_tree(path(&mount.source)).and_then(|tree| {
        if mount.read_only() {
            forbid_writing(&tree)?;
        }
        Ok(tree)
    });
    let place = path(&mount.source);
    Some(tree.map_err(|error| format!("cannot bind {}: {}", shown(place), reason(&error))))
}

/// The mounts at and below the directory `place`, once more and nowhere yet.
fn copy_of_tree(place: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, place, flags)?)
}

/// Makes all mounts of `tree` read-only (mount_setattr(2)).
fn forbid_writing(tree: &OwnedFd) -> io::Result<()> {
    let attributes = linux::mount_attr {
        attr_set: u64::from(linux::MOUNT_ATTR_RDONLY),
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    let (tree, all) = (
        BorrowedFd::number(tree.as_raw_fd()),
        AtFlags::EMPTY_PATH | AtFlags::RECURSIVE,
    );
    mount_setattr(tree, c"", all, &attributes)
        .map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
}

fn attach(tree: &OwnedFd, target: &Path) -> Result<(), String> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(tree, c"", CWD, target, flags).map_err(|error| {
        format!(
            "cannot bind over {}: {}",
            shown(target),
            reason(&error.into())
        )
    })
}

fn hide(target: &Path) -> Result<(), String> {
    mount(
        "culvert",
        target,
        "tmpfs",
        MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID,
        c"size=4k,nr_inodes=2,mode=0555",
    )
    .map_err(|error| format!("cannot cover {}: {}", shown(target), reason(&error.into())))
}

/// Enters a mount namespace of our own: with a user namespace where we are not root, in which we
/// stay who we are.
fn enter(root: bool) -> Result<(), String> {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let flags = if root {
        linux::CLONE_NEWNS
    } else {
        linux::CLONE_NEWNS | linux::CLONE_NEWUSER
    };
    unshare(flags).map_err(|error| {
        let what = if root {
            "mount namespaces"
        } else {
            "user namespaces"
        };
        format!("the system refuses {what}: {}", error.text())
    })?;
    if !root {
        let write = |file: &str, text: String| {
            fs::write(file, text)
                .map_err(|error: io::Error| format!("cannot write {file}: {}", reason(&error)))
        };
        write("/proc/self/setgroups", "deny".into())?;
        write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        write("/proc/self/gid_map", format!("{gid} {gid} 1"))?;
    }
    // What we cover must not spread to the rest of the machine; what it mounts may still reach us.
    mount_change(
        "/",
        MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC,
    )
    .map_err(|error| format!("cannot separate the mounts: {}", reason(&error.into())))
}

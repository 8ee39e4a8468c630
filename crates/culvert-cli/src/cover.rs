//! `--private`: targets are covered in a mount namespace of the run's own, so that what is not intercepted finds a read-only nothing there
//! instead of an empty directory that it could fill.

use crate::failure::{Failure, path, reason, shown};
use culvert::mount::Mount;
use rustix::{
    mount::{MountFlags, MountPropagationFlags, mount, mount_change},
    thread::{UnshareFlags, unshare_unsafe},
};
use std::{fs, io};

/// Covers the targets of `mounts` that exist. Where the kernel refuses, fails only when the user has `asked`.
pub fn cover(mounts: &[Mount], asked: bool) -> Result<(), Failure> {
    let uid = rustix::process::geteuid();
    let root = uid.is_root();
    let targets: Vec<_> = mounts
        .iter()
        .map(|mount| path(&mount.target))
        .filter(|target| target.is_dir())
        .collect();
    if targets.is_empty() || !(asked || root) {
        return Ok(());
    }
    let outcome = enter(root).and_then(|()| {
        for target in targets {
            mount(
                "culvert",
                target,
                "tmpfs",
                MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID,
                c"size=4k,nr_inodes=2,mode=0555",
            )
            .map_err(|error| {
                format!("cannot cover {}: {}", shown(target), reason(&error.into()))
            })?;
        }
        Ok(())
    });
    match outcome {
        Err(why) if asked => Err(Failure::new(format!("--private: {why}"))
            .advice("without --private the run works too; what is not intercepted then meets an empty directory")),
        // As root it was only our idea.
        _ => Ok(()),
    }
}

/// Enters a mount namespace of our own: with a user namespace where we are not root, in which we stay who we are.
fn enter(root: bool) -> Result<(), String> {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let flags = if root {
        UnshareFlags::NEWNS
    } else {
        UnshareFlags::NEWNS | UnshareFlags::NEWUSER
    };
    // SAFETY: no descriptor table is unshared, and this process has one thread.
    unsafe { unshare_unsafe(flags) }.map_err(|error| {
        let what = if root {
            "mount namespaces"
        } else {
            "user namespaces"
        };
        format!("the system refuses {what}: {}", reason(&error.into()))
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

//! The kernel's own file system, as the resolver looks at it.

use super::backed::native_place;
use super::native::{AT_SYMLINK_NOFOLLOW, open_restricted, stat_at};
use crate::process::{self, Here, Process};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use culvert::{Errno, FileKind};
use culvert_mounts::resolver::{
    Host, HostFile, HostKind, Inside, LastStep, Magic, Resolved, Restrictions,
};
use culvert_mounts::{Hold, Place};
use culvert_run::{files::c_string, memory::Path};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::{BorrowedFd, fs};

/// The place of a working directory, for a walk.
pub fn place_of_here(here: Here) -> Result<Place, Errno> {
    match here {
        Here::Place(place) => Ok(place),
        Here::Backed(mount) => {
            let path = culvert_run::read_link(c"/proc/self/cwd")?;
            crate::backing::seen(mount, &path)
                .map(Place::Host)
                .ok_or(Errno::ENOENT)
        }
    }
}

/// The real file system, for the resolver.
pub struct Kernel;

impl Host for Kernel {
    fn lstat(&self, path: &[u8]) -> Result<HostFile, Errno> {
        let (directory, path) = native_place(process::get(), path);
        let found = stat_at(directory, Path::of(&path), AT_SYMLINK_NOFOLLOW)?;
        let kind = match FileKind::of_mode(found.st_mode) {
            Some(FileKind::Directory) => HostKind::Directory,
            Some(FileKind::Symlink) => HostKind::Symlink,
            _ => HostKind::Other,
        };
        Ok(HostFile {
            kind,
            dev: found.st_dev,
            ino: found.st_ino,
        })
    }

    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let (directory, path) = native_place(process::get(), path);
        fs::read_link(BorrowedFd::number(directory), &path)
    }

    fn magic(&self, path: &[u8]) -> Magic {
        let mut parts = path
            .split(|&b| b == b'/')
            .filter(|part| !part.is_empty())
            .skip(1);
        let number = |part: Option<&[u8]>| core::str::from_utf8(part?).ok()?.parse::<i32>().ok();
        let me = culvert_sys::process::getpid() as i32;
        if number(parts.next()) != Some(me) {
            return Magic::No;
        }
        let mut what = parts.next();
        if what == Some(b"task") {
            parts.next();
            what = parts.next();
        }
        match what {
            Some(b"cwd") => match process::get().with_working_directory(|here| here.cloned()) {
                Some(Here::Place(place @ Place::Mount { .. })) => Magic::Directory(place),
                Some(here @ Here::Backed(_)) => match place_of_here(here) {
                    Ok(place) => Magic::Directory(place),
                    Err(_) => Magic::Kernel,
                },
                _ => Magic::No,
            },
            Some(b"exe") => own_executable(process::get()).unwrap_or(Magic::No),
            Some(b"fd") => {
                match number(parts.next()).map(|fd| (fd, process::get().table.get(fd))) {
                    Some((_, Some(held))) if held.kind == FileKind::Directory => {
                        Magic::Directory(Place::Mount {
                            mount: held.mount,
                            node: held.node,
                        })
                    }
                    Some((_, Some(held))) if held.orphan().is_some() => match held.attributes() {
                        Ok(attributes) => Magic::Gone {
                            mount: held.mount,
                            attributes: Box::new(attributes),
                        },
                        Err(_) => Magic::Kernel,
                    },
                    Some((_, Some(held))) => Magic::File {
                        mount: held.mount,
                        node: held.node,
                        // Where the kernel is asked what descriptors are, a description lives for
                        // one look (descriptors/kernel_queried.rs).
                        hold: culvert_run::task::tables::are_asked_for()
                            .then(|| {
                                Hold::of(process::get().mounts, held.mount, held.node).map(Arc::new)
                            })
                            .flatten(),
                    },
                    Some((fd, None)) => match process::get().table.backed(fd) {
                        // Removed: no path leads there.
                        Some(_)
                            if culvert_run::stat_descriptor(fd)
                                .is_ok_and(|it| it.st_nlink == 0) =>
                        {
                            Magic::Kernel
                        }
                        Some(mount) => crate::backing::directory(mount, fd)
                            .map_or(Magic::Kernel, |path| Magic::Directory(Place::Host(path))),
                        None => Magic::Kernel,
                    },
                    None => Magic::Kernel,
                }
            }
            _ => Magic::No,
        }
    }

    fn link_free(&self, path: &[u8]) -> bool {
        const RESOLVE_NO_SYMLINKS: u64 = 4;
        const O_PATH: u64 = 0o10000000;
        if culvert_run::task::is_confined() {
            // Asked step by step, by calls that a filter lets through where it lets the program's
            // own.
            return false;
        }
        match open_restricted(
            AT_FDCWD,
            Path::of(&c_string(path)),
            O_PATH,
            0,
            RESOLVE_NO_SYMLINKS,
        ) {
            Ok(_) => true,
            Err(error) => matches!(error, Errno::ENOENT | Errno::ENOTDIR),
        }
    }
}

/// `/proc/self/exe` of a program that was started from a mount.
fn own_executable(process: &Process) -> Option<Magic> {
    let path = culvert_run::read_link(c"/proc/self/exe").ok()?;
    let original = super::own_file::origin(process, &path)?;
    match process.mounts.walk(
        &Kernel,
        &culvert_run::task::caller(),
        &Place::Host(b"/".to_vec()),
        original,
        LastStep::Follow,
        Restrictions(0),
    ) {
        Ok(Resolved::Inside(Inside {
            mount,
            entry: Some(entry),
            ..
        })) => Some(Magic::File {
            mount,
            node: entry.attributes.node,
            // The references of this walk end here.
            hold: Hold::of(process.mounts, mount, entry.attributes.node).map(Arc::new),
        }),
        _ => None,
    }
}

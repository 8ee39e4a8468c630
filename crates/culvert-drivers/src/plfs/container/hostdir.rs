//! Where a process's droppings go: by the hash of its host's name, on a shadow back end by a
//! metalink.

use super::{Container, State};
use crate::OwnedFd;
use crate::passthrough::attributes::{Target, change};
use crate::plfs::layout::{self, HOSTDIR};
use crate::plfs::{host, locks};
use alloc::vec::Vec;
use culvert::{Errno, Result, SetAttributes};
use culvert_sys::fd::AsFd;
use culvert_sys::raw::general::{self as linux, statx};

const PLACE: u32 = linux::O_PATH | linux::O_DIRECTORY;

fn name(id: u64) -> Vec<u8> {
    [HOSTDIR, &host::decimal(id)].concat()
}

/// The subdirectory for droppings of this host, made if there is none; its number.
pub fn for_writing(container: &Container, state: &mut State) -> Result<usize> {
    let setup = &container.setup;
    let hash = layout::hash(&setup.host);
    let shadow = setup.shadow[(hash % setup.shadow.len() as u64) as usize];
    let access = host::status(container.dir.fd(), layout::ACCESS)?;
    if setup.backends.len() > 1 {
        // Another process may have renamed it to another back end.
        container.path()?;
    }
    let ids = |at: u64| (hash % setup.hostdirs + at) % setup.hostdirs;
    match shadow == container.canonical() {
        true => here(container, state, &access, (0..setup.hostdirs).map(ids)),
        false => there(
            container,
            state,
            (shadow, &access),
            (0..setup.hostdirs).map(ids),
        ),
    }
}

/// Opens directory `name` in `dir`, made if there is none: for all who may write the file of
/// `access`.
fn made(dir: impl AsFd, name: &[u8], access: &statx) -> Result<OwnedFd> {
    let mode = u32::from(access.stx_mode);
    let around = layout::directory_mode(mode);
    let new = host::make_directory(&dir, name, around)?;
    let opened = host::open(&dir, name, PLACE, 0)?;
    if new && mode & 0o022 == 0 {
        host::for_owner(&opened, 0o700)?;
    } else if new {
        // Whatever the umask is; who may not give it to the group keeps it.
        let _ = locks::belongs(&opened, access);
        let changes = SetAttributes {
            permissions: Some(around),
            ..SetAttributes::default()
        };
        change(Target::Place(opened.borrow()), &changes)?;
    }
    Ok(opened)
}

/// A directory in the canonical container: the first of `ids` that is one, or is free. Where
/// metalinks have all numbers, what one of them leads to.
fn here(
    container: &Container,
    state: &mut State,
    access: &statx,
    ids: impl Iterator<Item = u64>,
) -> Result<usize> {
    for id in ids {
        let name = name(id);
        if let Some(known) = state.subdirs.iter().position(|one| one.name == name) {
            if host::is_directory(&host::status(container.dir.fd(), &name)?) {
                return Ok(known);
            }
            continue;
        }
        match made(container.dir.fd(), &name, access) {
            Ok(opened) => return Ok(container.keep_subdir(state, &name, opened)),
            Err(error) if error.errno() == Errno::EEXIST => {}
            Err(error) => return Err(error),
        }
    }
    match state.subdirs.is_empty() {
        true => Err(Errno::ENOSPC.into()),
        false => Ok(0),
    }
}

/// A directory on back end `shadow` that a metalink in the canonical container leads to.
fn there(
    container: &Container,
    state: &mut State,
    (shadow, access): (usize, &statx),
    ids: impl Iterator<Item = u64> + Clone,
) -> Result<usize> {
    let setup = &container.setup;
    let own = &setup.backends[container.canonical()].path;
    let target = &setup.backends[shadow].path;
    let text = [&host::decimal(own.len() as u64)[..], target].concat();
    for id in ids.clone() {
        let name = name(id);
        let path = [&container.path()?[..], b"/", &name].concat();
        let is_ours =
            || host::read_link(container.dir.fd(), &name).is_ok_and(|found| found == text);
        // A directory that no metalink leads to is the rest of a file that had this name, where a
        // process was killed that removed or renamed it. It must not become a part of this one. The
        // metalink comes before the directory: so it is looked for behind it.
        let is_there = || host::place(setup.root(shadow), &path).is_ok();
        let linked = is_ours()
            || match is_there() {
                true => is_ours(),
                false => match host::symlink(&text, container.dir.fd(), &name) {
                    Ok(()) => true,
                    // Another process of this back end's was first.
                    Err(error) if error.errno() == Errno::EEXIST => is_ours(),
                    Err(error) => return Err(error),
                },
            };
        if linked {
            let opened = make_path(container, shadow, &path, access)?;
            return Ok(container.keep_subdir(state, &name, opened));
        }
    }
    here(container, state, access, ids)
}

/// Opens directory `path` on back end `at`, made with all above it where it is missing.
fn make_path(container: &Container, at: usize, path: &[u8], access: &statx) -> Result<OwnedFd> {
    let root = container.setup.root(at);
    let mut dir = host::place(root, b"")?;
    let parts: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    // The container and what is in it are the file's; what lies above is not.
    let above = parts.len().saturating_sub(2);
    for (at, part) in parts.into_iter().enumerate() {
        dir = match at < above {
            true => {
                host::make_directory(&dir, part, 0o755)?;
                host::open(&dir, part, PLACE, 0)?
            }
            false => made(&dir, part, access)?,
        };
    }
    Ok(dir)
}

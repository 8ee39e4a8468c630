//! Where a process's droppings go: by the hash of its host's name, on a shadow back end by a
//! metalink.

use super::{Container, State};
use crate::plfs::host;
use crate::plfs::layout::{self, HOSTDIR};
use alloc::vec::Vec;
use culvert::{Errno, Result};
use culvert_sys::raw::general as linux;

const PLACE: u32 = linux::O_PATH | linux::O_DIRECTORY;

fn name(id: u64) -> Vec<u8> {
    [HOSTDIR, &host::decimal(id)].concat()
}

/// The subdirectory for droppings of this host, made if there is none; its number.
pub fn for_writing(container: &Container, state: &mut State) -> Result<usize> {
    let setup = &container.setup;
    let hash = layout::hash(&setup.host);
    let shadow = setup.shadow[(hash % setup.shadow.len() as u64) as usize];
    let mode = mode(container)?;
    let ids = |at: u64| (hash % setup.hostdirs + at) % setup.hostdirs;
    match shadow == container.canonical() {
        true => here(container, state, mode, (0..setup.hostdirs).map(ids)),
        false => there(container, state, shadow, mode, (0..setup.hostdirs).map(ids)),
    }
}

fn mode(container: &Container) -> Result<u32> {
    let status = host::status(container.dir.fd(), layout::ACCESS)?;
    Ok(layout::directory_mode(u32::from(status.stx_mode)))
}

/// A directory in the canonical container: the first of `ids` that is one, or is free. Where
/// metalinks have all numbers, what one of them leads to.
fn here(
    container: &Container,
    state: &mut State,
    mode: u32,
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
        match host::make_directory(container.dir.fd(), &name, mode) {
            Ok(_) => {
                let opened = host::open(container.dir.fd(), &name, PLACE, 0)?;
                return Ok(container.keep_subdir(state, &name, opened));
            }
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
    shadow: usize,
    mode: u32,
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
            let opened = make_path(container, shadow, &path, mode)?;
            return Ok(container.keep_subdir(state, &name, opened));
        }
    }
    here(container, state, mode, ids)
}

/// Opens directory `path` on back end `at`, made with all above it where it is missing.
fn make_path(container: &Container, at: usize, path: &[u8], mode: u32) -> Result<crate::OwnedFd> {
    let root = container.setup.root(at);
    let mut dir = host::place(root, b"")?;
    for part in path.split(|&byte| byte == b'/') {
        host::make_directory(&dir, part, mode)?;
        dir = host::open(&dir, part, PLACE, 0)?;
    }
    Ok(dir)
}

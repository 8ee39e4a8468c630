//! The environment of the next program: the program's own entries, and those that carry a run.

use super::{Extras, Image, Loader, Why, tunables};
use crate::descriptors::handed::HandedDown;
use crate::descriptors::saved;
use crate::process::Process;
use alloc::vec;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_intercept::images::Said;
use culvert_intercept::user::{self, StringError};
use culvert_mounts::MountId;
use culvert_run::{INHERITED, LOCKS, OUTSIDE, ROOT, SHARED_DIRECTORY};
use culvert_run::{files::c_string, library_copy, memory};
use culvert_sys::OwnedFd;

const TUNABLES: &[u8] = b"GLIBC_TUNABLES=";

/// As many entries as we add mostly, and the NULL.
const ROOM: usize = 4;

/// The environment's entries that carry a run, for the next program; the list of libraries is the
/// first.
fn carriers(
    process: &Process,
    loader: Loader,
    others: &[Vec<u8>; 2],
    nested: Option<Vec<u8>>,
    handed: &HandedDown,
    saved: Option<&OwnedFd>,
    extras: &Extras,
) -> Vec<Vec<u8>> {
    let mut entries = Vec::new();
    match loader {
        // ld.so would complain, and go on.
        Loader::None(Why::NoLibrary) => {}
        Loader::Preload => {
            let separator: &[u8] = if others[1].is_empty() { b"" } else { b":" };
            entries.push([b"LD_PRELOAD=", &process.library[..], separator, &others[1]].concat());
        }
        _ => entries = library_copy::entries(&process.library, extras.copy, &others[0]),
    }
    entries.push(nested.unwrap_or_else(|| carrier(process, handed, saved, extras.said)));
    entries
}

/// `CULVERT_RUN=` and what `start/carried.rs` reads.
fn carrier(
    process: &Process,
    handed: &HandedDown,
    saved: Option<&OwnedFd>,
    said: Option<Said>,
) -> Vec<u8> {
    let mut entry = culvert_run::VARIABLE.to_vec();
    entry.push(b'=');
    entry.extend_from_slice(&process.run.path);
    let lock = process
        .run
        .lock_descriptor
        .load(core::sync::atomic::Ordering::Relaxed);
    let now = |flag, is_set| if is_set { flag } else { 0 };
    let entered = now(ROOT, process.mounts.root().is_some());
    let flags = process.flags & !(OUTSIDE | LOCKS | INHERITED | SHARED_DIRECTORY | entered)
        | now(OUTSIDE, process.is_outside())
        | now(INHERITED, handed.inherits)
        | now(SHARED_DIRECTORY, process.shares_working_directory())
        | now(LOCKS, process.run.posix_locks.go_over_exec());
    entry.extend_from_slice(alloc::format!(":{lock}").as_bytes());
    for (mount, descriptor) in &handed.nodes {
        entry.extend_from_slice(alloc::format!(",{}.{mount}", descriptor.raw()).as_bytes());
    }
    if let Some(descriptor) = saved {
        entry.extend_from_slice(alloc::format!(",s{}", descriptor.raw()).as_bytes());
    }
    for (name, descriptor) in process.table.lock_files_over_exec() {
        let (mount, node) = (name.mount.0, name.node.0);
        entry.extend_from_slice(alloc::format!(",l{descriptor}.{mount}.{node:x}").as_bytes());
    }
    if let Some(said) = said {
        let (nothing, interpreter) = (said.nothing, said.interpreter);
        entry.extend_from_slice(alloc::format!(",p{nothing:x}.{interpreter:x}").as_bytes());
    }
    if let Some(MountId(mount)) = process.mounts.root() {
        entry.extend_from_slice(alloc::format!(",r{mount}").as_bytes());
    }
    entry.extend_from_slice(alloc::format!(":{flags}").as_bytes());
    if let Some(path) = culvert_sys::log::path() {
        entry.push(b':');
        entry.extend_from_slice(path);
    }
    entry.push(0);
    entry
}

/// Gives `image` the entries at the program's addresses `own`, and behind them those that carry the
/// run for a program of `loader`, with `extras`.
pub fn extend(
    process: &Process,
    image: &mut Image,
    own: Vec<usize>,
    loader: Loader,
    extras: &Extras,
) -> Result<(), Errno> {
    let mut others = [Vec::new(), Vec::new()];
    let mut tunables = None;
    let mut nested = None;
    let privileged = matches!(loader, Loader::None(why) if why.is_privileged());
    // Where the program's own list of libraries stood.
    let mut place = None;
    image.environment.reserve(own.len() + ROOM);
    for pointer in own {
        // Most are neither of these.
        if !matches!(memory::get::<u8>(pointer)?, b'C' | b'G' | b'L') {
            image.environment.push(pointer);
            continue;
        }
        if starts_with(pointer, b"CULVERT_RUN=")? {
            // Ours is hidden from the program: this one was put there, by `culvert run` inside a
            // run, or by somebody who would like to say what a program with other rights sees.
            if privileged {
                continue;
            }
            let mut value = string(pointer)?;
            value.push(0);
            nested = Some(value);
            continue;
        }
        // What says where the library is, in the environment that this process itself was given.
        let named = starts_with(pointer, library_copy::LIBRARY)?;
        if named && memory::get::<u8>(pointer + library_copy::LIBRARY.len())? == b'=' {
            continue;
        }
        let taken = match loader {
            Loader::Glibc if starts_with(pointer, b"LD_AUDIT=")? => Some((&mut others[0], 9)),
            Loader::Preload if starts_with(pointer, b"LD_PRELOAD=")? => Some((&mut others[1], 11)),
            Loader::Glibc if extras.room.is_some() && starts_with(pointer, TUNABLES)? => {
                Some((tunables.insert(Vec::new()), TUNABLES.len()))
            }
            _ => None,
        };
        match taken {
            Some((value, skip)) => {
                *value = string(pointer + skip)?;
                place = (skip != TUNABLES.len())
                    .then_some(image.environment.len())
                    .or(place);
            }
            None => image.environment.push(pointer),
        }
    }
    image.nested = nested.is_some();
    // A program that is not intercepted would keep them.
    if nested.is_none() && !matches!(loader, Loader::None(_)) {
        image.handed = HandedDown::of_process();
        image.saved = saved::hand_down();
    }
    let mut entries = match privileged {
        true => Vec::new(),
        false => carriers(
            process,
            loader,
            &others,
            nested,
            &image.handed,
            image.saved.as_ref(),
            extras,
        ),
    };
    entries.extend(
        extras
            .room
            .map(|room| tunables::entry(tunables.as_deref(), room)),
    );
    entries.extend(extras.own.entries());
    // Ours come last: start-up hides them by ending the array earlier. The list that has the
    // program's own libraries behind ours stays where it was.
    for entry in entries.into_iter().map(c_string) {
        match place.take() {
            Some(place) => image.environment.insert(place, entry.as_ptr() as usize),
            None => image.environment.push(entry.as_ptr() as usize),
        }
        image.strings.push(entry);
    }
    Ok(())
}

/// The string at the program's `address`, without its NUL (E2BIG beyond what the kernel takes,
/// MAX_ARG_STRLEN).
fn string(address: usize) -> Result<Vec<u8>, Errno> {
    const LONGEST: usize = 32 * 4096;
    let mut value = vec![0u8; 4096];
    loop {
        match user::string_in(address, &mut value) {
            Ok(length) => {
                value.truncate(length);
                return Ok(value);
            }
            Err(_) if value.len() < LONGEST => value.resize(LONGEST, 0),
            Err(_) => return Err(Errno::E2BIG),
        }
    }
}

/// The pointers of a NULL-terminated array in the program's memory (E2BIG beyond a million).
pub fn pointers(address: usize) -> Result<Vec<usize>, Errno> {
    /// As many as most have.
    const FEW: usize = 32;
    if address == 0 {
        return Ok(Vec::new());
    }
    let mut list = Vec::with_capacity(FEW);
    loop {
        let pointer: usize = memory::get(address + list.len() * 8)?;
        if pointer == 0 {
            return Ok(list);
        }
        if list.len() >= 1 << 20 {
            return Err(Errno::E2BIG);
        }
        list.push(pointer);
    }
}

/// Whether all strings of the lists can be read, and none is longer than the kernel takes
/// (`MAX_ARG_STRLEN`, include/uapi/linux/binfmts.h).
pub fn strings(lists: &[usize]) -> Result<(), Errno> {
    const LONGEST: usize = 32 * 4096;
    let mut room = vec![0u8; LONGEST];
    for list in lists {
        for pointer in pointers(*list)? {
            user::string_in(pointer, &mut room).map_err(|error| match error {
                StringError::Fault => Errno::EFAULT,
                StringError::TooLong => Errno::E2BIG,
            })?;
        }
    }
    Ok(())
}

fn starts_with(address: usize, prefix: &[u8]) -> Result<bool, Errno> {
    for (i, wanted) in prefix.iter().enumerate() {
        let byte: u8 = memory::get(address + i)?;
        if byte != *wanted {
            return Ok(false);
        }
    }
    Ok(true)
}

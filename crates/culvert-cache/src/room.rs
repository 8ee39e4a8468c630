//! How many bytes of files may lie in the shadows of a run, and who gives them back.
//!
//! What is filled is added up in memory that the processes of the run share; only when the sum
//! passes the bound are the blocks of all shadows counted. Then shadows go that nobody has open or
//! mapped: the next one who needs such a file fills it anew. Of mapped ones the pager drops pages
//! (`culvert-cli`, `pager/room.rs`), where it would be asked for them again: what was stored in
//! them is in the file before.

use super::baseline;
use super::records;
use super::state::{self, State};
use crate::shadow::{self, OwnedFd};
use core::sync::atomic::{AtomicU64, Ordering::*};
use culvert::Errno;
use culvert_run::{self as run, holders};
use culvert_run::{ShadowName, list, stat_descriptor, stat_path};
use culvert_sys::fs;
use culvert_sys::process::sysinfo;
use culvert_sys::raw::general::{O_DIRECTORY, stat};

/// The file of the run directory that holds the bound, in bytes, as decimal digits; without it
/// three quarters of what the file system or the machine has (`usual`).
pub const FILE: &str = "room";

/// The bound of this run, in bytes; 0: not known yet.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// The bound of this run, in bytes.
pub fn limit() -> u64 {
    let known = LIMIT.load(Relaxed);
    if known != 0 {
        return known;
    }
    let asked = match culvert_run::read_file(&run::get().file(FILE)) {
        // It is asked for again when there is a descriptor for it.
        Err(Errno::EMFILE | Errno::ENFILE) => return usual().max(1),
        asked => asked.ok(),
    };
    let digits = asked.as_deref().and_then(|text| str::from_utf8(text).ok());
    let asked = digits.and_then(|text| text.trim().parse::<u64>().ok());
    let limit = asked.unwrap_or_else(usual).max(1);
    LIMIT.store(limit, Relaxed);
    limit
}

/// Three quarters of the file system that holds the run directory, or of the machine's memory if
/// that is less.
fn usual() -> u64 {
    let told = fs::statfs(&run::get().file("")).and_then(|there| Ok((there, sysinfo()?.memory)));
    let Ok((there, memory)) = told else {
        return u64::MAX;
    };
    // One without a size of its own says 0 blocks.
    match (there.f_bsize as u64).saturating_mul(there.f_blocks as u64) {
        0 => memory / 4 * 3,
        all => all.min(memory) / 4 * 3,
    }
}

/// How many bytes must go before `more` keep within the bound.
pub fn missing(more: u64) -> u64 {
    let (limit, notes) = (limit(), run::get().node_locks.notes());
    let Some(notes) = notes else { return 0 };
    let mut used = notes.filled.load(Relaxed);
    if used.saturating_add(more) <= limit {
        return 0;
    }
    // Where they cannot be counted, what is known counts.
    if let Ok(shadows) = shadows() {
        used = shadows.map(|(_, blocks)| blocks).sum();
        notes.filled.store(used, Relaxed);
    }
    used.saturating_add(more).saturating_sub(limit)
}

/// A part of the bound: what is made free at a time, so that it is not counted at each page.
pub fn slack() -> u64 {
    limit() / 16
}

/// All shadows and the bytes that they take.
fn shadows() -> Result<impl Iterator<Item = (ShadowName, u64)>, Errno> {
    let directory = shadow::open(&run::get().file("shadows"), O_DIRECTORY, 0)?;
    Ok(list(&directory).into_iter().filter_map(|name| {
        let name = ShadowName::of_text(&name)?;
        let found = stat_path(&run::get().shadow(name)).ok()?;
        Some((name, found.st_blocks as u64 * 512))
    }))
}

/// Makes room for `more` bytes in shadows. ENOMEM, with the reason in the log, where there is none.
/// The caller may have the lock of the node that needs it.
pub fn make(more: u64) -> Result<(), Errno> {
    let short = missing(more);
    if short == 0 {
        return Ok(());
    }
    empty_unused(short.saturating_add(slack()));
    let short = missing(more);
    if short != 0 {
        super::pager::drop_pages(short.saturating_add(slack()));
    }
    match missing(more) {
        0 => Ok(()),
        _ => {
            culvert_sys::log!(
                "{more} bytes of a file find no room in the run directory, where a run may have \
                {} (culvert run --page-memory)",
                limit()
            );
            Err(Errno::ENOMEM)
        }
    }
}

/// Empties shadows that nobody has open or mapped until `wanted` bytes are free.
pub fn empty_unused(wanted: u64) {
    let mut freed = 0u64;
    let Ok(shadows) = shadows() else { return };
    for (name, blocks) in shadows {
        if freed >= wanted {
            return;
        }
        if blocks != 0 && empty(name).unwrap_or(false) {
            run::get().node_locks.filled(0, blocks);
            freed = freed.saturating_add(blocks);
        }
    }
}

/// Empties a shadow, unless somebody has it; whether that was done.
fn empty(name: ShadowName) -> Result<bool, Errno> {
    let locks = &run::get().node_locks;
    let Some(_lock) = locks.try_lock(name) else {
        return Ok(false);
    };
    let found = stat_path(&run::get().shadow(name))?;
    // One with a second name is a program (exec/materialise.rs).
    let kept = found.st_nlink != 1 || records::any(name)? || baseline::strangers_have(name);
    if kept || State::of(&found) == State::Empty {
        return Ok(false);
    }
    reset(name, holders::alone(name)?, &found).map(|()| true)
}

/// Makes a shadow that nobody else has as it was made. Under the node's lock.
fn reset(name: ShadowName, alone: OwnedFd, found: &stat) -> Result<(), Errno> {
    // Who opens it from here on waits until it is no longer marked, and then for the lock.
    let unmarked = state::set_empty(alone.raw(), found);
    holders::end_lease(&alone);
    let emptied = unmarked.and_then(|()| super::bytes::set_length(alone.raw(), 0));
    run::get().posix_locks.close(name, alone);
    emptied
}

/// The file of `name` is none any more. Where nobody has its shadow nothing is left of what was
/// known of it: the number may be another file's next. False: somebody has it, or may have.
pub fn discard(name: ShadowName) -> bool {
    let locks = &run::get().node_locks;
    let _lock = locks.lock(name);
    // What a process that was killed had stored is still to come to the file.
    if records::any(name).unwrap_or(true) {
        return false;
    }
    let path = run::get().shadow(name);
    let alone = match holders::alone(name) {
        Ok(alone) => alone,
        Err(Errno::ENOENT) => {
            baseline::disown(name);
            return true;
        }
        Err(_) => return false,
    };
    let Ok(found) = stat_descriptor(alone.raw()) else {
        run::get().posix_locks.close(name, alone);
        return false;
    };
    let discarded = match found.st_nlink {
        1 => reset(name, alone, &found),
        // It is a program by its other name, and somebody may be about to execute that.
        _ => {
            let gone = fs::unlink(&path);
            run::get().posix_locks.close(name, alone);
            gone
        }
    };
    if discarded.is_ok() {
        run::get()
            .node_locks
            .filled(0, found.st_blocks as u64 * 512);
        baseline::disown(name);
    }
    discarded.is_ok()
}

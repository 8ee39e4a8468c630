//! Programs that are not intercepted, and files of drivers: strangers, who read and write the
//! shadow.
//!
//! A shadow that they are given follows its file (follow.rs). What they write is in the
//! shadow. Whoever uses the file next through its driver, removes its last name, or ends, brings it
//! to the driver. It stays in the run directory until then, so that nobody's death loses it.

use crate::baseline::{
    any_strangers, baseline, mark_of, strangers_have, take_changes, unless_out_of_reach,
};
use crate::pinned::pinned;
use crate::shadow::{self, OwnedFd, open_shadow};
use crate::state::{self, State};
use crate::{OpenFile, bytes, follow};
use core::sync::atomic::Ordering::*;
use culvert::{Caller, Errno, File, FileSystem};
use culvert_mounts::MountId;
use culvert_run::files::dup_high;
use culvert_run::{self as run, ShadowName, stat_descriptor, stat_path};
use culvert_sys::fd::CWD;
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::plain::Plain;
use culvert_sys::raw::general::O_RDWR;
use culvert_sys::raw::general::timespec;

/// Makes the shadow of `open` equal to its file from now on; returns a descriptor of it that may
/// only be read. `on_demand`: as [`follow::start`].
pub fn keep_equal(open: &dyn OpenFile, on_demand: bool) -> culvert::Result<OwnedFd> {
    // Open all the time, so that nobody empties it before it is mapped.
    let shadow = open_shadow(open.name(), 0)?;
    let followed = match follow(open, on_demand, |_, _| Ok(())) {
        Err(error) if error.errno() == Errno::ETXTBSY => follow::start_executed(open, shadow.raw()),
        followed => followed,
    };
    match followed {
        Ok(()) => Ok(shadow),
        Err(error) => {
            let locks = &run::get().posix_locks;
            locks.close(open.name(), shadow);
            Err(error)
        }
    }
}

/// The same; what `then` makes, under the node's lock, of a descriptor of it that may be written,
/// too, and of whether it was filled just now.
pub fn follow<R>(
    open: &dyn OpenFile,
    on_demand: bool,
    then: impl FnOnce(follow::Opened, bool) -> culvert::Result<R>,
) -> culvert::Result<R> {
    let strangers = strangers_have(open.name());
    follow::start(open, strangers, on_demand, then)
}

/// A filled shadow that is to be executed has the bytes that `file` has now. One whose file has the
/// same size and time of modification, and was not changed since a second before the shadow was, is
/// taken as it is. What strangers wrote to it counts.
pub fn renew(name: ShadowName, file: &dyn File) -> culvert::Result<()> {
    // Open for writing under the lock only: while it is, nobody can execute it (vfs/busy.rs).
    let _lock = run::get().node_locks.lock(name);
    // One that is being executed cannot be opened for writing: it stays.
    let Some(writable) = open_existing(name)? else {
        return Ok(());
    };
    let taken = match strangers_have(name) {
        true => take_changes(name, writable.raw()),
        false => Ok(()),
    };
    let renewed = taken.and_then(|()| renew_opened(name, file, &writable));
    run::get().posix_locks.close(name, writable);
    renewed
}

fn renew_opened(name: ShadowName, file: &dyn File, shadow: &OwnedFd) -> culvert::Result<()> {
    let (found, now) = (
        stat_descriptor(shadow.raw())?,
        file.attributes(&Caller::SYSTEM)?,
    );
    if state::is_equal(&found, &now) {
        return Ok(());
    }
    // One that is mapped so that it can be written holds the truth.
    if State::of(&found).follows() && crate::records::any(name)? {
        return Ok(());
    }
    bytes::equalise(file, shadow.raw(), false)?;
    Ok(state::set_equal(shadow.raw(), &now)?)
}

/// A program that is not intercepted gets what is `open`, and may write through it.
pub fn give(open: &dyn OpenFile) -> culvert::Result<()> {
    let run = run::get();
    let count = run.node_locks.notes().map(|notes| &notes.strangers);
    // Counted before it is marked: who is killed in between leaves a count that is too high, which
    // costs time only.
    count.inspect(|count| {
        count.fetch_add(1, AcqRel);
    });
    let marked = {
        // The shadow is open here, so nobody takes the mark away after this.
        let name = open.name();
        let _lock = run.node_locks.lock(name);
        match open.orphan() {
            // What they get is the file.
            Some(_) => None,
            None => {
                let mark = mark_of(name);
                let _ = culvert_run::make_directory(&run.file("strangers"));
                Some(fs::mknod(&mark, 0o100600, 0))
            }
        }
    };
    let strangers = marked == Some(Err(Errno::EEXIST));
    if strangers || marked.is_none() {
        count.inspect(|count| {
            count.fetch_sub(1, AcqRel);
        });
    }
    // Only what strangers had already may hold what they wrote: one that was filled for exec or a
    // mapping has an access time of its own (relatime), and perhaps old bytes, which must not come
    // into the file.
    follow::start(open, strangers, false, |shadow, _| {
        let Some(baseline) = baseline(open.name())? else {
            return Ok(());
        };
        match strangers {
            // They have not got it yet.
            false => baseline.remember(shadow.number()),
            // Of a file that is mapped through its shadow that has all.
            true if crate::records::any(open.name())? => {}
            true => baseline.renew(open.file()?, shadow.number())?,
        }
        Ok(())
    })
}

/// Takes the mark of `name` away once nobody has the shadow open any more: what they wrote has been
/// brought, and later calls need not look.
fn forget_strangers(name: ShadowName) {
    let Some(_lock) = run::get().node_locks.try_lock(name) else {
        return;
    };
    if culvert_run::holders::is_held(name) {
        return;
    }
    // What was written since the shadow was brought, or could not be brought.
    if stat_path(&run::get().shadow(name)).is_ok_and(|found| state::is_written(&found)) {
        return;
    }
    let mark = mark_of(name);
    if fs::unlink(&mark).is_ok() {
        // What others have stored into a mapping of the file is perhaps not in the shadow: it is
        // compared before it is used again.
        let old = [timespec::zeroed(); 2];
        let path = run::get().shadow(name);
        let _ = fs::utimensat(CWD, Some(&path), Some(&old), AtFlags::empty());
        if let Some(notes) = run::get().node_locks.notes() {
            notes.strangers.fetch_sub(1, AcqRel);
        }
    }
}

/// Before a name of the file goes: what strangers wrote comes to it while it can be found.
pub fn before_losing(name: ShadowName) {
    // What was not brought is in the shadow, which becomes the file if others have it.
    if any_strangers() {
        let _ = bring(name, true);
    }
}

/// Before `file` is read: what strangers have written to its shadow counts.
pub fn before<F: OpenFile>(file: &F) -> culvert::Result<()> {
    match file.changes() && any_strangers() {
        true => bring(file.name(), true),
        false => Ok(()),
    }
}

/// The file system of `mount`, opened on first use; the errno of opening it otherwise (the log has
/// the cause). What strangers have written counts from the next call on.
#[inline]
pub fn file_system(mount: MountId) -> Result<&'static dyn FileSystem, Errno> {
    bring_all();
    run::get().mounts.file_system(mount)
}

/// Brings what strangers wrote to the drivers, of all shadows that they were given, beyond the
/// limit of descriptors too where that may be raised. What fails concerns one file, whose reader is
/// told ([`before`]); until then its attributes may be old.
pub fn bring_all() {
    let notes = run::get().node_locks.notes_if_mapped();
    if notes.is_some_and(|notes| notes.strangers.load(Relaxed) != 0) && bring_each().is_err() {
        culvert_run::internal::with_more(bring_each);
    }
}

/// EMFILE, ENFILE: for want of a descriptor it is not known what there is.
fn bring_each() -> Result<(), Errno> {
    let directory = match shadow::open(&run::get().file("strangers"), 0o200000, 0) {
        Err(error @ (Errno::EMFILE | Errno::ENFILE)) => return Err(error),
        // It is not found below another root, nor by another user.
        Err(_) => return Ok(()),
        Ok(directory) => directory,
    };
    for entry in culvert_run::list(&directory) {
        let Some(name) = ShadowName::of_text(&entry) else {
            continue;
        };
        match bring(name, false).map_err(|error| error.errno()) {
            Err(error @ (Errno::EMFILE | Errno::ENFILE)) => return Err(error),
            _ => forget_strangers(name),
        }
    }
    Ok(())
}

/// Brings what was written to one shadow. Without `wait` only if nobody is at the node: the caller
/// may be itself.
fn bring(name: ShadowName, wait: bool) -> culvert::Result<()> {
    if !strangers_have(name) {
        return Ok(());
    }
    let Some(writable) = open_existing(name)? else {
        return Ok(());
    };
    let locks = &run::get().node_locks;
    let lock = match wait {
        true => Some(locks.lock(name)),
        false => locks.try_lock(name),
    };
    let brought = lock.map_or(Ok(()), |_lock| take_changes(name, writable.raw()));
    run::get().posix_locks.close(name, writable);
    unless_out_of_reach(name, brought)
}

/// The shadow, if there is one that has all bytes.
fn open_existing(name: ShadowName) -> Result<Option<OwnedFd>, Errno> {
    let opened = match shadow::open(&run::get().shadow(name), O_RDWR, 0) {
        Ok(opened) => opened,
        // There is none, it is being executed, or it is not found below another root or by another
        // user.
        Err(error) => match (pinned(name), error) {
            (Some(pinned), _) => OwnedFd::from_raw(dup_high(pinned.number(), true)?),
            (None, Errno::ENOENT | Errno::ETXTBSY | Errno::EACCES) => return Ok(None),
            (None, error) => return Err(error),
        },
    };
    match stat_descriptor(opened.raw()) {
        Ok(found) if State::of(&found).has_all() => Ok(Some(opened)),
        found => {
            run::get().posix_locks.close(name, opened);
            found.map(|_| None)
        }
    }
}

//! Shadows that somebody looks at who does not call the driver: a shared mapping, a program that is not intercepted.
//!
//! Such a shadow is kept equal to its file: who writes to the file writes to the shadow too. Where a program that is not intercepted may write, what it
//! wrote is in the shadow, and whoever uses the mount next, or waits for that program's end, brings it to the driver; it is kept in the run
//! directory until then, so that nobody's death loses it. A shadow that nobody else has written has equal times of access and modification.

use crate::description::{Description, Object};
use crate::process;
use crate::resolver::MountId;
use crate::run::{ShadowName, stat_descriptor, stat_path};
use crate::shadow::{self, Descriptor, open_shadow};
use alloc::{format, vec, vec::Vec};
use core::sync::atomic::Ordering::*;
use culvert::{Errno, File, OpenFlags, Opened, SetAttributes};
use culvert_sys::{nr, syscall};

const CHUNK: usize = 64 << 10;
const O_RDWR: u32 = 2;

/// Whether any shadow must be kept equal to its file.
#[inline]
pub fn any() -> bool {
    notes_say(|notes| notes.looked_at.load(Relaxed))
}

/// Whether a program that is not intercepted may have written to any shadow.
#[inline]
fn any_strangers() -> bool {
    notes_say(|notes| notes.strangers.load(Relaxed))
}

fn notes_say(count: impl Fn(&crate::node_locks::Notes) -> u32) -> bool {
    process::get()
        .node_locks
        .notes()
        .is_some_and(|notes| count(notes) != 0)
}

/// Makes the shadow of `description` equal to its file from now on; returns a descriptor of it that may only be read.
pub fn keep_equal(description: &Description) -> culvert::Result<Descriptor> {
    follow(description, strangers_have(description.name()))
}

/// The same. Only what `strangers` had already may hold what they wrote: one that was filled for exec or a mapping has an access time of its own (relatime),
/// and perhaps old bytes, which must not come into the file.
fn follow(description: &Description, strangers: bool) -> culvert::Result<Descriptor> {
    let file = description.file()?;
    if let Some(notes) = process::get().node_locks.notes() {
        notes.looked_at.fetch_add(1, AcqRel);
    }
    let name = description.name();
    let writable = open_shadow(name, O_RDWR)?;
    let result = {
        let _lock = process::get()
            .node_locks
            .lock(description.mount, description.node);
        match strangers {
            true => take_changes(name, &writable),
            false => Ok(()),
        }
        .and_then(|()| equalise(file, &writable, None))
    };
    process::get().table.posix_locks.close(name, writable);
    result?;
    Ok(open_shadow(name, 0)?)
}

/// A filled shadow that is to be executed has the bytes that `file` has now. One whose file has the same size and time of modification, and was not changed since a
/// second before the shadow was, is taken as it is; so is one that strangers have, which follows its file anyway.
pub fn renew(name: ShadowName, file: &dyn File) -> culvert::Result<()> {
    if strangers_have(name) {
        return Ok(());
    }
    // One that is being executed cannot be opened for writing: it stays.
    let Some(writable) = open_existing(name) else {
        return Ok(());
    };
    let renewed = {
        let _lock = process::get()
            .node_locks
            .lock(MountId(name.mount), name.node);
        renew_opened(file, &writable)
    };
    process::get().table.posix_locks.close(name, writable);
    renewed
}

fn renew_opened(file: &dyn File, shadow: &Descriptor) -> culvert::Result<()> {
    let (found, now) = (stat_descriptor(shadow.0)?, file.attributes()?);
    let modified = (found.st_mtime as i64, found.st_mtime_nsec as u32);
    let same = now.size == found.st_size as u64
        && (now.mtime.seconds, now.mtime.nanoseconds) == modified
        && now.ctime.seconds + 1 < found.st_ctime as i64;
    if same {
        return Ok(());
    }
    equalise(file, shadow, None)
}

/// A program that is not intercepted gets `description` and may write through it.
pub fn give_to_stranger(description: &Description) -> culvert::Result<()> {
    let process = process::get();
    let count = process.node_locks.notes().map(|notes| &notes.strangers);
    // Counted before it is marked: who is killed in between leaves a count that is too high, which costs time only.
    count.inspect(|count| {
        count.fetch_add(1, AcqRel);
    });
    let marked = {
        // The shadow is open here, so nobody takes the mark away after this.
        let _lock = process.node_locks.lock(description.mount, description.node);
        let mark = mark_of(description.name());
        // SAFETY: the paths end in NUL.
        unsafe {
            let _ = syscall::call(
                nr::MKDIR,
                [process.run.file("strangers").as_ptr() as usize, 0o700],
            );
            syscall::call(nr::MKNOD, [mark.as_ptr() as usize, 0o100600, 0])
        }
    };
    let strangers = marked == Err(Errno::EEXIST);
    if strangers {
        count.inspect(|count| {
            count.fetch_sub(1, AcqRel);
        });
    }
    let shown = follow(description, strangers)?;
    process.table.posix_locks.close(description.name(), shown);
    Ok(())
}

/// The file that says that strangers were given the shadow of `name`.
fn mark_of(name: ShadowName) -> Vec<u8> {
    process::get()
        .run
        .file(&format!("strangers/{}", name.text()))
}

/// Whether strangers were given the shadow of `name`.
fn strangers_have(name: ShadowName) -> bool {
    let mark = mark_of(name);
    // SAFETY: the path ends in NUL.
    unsafe { syscall::call(nr::ACCESS, [mark.as_ptr() as usize, 0]) }.is_ok()
}

/// Takes the mark of `name` away once nobody has the shadow open any more: what they wrote has been brought, and later calls need not look.
fn forget_strangers(name: ShadowName) {
    let mount = MountId(name.mount);
    let Some(_lock) = process::get().node_locks.try_lock(mount, name.node) else {
        return;
    };
    if crate::holders::is_held(name.mount, name.node) {
        return;
    }
    // What was written since the shadow was brought, or could not be brought.
    if stat_path(&process::get().run.shadow(name)).is_ok_and(|found| was_written(&found)) {
        return;
    }
    let mark = mark_of(name);
    // SAFETY: the path ends in NUL.
    let gone = unsafe { syscall::call(nr::UNLINK, [mark.as_ptr() as usize]) };
    if gone.is_ok()
        && let Some(notes) = process::get().node_locks.notes()
    {
        notes.strangers.fetch_sub(1, AcqRel);
    }
}

/// Before the file of `description` is read or changed: what strangers have written to its shadow counts.
pub fn before(description: &Description) {
    if description.changes && any_strangers() {
        bring(description.name(), true);
    }
}

/// The file of `description` has changed, between `start` and `end` or, without them, in its length: its shadow follows.
pub fn after(description: &Description, range: Option<(u64, u64)>) {
    if !description.changes || !any() {
        return;
    }
    let (name, Object::File(file)) = (description.name(), &description.object) else {
        return;
    };
    let Some(writable) = open_existing(name) else {
        return;
    };
    {
        let _lock = process::get()
            .node_locks
            .lock(description.mount, description.node);
        if let Err(error) = equalise(&**file, &writable, range) {
            crate::log!(
                "the shadow of node {:x} of mount {} does not follow: {error}",
                name.node.0,
                name.mount
            );
        }
    }
    process::get().table.posix_locks.close(name, writable);
}

/// Brings what strangers wrote to the drivers, of all shadows that they were given.
pub fn bring_all() {
    let Some(notes) = process::get().node_locks.notes_if_mapped() else {
        return;
    };
    if notes.strangers.load(Relaxed) == 0 {
        return;
    }
    let Ok(directory) = shadow::open(&process::get().run.file("strangers"), 0o200000, 0) else {
        return;
    };
    for entry in crate::run::list(&directory) {
        if let Some(name) = ShadowName::of_text(&entry) {
            bring(name, false);
            forget_strangers(name);
        }
    }
}

/// Brings what was written to one shadow. Without `wait` only if nobody is at the node: the caller may be itself.
fn bring(name: ShadowName, wait: bool) {
    if !strangers_have(name) {
        return;
    }
    let Some(writable) = open_existing(name) else {
        return;
    };
    let (locks, mount) = (&process::get().node_locks, MountId(name.mount));
    let lock = match wait {
        true => Some(locks.lock(mount, name.node)),
        false => locks.try_lock(mount, name.node),
    };
    if let Some(_lock) = lock
        && let Err(error) = take_changes(name, &writable)
    {
        crate::log!(
            "what a program that is not intercepted wrote to node {:x} of mount {} is lost: {error}",
            name.node.0,
            name.mount
        );
    }
    process::get().table.posix_locks.close(name, writable);
}

/// The shadow, if there is one that is kept equal.
fn open_existing(name: ShadowName) -> Option<Descriptor> {
    let path = process::get().run.shadow(name);
    let opened = shadow::open(&path, O_RDWR as usize, 0).ok()?;
    match stat_descriptor(opened.0) {
        Ok(found) if shadow::is_filled(&found) => Some(opened),
        _ => {
            process::get().table.posix_locks.close(name, opened);
            None
        }
    }
}

/// Whether somebody else has written to a shadow with this `struct stat` since it was made equal.
fn was_written(found: &culvert_sys::raw::general::stat) -> bool {
    shadow::is_filled(found)
        && (found.st_mtime, found.st_mtime_nsec) != (found.st_atime, found.st_atime_nsec)
}

/// Brings what strangers wrote to the shadow to the driver. Under the node's lock.
fn take_changes(name: ShadowName, shadow: &Descriptor) -> culvert::Result<()> {
    let found = stat_descriptor(shadow.0)?;
    if !was_written(&found) {
        return Ok(());
    }
    let file_system = process::get().mounts.driver(MountId(name.mount))?;
    let file = match file_system.open(&process::caller(), name.node, OpenFlags(O_RDWR))? {
        Opened::Driven(file) => file,
        Opened::Backed(fd) => {
            drop(Descriptor(fd));
            return Err(Errno::EIO.into());
        }
    };
    let size = found.st_size as u64;
    if file.attributes()?.size != size {
        file.set_attributes(&SetAttributes {
            size: Some(size),
            ..Default::default()
        })?;
    }
    let differ = |at: u64, theirs: &[u8]| -> culvert::Result<()> {
        let mut left = theirs;
        let mut done = 0;
        while !left.is_empty() {
            let count = file.write_at(at + done, &mut left)?;
            if count == 0 {
                return Err(Errno::ENOSPC.into());
            }
            done += count as u64;
        }
        Ok(())
    };
    each_difference(&*file, shadow, (0, size), |at, _, theirs| {
        differ(at, theirs)
    })?;
    mark_equal(&*file, shadow)
}

/// Makes `shadow` equal to `file`, at least in `range` and in length. Under the node's lock.
fn equalise(
    file: &dyn File,
    shadow: &Descriptor,
    range: Option<(u64, u64)>,
) -> culvert::Result<()> {
    let filled = shadow::is_filled(&stat_descriptor(shadow.0)?);
    let size = file.attributes()?.size;
    // SAFETY: sets the length of our own file.
    unsafe { syscall::call(nr::FTRUNCATE, [shadow.0 as usize, size as usize]) }?;
    let (start, end) = range.filter(|_| filled).unwrap_or((0, size));
    each_difference(file, shadow, (start, end.min(size)), |at, ours, _| {
        shadow::write_all(shadow.0, at, ours)
    })?;
    if !filled {
        shadow::mark_filled(shadow, &file.attributes()?)?;
    }
    mark_equal(file, shadow)
}

fn mark_equal(file: &dyn File, shadow: &Descriptor) -> culvert::Result<()> {
    let modified = file.attributes()?.mtime;
    let time = [modified.seconds as usize, modified.nanoseconds as usize];
    let times = [time, time];
    // SAFETY: sets the times of our own file.
    unsafe {
        syscall::call(
            nr::UTIMENSAT,
            [shadow.0 as usize, 0, times.as_ptr() as usize, 0],
        )
    }?;
    Ok(())
}

/// Calls `differs` with the place of each stretch in which file and shadow differ, the file's bytes, and the shadow's.
fn each_difference(
    file: &dyn File,
    shadow: &Descriptor,
    range: (u64, u64),
    mut differs: impl FnMut(u64, &[u8], &[u8]) -> culvert::Result<()>,
) -> culvert::Result<()> {
    let length = (range.1.saturating_sub(range.0)).min(CHUNK as u64) as usize;
    let (mut ours, mut theirs) = (vec![0u8; length], vec![0u8; length]);
    let mut at = range.0;
    while at < range.1 {
        let want = (range.1 - at).min(CHUNK as u64) as usize;
        let (ours, theirs) = (&mut ours[..want], &mut theirs[..want]);
        let mut sink = &mut *ours;
        let got = file.read_at(at, &mut sink)?;
        let arguments = [
            shadow.0 as usize,
            theirs.as_mut_ptr() as usize,
            want,
            at as usize,
        ];
        // SAFETY: the buffer is given with its length.
        let there = unsafe { syscall::call(nr::PREAD64, arguments) }?;
        // Somebody truncates one of the two just now: whoever does so comes here next.
        let both = got.min(there);
        if both == 0 {
            return Ok(());
        }
        if ours[..both] != theirs[..both] {
            differs(at, &ours[..both], &theirs[..both])?;
        }
        at += both as u64;
    }
    Ok(())
}

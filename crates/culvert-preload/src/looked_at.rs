//! Programs that are not intercepted, and files of drivers: strangers, who read and write the
//! shadow.
//!
//! A shadow that they are given follows its file (paging/follow.rs). What they write is in the
//! shadow. Whoever uses the file next through its driver, removes its last name, or ends, brings it
//! to the driver. It stays in the run directory until then, so that nobody's death loses it. A
//! shadow that nobody else has written has a time of access that is made of its time of
//! modification.

use crate::description::Description;
use crate::descriptors::dup_high;
use crate::paging::kept::kept;
use crate::paging::{bytes, follow};
use crate::process;
use crate::resolver::MountId;
use crate::run::{ShadowName, stat_descriptor, stat_path};
use crate::shadow::{self, Descriptor, open_shadow};
use alloc::{format, vec, vec::Vec};
use core::sync::atomic::Ordering::*;
use culvert::{Attributes, Errno, File, OpenFlags, Opened, SetAttributes};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::raw::general::O_RDWR;
use culvert_sys::{nr, syscall};

/// Whether a program that is not intercepted may have written to any shadow.
#[inline]
fn any_strangers() -> bool {
    let notes = process::get().node_locks.notes();
    notes.is_some_and(|notes| notes.strangers.load(Relaxed) != 0)
}

/// Makes the shadow of `description` equal to its file from now on; returns a descriptor of it that
/// may only be read. `on_demand`: as [`follow::start`].
pub fn keep_equal(description: &Description, on_demand: bool) -> culvert::Result<Descriptor> {
    // Open all the time, so that nobody empties it before it is mapped.
    let shadow = open_shadow(description.name(), 0)?;
    let followed = match follow(description, on_demand, |_, _| Ok(())) {
        Err(error) if error.errno() == Errno::ETXTBSY => {
            follow::start_executed(description, shadow.0)
        }
        followed => followed,
    };
    match followed {
        Ok(()) => Ok(shadow),
        Err(error) => {
            let locks = &process::get().table.posix_locks;
            locks.close(description.name(), shadow);
            Err(error)
        }
    }
}

/// The same; what `then` makes, under the node's lock, of a descriptor of it that may be written,
/// too, and of whether it was filled just now.
pub fn follow<R>(
    description: &Description,
    on_demand: bool,
    then: impl FnOnce(follow::Opened, bool) -> culvert::Result<R>,
) -> culvert::Result<R> {
    let strangers = strangers_have(description.name());
    follow::start(description, strangers, on_demand, then)
}

/// A filled shadow that is to be executed has the bytes that `file` has now. One whose file has the
/// same size and time of modification, and was not changed since a second before the shadow was, is
/// taken as it is. What strangers wrote to it counts.
pub fn renew(name: ShadowName, file: &dyn File) -> culvert::Result<()> {
    // Open for writing under the lock only: while it is, nobody can execute it (vfs/busy.rs).
    let _lock = process::get()
        .node_locks
        .lock(MountId(name.mount), name.node);
    // One that is being executed cannot be opened for writing: it stays.
    let Some(writable) = open_existing(name) else {
        return Ok(());
    };
    let taken = match strangers_have(name) {
        true => take_changes(name, writable.0),
        false => Ok(()),
    };
    let renewed = taken.and_then(|()| renew_opened(name, file, &writable));
    process::get().table.posix_locks.close(name, writable);
    renewed
}

fn renew_opened(name: ShadowName, file: &dyn File, shadow: &Descriptor) -> culvert::Result<()> {
    let (found, now) = (stat_descriptor(shadow.0)?, file.attributes()?);
    let modified = (found.st_mtime as i64, found.st_mtime_nsec as u32);
    let same = now.size == found.st_size as u64
        && (now.mtime.seconds, now.mtime.nanoseconds) == modified
        && now.ctime.seconds + 1 < found.st_ctime as i64;
    if same {
        return Ok(());
    }
    // One that is mapped so that it can be written holds the truth.
    if shadow::is_followed(&found) && crate::paging::records::any(name) {
        return Ok(());
    }
    bytes::equalise(file, shadow.0, false)?;
    mark_equal_to(&now, shadow.0)
}

/// A program that is not intercepted gets `description` and may write through it.
pub fn give_to_stranger(description: &Description) -> culvert::Result<()> {
    let process = process::get();
    let count = process.node_locks.notes().map(|notes| &notes.strangers);
    // Counted before it is marked: who is killed in between leaves a count that is too high, which
    // costs time only.
    count.inspect(|count| {
        count.fetch_add(1, AcqRel);
    });
    let marked = {
        // The shadow is open here, so nobody takes the mark away after this.
        let _lock = process.node_locks.lock(description.mount, description.node);
        let mark = mark_of(description.name());
        let _ = crate::run::make_directory(&process.run.file("strangers"));
        // SAFETY: the path ends in NUL.
        unsafe { syscall::call(nr::MKNOD, [mark.as_ptr() as usize, 0o100600, 0]) }
    };
    let strangers = marked == Err(Errno::EEXIST);
    if strangers {
        count.inspect(|count| {
            count.fetch_sub(1, AcqRel);
        });
    }
    // Only what strangers had already may hold what they wrote: one that was filled for exec or a
    // mapping has an access time of its own (relatime), and perhaps old bytes, which must not come
    // into the file.
    follow::start(description, strangers, false, |shadow, _| {
        let Some(given) = given(description.name()) else {
            return Ok(());
        };
        match strangers {
            // They have not got it yet.
            false => given.remember(shadow.number()),
            // Of a file that is mapped through its shadow that has all.
            true if crate::paging::records::any(description.name()) => {}
            true => given.renew(description.file()?, shadow.number())?,
        }
        Ok(())
    })
}

/// What strangers were given: the mark of a shadow, which holds its bytes as they were when they
/// were given, or followed the file since. Bytes that are others in the shadow are what strangers
/// have written; the rest may be old, where others store into a mapping of the file itself. Not of
/// all bytes: what lies behind its end is not known.
pub struct Given(Descriptor);

/// What strangers were given of the shadow of `name`, if they were. Under the node's lock.
pub fn given(name: ShadowName) -> Option<Given> {
    if !any_strangers() {
        return None;
    }
    let mark = shadow::open(&mark_of(name), O_RDWR as usize, 0).ok()?;
    Some(Given(mark))
}

impl Given {
    fn length(&self) -> u64 {
        stat_descriptor(self.0.0).map_or(0, |found| found.st_size as u64)
    }

    /// Holds what the shadow in `fd` holds. Where there is no room for it nothing is known.
    fn remember(&self, fd: i32) {
        let mut at = 0;
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            let copied = bytes::read_shadow(fd, at, &mut buffer).map_err(Into::into);
            let copied = copied.and_then(|count| {
                shadow::write_all(self.0.0, at, &buffer[..count]).map(|()| count)
            });
            match copied {
                Ok(0) => return,
                Ok(count) => at += count as u64,
                Err(_) => return self.cut(0),
            }
        }
    }

    /// Nothing is known from byte `size` on.
    pub fn cut(&self, size: u64) {
        if self.length() > size {
            let _ = bytes::set_length(self.0.0, size);
        }
    }

    /// The shadow has got `bytes` at byte `at`. What lies between is not known any more where that
    /// is more than was known.
    pub fn note(&self, at: u64, bytes: &[u8]) -> culvert::Result<()> {
        let known = self.length().saturating_sub(at).min(bytes.len() as u64) as usize;
        shadow::write_all(self.0.0, at, &bytes[..known])
    }

    /// What others have stored into a mapping of `file` comes to the shadow in `fd`, but where
    /// strangers have written: so that the next one sees it, and that it is known whether it writes
    /// the same bytes once more.
    fn renew(&self, file: &dyn File, fd: i32) -> culvert::Result<()> {
        let known = (0, self.length());
        bytes::each_difference(file, fd, known, &mut |at, ours, theirs| {
            let mut then = vec![0u8; ours.len()];
            let got = bytes::read_shadow(self.0.0, at, &mut then)?;
            let is_old = |i: usize| ours[i] != theirs[i] && theirs[i] == then[i];
            let mut from = 0;
            while let Some(first) = (from..got).find(|&i| is_old(i)) {
                let last = (first..got).find(|&i| !is_old(i)).unwrap_or(got);
                let place = at + first as u64;
                shadow::write_all(fd, place, &ours[first..last])?;
                shadow::write_all(self.0.0, place, &ours[first..last])?;
                from = last;
            }
            Ok(())
        })
    }

    /// Writes what strangers have written to the first `size` bytes of the shadow in `fd` to
    /// `file`; from where on nothing is known of what they were given.
    fn bring(&self, file: &dyn File, fd: i32, size: u64) -> culvert::Result<u64> {
        let end = self.length().min(size);
        let (mut now, mut then) = (vec![0u8; 64 << 10], vec![0u8; 64 << 10]);
        let mut at = 0;
        while at < end {
            let want = (end - at).min(now.len() as u64) as usize;
            let got = bytes::read_shadow(fd, at, &mut now[..want])?;
            let got = got.min(bytes::read_shadow(self.0.0, at, &mut then[..want])?);
            if got == 0 {
                return Ok(at);
            }
            // Most is as it was.
            let mut from = match now[..got] == then[..got] {
                true => got,
                false => 0,
            };
            while let Some(first) = (from..got).find(|&i| now[i] != then[i]) {
                let last = (first..got).find(|&i| now[i] == then[i]).unwrap_or(got);
                let place = at + first as u64;
                bytes::write_file(file, place, &now[first..last])?;
                shadow::write_all(self.0.0, place, &now[first..last])?;
                from = last;
            }
            at += got as u64;
        }
        Ok(end)
    }
}

/// The file that says that strangers were given the shadow of `name`.
fn mark_of(name: ShadowName) -> Vec<u8> {
    process::get()
        .run
        .file(&format!("strangers/{}", name.text()))
}

/// Whether strangers were given the shadow of `name`.
pub fn strangers_have(name: ShadowName) -> bool {
    let mark = mark_of(name);
    // SAFETY: the path ends in NUL.
    let marked = unsafe { syscall::call(nr::ACCESS, [mark.as_ptr() as usize, 0]) }.is_ok();
    // Below another root the mark is not found.
    marked || process::get().has_left() && kept(name).is_some()
}

/// Takes the mark of `name` away once nobody has the shadow open any more: what they wrote has been
/// brought, and later calls need not look.
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
    if gone.is_ok() {
        // What others have stored into a mapping of the file is perhaps not in the shadow: it is
        // compared before it is used again.
        let old = [[0usize; 2]; 2];
        let path = process::get().run.shadow(name);
        let arguments = [
            AT_FDCWD as usize,
            path.as_ptr() as usize,
            old.as_ptr() as usize,
            0,
        ];
        // SAFETY: the path ends in NUL, and two times are given.
        let _ = unsafe { syscall::call(nr::UTIMENSAT, arguments) };
    }
    if gone.is_ok()
        && let Some(notes) = process::get().node_locks.notes()
    {
        notes.strangers.fetch_sub(1, AcqRel);
    }
}

/// The file of `name` is none any more: what is given its number is another one, of which nobody
/// was given anything. Under the node's lock.
pub fn disown(name: ShadowName) {
    if !any_strangers() {
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

/// Before a name of the file goes: what strangers wrote comes to it while it can be found.
pub fn before_losing(name: ShadowName) {
    if any_strangers() {
        bring(name, true);
    }
}

/// Before the file of `description` is read: what strangers have written to its shadow counts.
pub fn before(description: &Description) {
    if description.changes && any_strangers() {
        bring(description.name(), true);
    }
}

/// The same before it is changed: under the node's lock, with its shadow open in `fd`.
pub fn take_if_strangers(name: ShadowName, fd: i32) {
    if any_strangers()
        && strangers_have(name)
        && let Err(error) = take_changes(name, fd)
    {
        lost(name, &error);
    }
}

/// The shadow in `fd` has followed a change of `file`: nobody else has written it. Under the node's
/// lock.
pub fn mark_if_strangers(file: &dyn File, fd: i32) -> culvert::Result<()> {
    match any_strangers() {
        true => match mark_equal(file, fd) {
            // Another user by now: who looks next compares equal bytes in vain.
            Err(error) if error.errno() == Errno::EPERM => Ok(()),
            marked => marked,
        },
        false => Ok(()),
    }
}

fn lost(name: ShadowName, error: &culvert::Error) {
    crate::log!(
        "what a program that is not intercepted wrote to node {:x} of mount {} is lost: {error}",
        name.node.0,
        name.mount
    );
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

/// Brings what was written to one shadow. Without `wait` only if nobody is at the node: the caller
/// may be itself.
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
        && let Err(error) = take_changes(name, writable.0)
    {
        lost(name, &error);
    }
    process::get().table.posix_locks.close(name, writable);
}

/// The shadow, if there is one that is kept equal.
fn open_existing(name: ShadowName) -> Option<Descriptor> {
    let path = process::get().run.shadow(name);
    let opened = match shadow::open(&path, O_RDWR as usize, 0) {
        Ok(opened) => opened,
        Err(_) => Descriptor(dup_high(kept(name)?.number(), true).ok()?),
    };
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
    let accessed = (found.st_atime as i64, found.st_atime_nsec as u32);
    shadow::is_filled(found)
        && accessed != equal_access_time(found.st_mtime as i64, found.st_mtime_nsec as u32)
}

/// The time of access of a shadow that nobody else has written since it was last modified: not that
/// time itself, which is what the kernel sets when one who has just written it reads it
/// (`relatime_need_update`, fs/inode.c).
const fn equal_access_time(seconds: i64, nanoseconds: u32) -> (i64, u32) {
    (seconds, nanoseconds ^ 1)
}

/// Brings what strangers wrote to the shadow in `fd` to the driver. Under the node's lock.
pub fn take_changes(name: ShadowName, fd: i32) -> culvert::Result<()> {
    let found = stat_descriptor(fd)?;
    if !was_written(&found) {
        return Ok(());
    }
    let file = writable(name)?;
    let size = found.st_size as u64;
    let given = given(name);
    // What was cut off is not known any more: the same bytes at the same place are new ones, in a
    // file that was cut, too.
    given.iter().for_each(|given| given.cut(size));
    if file.attributes()?.size != size {
        file.set_attributes(&SetAttributes {
            size: Some(size),
            ..Default::default()
        })?;
    }
    let known = match given {
        Some(given) => given.bring(&*file, fd, size)?,
        None => 0,
    };
    bytes::write_back(&*file, fd, &[(known, size)], false)?;
    if known != 0 {
        shadow::touch(fd)?;
    }
    mark_equal(&*file, fd)
}

/// The file of `name`, opened anew for reading and writing.
pub fn writable(name: ShadowName) -> culvert::Result<alloc::boxed::Box<dyn File>> {
    opened(name, O_RDWR)
}

/// The file of `name`, opened anew with the access mode `flags`.
pub fn opened(name: ShadowName, flags: u32) -> culvert::Result<alloc::boxed::Box<dyn File>> {
    let file_system = process::get().mounts.driver(MountId(name.mount))?;
    match file_system.open(&process::caller(), name.node, OpenFlags(flags))? {
        Opened::Driven(file) => Ok(file),
        Opened::Backed(fd) => {
            drop(Descriptor(fd));
            Err(Errno::EIO.into())
        }
    }
}

/// Whether [`opened`] fails with `error` because the file is not this process's to open, as it is of
/// another user by now, or is no file any more. Any other error may pass, and is the caller's.
pub fn is_out_of_reach(error: &culvert::Error) -> bool {
    use Errno as E;
    matches!(
        error.errno(),
        E::EACCES | E::EPERM | E::EROFS | E::ENOENT | E::ESTALE
    )
}

/// Says that nobody else has written the shadow in `fd` since it became equal to `file`.
pub fn mark_equal(file: &dyn File, fd: i32) -> culvert::Result<()> {
    mark_equal_to(&file.attributes()?, fd)
}

/// The same: equal to the file as it was when it had these attributes. Who compares the bytes asks
/// for them before, so that what somebody outside of the run changes meanwhile is seen the next
/// time.
pub fn mark_equal_to(attributes: &Attributes, fd: i32) -> culvert::Result<()> {
    let modified = attributes.mtime;
    let accessed = equal_access_time(modified.seconds, modified.nanoseconds);
    let times = [
        [accessed.0 as usize, accessed.1 as usize],
        [modified.seconds as usize, modified.nanoseconds as usize],
    ];
    // SAFETY: sets the times of our own file.
    unsafe { syscall::call(nr::UTIMENSAT, [fd as usize, 0, times.as_ptr() as usize, 0]) }?;
    Ok(())
}

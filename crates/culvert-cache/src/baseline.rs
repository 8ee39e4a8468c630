//! What programs that are not intercepted were given of a shadow, and what they wrote to it.

use super::bytes;
use super::pinned::pinned;
use super::reopen;
use super::state::{self, State};
use crate::shadow::{self, OwnedFd};
use alloc::ffi::CString;
use alloc::{format, vec};
use core::sync::atomic::Ordering::*;
use culvert::{Caller, Errno, File, SetAttributes};
use culvert_run::{self as run, ShadowName, stat_descriptor, task};
use culvert_sys::fs;
use culvert_sys::raw::general::O_RDWR;

/// Whether a program that is not intercepted may have written to any shadow.
#[inline]
pub(crate) fn any_strangers() -> bool {
    let notes = run::get().node_locks.notes();
    notes.is_some_and(|notes| notes.strangers.load(Relaxed) != 0)
}

/// What strangers were given: the mark of a shadow, which holds its bytes as they were when they
/// were given, or followed the file since. Bytes that are others in the shadow are what strangers
/// have written; the rest may be old, where others store into a mapping of the file itself. Not of
/// all bytes: what lies behind its end is not known.
pub struct Baseline(OwnedFd);

/// What strangers were given of the shadow of `name`, if they were. Under the node's lock.
pub fn baseline(name: ShadowName) -> Result<Option<Baseline>, Errno> {
    if !any_strangers() {
        return Ok(None);
    }
    match shadow::open(&mark_of(name), O_RDWR, 0) {
        Ok(mark) => Ok(Some(Baseline(mark))),
        // It is not found below another root, nor by another user.
        Err(Errno::ENOENT | Errno::EACCES) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Baseline {
    fn length(&self) -> u64 {
        stat_descriptor(self.0.raw()).map_or(0, |found| found.st_size as u64)
    }

    /// Holds what the shadow in `fd` holds. Where there is no room for it nothing is known.
    pub(crate) fn remember(&self, fd: i32) {
        let mut at = 0;
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            let copied = bytes::read_shadow(fd, at, &mut buffer).map_err(Into::into);
            let copied = copied.and_then(|count| {
                shadow::write_all(self.0.raw(), at, &buffer[..count]).map(|()| count)
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
            let _ = bytes::set_length(self.0.raw(), size);
        }
    }

    /// The shadow has got `bytes` at byte `at`. What lies between is not known any more where that
    /// is more than was known.
    pub fn note(&self, at: u64, bytes: &[u8]) -> culvert::Result<()> {
        let known = self.length().saturating_sub(at).min(bytes.len() as u64) as usize;
        shadow::write_all(self.0.raw(), at, &bytes[..known])
    }

    /// What others have stored into a mapping of `file` comes to the shadow in `fd`, but where
    /// strangers have written: so that the next one sees it, and that it is known whether it writes
    /// the same bytes once more.
    pub(crate) fn renew(&self, file: &dyn File, fd: i32) -> culvert::Result<()> {
        let known = (0, self.length());
        bytes::each_difference(file, fd, known, &mut |at, ours, theirs| {
            let mut then = vec![0u8; ours.len()];
            let got = bytes::read_shadow(self.0.raw(), at, &mut then)?;
            let is_old = |i: usize| ours[i] != theirs[i] && theirs[i] == then[i];
            let mut from = 0;
            while let Some(first) = (from..got).find(|&i| is_old(i)) {
                let last = (first..got).find(|&i| !is_old(i)).unwrap_or(got);
                let place = at + first as u64;
                shadow::write_all(fd, place, &ours[first..last])?;
                shadow::write_all(self.0.raw(), place, &ours[first..last])?;
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
            let got = got.min(bytes::read_shadow(self.0.raw(), at, &mut then[..want])?);
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
                shadow::write_all(self.0.raw(), place, &now[first..last])?;
                from = last;
            }
            at += got as u64;
        }
        Ok(end)
    }
}

/// The file that says that strangers were given the shadow of `name`.
pub(crate) fn mark_of(name: ShadowName) -> CString {
    run::get().file(&format!("strangers/{}", name.text()))
}

/// Whether strangers were given the shadow of `name`.
pub fn strangers_have(name: ShadowName) -> bool {
    let mark = mark_of(name);
    let marked = fs::access(&mark, 0).is_ok();
    // Below another root the mark is not found.
    marked || task::has_left() && pinned(name).is_some()
}

/// The file of `name` is none any more: what is given its number is another one, of which nobody
/// was given anything. Under the node's lock.
pub fn disown(name: ShadowName) {
    if !any_strangers() {
        return;
    }
    let mark = mark_of(name);
    if fs::unlink(&mark).is_ok()
        && let Some(notes) = run::get().node_locks.notes()
    {
        notes.strangers.fetch_sub(1, AcqRel);
    }
}

/// The same before it is changed: under the node's lock, with its shadow open in `fd`.
pub fn take_if_strangers(name: ShadowName, fd: i32) -> culvert::Result<()> {
    match any_strangers() && strangers_have(name) {
        true => unless_out_of_reach(name, take_changes(name, fd)),
        false => Ok(()),
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

/// What was `brought` of the file of `name`: where that is not this process's to write the log says
/// so, and it goes on with what the driver has.
pub(crate) fn unless_out_of_reach(
    name: ShadowName,
    brought: culvert::Result<()>,
) -> culvert::Result<()> {
    let Err(error) = brought else { return Ok(()) };
    culvert_sys::log!(
        "what a program that is not intercepted wrote to {name} does not come to its file: {error}"
    );
    // Below another root a driver may have no way to its files.
    match reopen::is_out_of_reach(&error) || task::has_left() {
        true => Ok(()),
        false => Err(error),
    }
}

/// Brings what strangers wrote to the shadow in `fd` to the driver. Under the node's lock.
pub fn take_changes(name: ShadowName, fd: i32) -> culvert::Result<()> {
    let found = stat_descriptor(fd)?;
    // Strangers get one that follows only. One that has become the file since it was opened does
    // not: the driver's file with that number is another one.
    if !state::is_written(&found) || !State::of(&found).follows() {
        return Ok(());
    }
    let file = reopen::for_writing(name)?;
    let size = found.st_size as u64;
    let baseline = baseline(name)?;
    // What was cut off is not known any more: the same bytes at the same place are new ones, in a
    // file that was cut, too.
    baseline.iter().for_each(|baseline| baseline.cut(size));
    if file.attributes(&Caller::SYSTEM)?.size != size {
        file.set_attributes(
            &Caller::SYSTEM,
            &SetAttributes {
                size: Some(size),
                ..Default::default()
            },
        )?;
    }
    let known = match baseline {
        Some(baseline) => baseline.bring(&*file, fd, size)?,
        None => 0,
    };
    bytes::write_back(&*file, fd, &[(known, size)], false)?;
    if known != 0 {
        state::touch(fd)?;
    }
    mark_equal(&*file, fd)
}

/// Says that nobody else has written the shadow in `fd` since it became equal to `file`.
pub fn mark_equal(file: &dyn File, fd: i32) -> culvert::Result<()> {
    Ok(state::set_equal(fd, &file.attributes(&Caller::SYSTEM)?)?)
}

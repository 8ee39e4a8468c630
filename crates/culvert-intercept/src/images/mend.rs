//! An image that was cut while it is mapped.
//!
//! Whoever cuts a file takes its pages from all who have mapped it, and their next step there is
//! SIGBUS. What an image holds follows from the object's own file alone, so it is made once more,
//! byte for byte, and mapped in the old one's place: each stub is where it was.

use super::calls::{MAP_FIXED, MAP_PRIVATE, PROT_EXEC, PROT_READ, map};
use super::layout::{self, Key};
use super::store::{Bytes, fill, may_write};
use super::{Images, get, index};
use crate::elf::Image;
use crate::maps::{self, Mapping};
use crate::registry::{self, StandsFor};
use alloc::ffi::CString;
use alloc::vec::Vec;
use core::ops::Range;
use culvert_sys::fd::{AsFd, CWD};
use culvert_sys::flags::OFlags;
use culvert_sys::sync::Mutex;
use culvert_sys::{Errno, OwnedFd, fd, fs, nr, syscall};

/// Threads may meet the same hole.
static MENDING: Mutex<()> = Mutex::new(());

/// For the handler of SIGBUS: whether an image may be what was missing at `address`. Takes no lock.
pub(crate) fn may_mend(address: usize) -> bool {
    get().is_some() && registry::image_at(address as u64, None).is_some()
}

/// Whether the byte of an image at `address`, which was missing, is there again. In a hook, with
/// all signals blocked.
pub(crate) fn mend(address: usize) -> bool {
    let _alone = MENDING.lock();
    get().is_some_and(|images| images.mend(address as u64).is_ok())
}

/// Whether the byte at `address` can be read. The kernel is asked, as a fault would be a signal.
fn is_there(address: u64) -> bool {
    /// It reads the mask first, then finds that this is nothing to do with one (EINVAL).
    const NOTHING: usize = u32::MAX as usize;
    let arguments = [NOTHING, address as usize & !7, 0, 8, 0, 0];
    // SAFETY: a call that fails in any case.
    let answer = unsafe { syscall::call(nr::RT_SIGPROCMASK, arguments) };
    answer != Err(Errno::EFAULT)
}

impl Images {
    fn mend(&self, at: u64) -> Result<(), Errno> {
        let all = maps::with_paths()?;
        let holds = |(one, _): &&(Mapping, Vec<u8>)| (one.start..one.end).contains(&at);
        let cut = all.iter().find(holds).ok_or(Errno::EFAULT)?.0.file;
        let found = registry::image_at(at, Some(cut.1)).ok_or(Errno::EFAULT)?;
        if is_there(at) {
            return Ok(()); // another thread was here
        }
        let (key, layout) = (&found.file.key, &found.file.layout);
        let object = found.bias..found.bias + layout.extent();
        let is_inside = |one: &Mapping| object.start <= one.start && one.end <= object.end;
        let others = all.iter().filter(|(one, _)| is_inside(one));
        let original = others
            .filter(|(one, _)| one.file.1 == key.inode())
            .find_map(|(one, path)| open(one, path, key))
            .ok_or(Errno::ENOENT)?;
        let new = self.again(&original, &found.file)?;
        let is_cut = |one: &&(Mapping, _)| one.0.file == cut && !one.0.shared && is_inside(&one.0);
        for (one, _) in all.iter().filter(is_cut) {
            let rights = [0, PROT_READ][usize::from(one.readable)]
                | [0, PROT_EXEC][usize::from(one.executable)];
            let from = Some((new.as_fd(), one.offset));
            let flags = MAP_PRIVATE | MAP_FIXED;
            map(one.start, one.end - one.start, rights, flags, from)?;
        }
        registry::mapped_anew(&found, fs::fstat(&new)?.st_ino);
        Ok(())
    }

    /// A file without a name that has all the bytes of the image.
    fn again(&self, original: &OwnedFd, lost: &StandsFor) -> Result<OwnedFd, Errno> {
        const MFD_CLOEXEC: u32 = 1;
        let (key, layout) = (&lost.key, &lost.layout);
        if !may_write(layout.extent()) {
            return Err(Errno::EFBIG);
        }
        let bytes = Bytes::of(original.as_fd(), key.size()).ok_or(Errno::ENOMEM)?;
        let image = Image::of_file(bytes.get()).map_err(|_| Errno::ENOEXEC)?;
        let wanted: Vec<_> = self.store.sites(&image, bytes.get());
        let planned = layout::plan(key, bytes.get(), &image, &wanted, layout.slots);
        let planned = planned.map_err(|_| Errno::ENOEXEC)?;
        // The same engine makes the same of the same file.
        if planned.layout != *layout {
            return Err(Errno::ESTALE);
        }
        let filled = |new: OwnedFd| fill(new.as_fd(), bytes.get(), &planned).map(|()| new);
        let new = index::unnamed(self.store.directory, 0o400)
            .and_then(filled)
            // The store may be gone, or full.
            .or_else(|_| fd::memfd_create(c"image", MFD_CLOEXEC).and_then(filled))?;
        // Not of a file that changed while it was read.
        match Key::of(&fs::fstat(original)?) == *key {
            true => Ok(new),
            false => Err(Errno::ESTALE),
        }
    }
}

/// The file `key`, of which `mapping` shows a part, by its path; or, where it has none any more, by
/// the mapping itself, which root may (proc_pid_map_files(5)).
fn open(mapping: &Mapping, path: &[u8], key: &Key) -> Option<OwnedFd> {
    let Range { start, end } = mapping.start..mapping.end;
    let shown = alloc::format!("/proc/self/map_files/{start:x}-{end:x}");
    [Vec::from(path), shown.into_bytes()]
        .into_iter()
        .find_map(|path| {
            let flags = OFlags::CLOEXEC | OFlags::NONBLOCK;
            let file = fs::openat(CWD, &CString::new(path).ok()?, flags, 0).ok()?;
            (Key::of(&fs::fstat(&file).ok()?) == *key).then_some(file)
        })
}

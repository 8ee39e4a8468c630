//! A shadow becomes the file: before another program gets it, or when its last name goes that
//! others hold.

use crate::OpenFile;
use crate::baseline;
use crate::filling;
use crate::orphan_file::record::{
    InodeRecord, all, last_of, number, open_record, path_of, record_of, since,
};
use crate::orphan_file::{COUNT, Xattrs, group, hand_over_xattrs, xattrs_of};
use crate::shadow::{self, OwnedFd};
use crate::state::{self, State};
use crate::strangers;
use crate::{bytes, records, reopen, room};
use alloc::{boxed::Box, format};
use core::sync::atomic::Ordering::*;
use culvert::{Attributes, Caller, Errno, File, FileKind, Result, Timespec};
use culvert_mounts::MountId;
use culvert_run::files::c_string;
use culvert_run::{self as run, ShadowName, read_link, stat_descriptor, stat_path};
use culvert_sys::fs;
use culvert_sys::raw::general::O_CREAT;
use culvert_sys::raw::general::O_RDWR;

/// A name of a file is about to go.
pub struct Losing {
    name: ShadowName,
    /// None: the caller may not read it.
    file: Option<Box<dyn File>>,
    /// It is the last one, as far as is known.
    last: bool,
    /// If it is: a driver may not know them any more when it is gone.
    xattrs: Xattrs,
}

/// A name of `node` is about to be removed or replaced: none where no other process can have a
/// shadow of it.
pub fn losing(mount: MountId, found: &Attributes) -> Option<Losing> {
    let file_system = strangers::file_system(mount).ok()?;
    if found.kind != FileKind::Regular || !file_system.capabilities().transient_nodes {
        return None;
    }
    let name = ShadowName {
        mount,
        node: found.node,
    };
    if !shadow::may_be_any() {
        return None;
    }
    stat_path(&run::get().shadow(name)).ok()?;
    if culvert_run::task::is_confined() {
        return None;
    }
    strangers::before_losing(name);
    let file = reopen::for_reading(name).ok();
    let last = found.links <= 1;
    let xattrs = match last && file.is_some() {
        true => xattrs_of(file_system, name.node),
        false => Xattrs::new(),
    };
    Some(Losing {
        name,
        file,
        last,
        xattrs,
    })
}

impl Losing {
    /// The name is gone. If it was the last one, and somebody has the shadow, who may not know the
    /// driver's file, that is the file from now on; a shadow that nobody has is emptied, for its
    /// number may be another file's next.
    pub fn lost(self) {
        let name = self.name;
        let nameless = match &self.file {
            Some(file) => file
                .attributes(&Caller::SYSTEM)
                .is_ok_and(|it| it.links == 0),
            None => self.last,
        };
        if !nameless || room::discard(name) || !culvert_run::holders::is_held(name) {
            return;
        }
        let Some(file) = self.file.as_deref() else {
            return;
        };
        let made = shadow::open_shadow(name, O_RDWR).map_err(culvert::Error::from);
        let result = made.and_then(|writable| {
            let locks = &run::get().node_locks;
            let lock = locks.lock(name);
            let result = take_over(name, (file, file), self.xattrs, &writable);
            drop(lock);
            run::get().posix_locks.close(name, writable);
            result
        });
        if let Err(error) = result {
            report(name, &error);
        }
    }
}

fn report(name: ShadowName, error: &culvert::Error) {
    culvert_sys::log!(
        "{name}, which has no name any more, is lost to processes that have not opened it: {error}"
    );
}

/// Makes the shadow of what is `open` the file, if that has no name any more: another program is
/// about to get it. `seen`: what [`count`](crate::orphan_file::count) was when it was opened. What
/// fails is EIO there, with the reason in the log.
pub fn hand_over(open: &dyn OpenFile, seen: u32) {
    if let Err(error) = become_file(open, seen) {
        report(open.name(), &error);
    }
}

fn become_file(open: &dyn OpenFile, seen: u32) -> Result<()> {
    let (name, file) = (open.name(), open.file()?);
    if file.attributes(&Caller::SYSTEM)?.links != 0
        || open.orphan().is_some()
        || since(name, seen)?.is_some()
    {
        return Ok(());
    }
    sweep();
    let anew;
    let reader = match open.readable() {
        Ok(file) => file,
        Err(_) => {
            anew = reopen::for_reading(name)?;
            &*anew
        }
    };
    let writable = shadow::open_shadow(name, O_RDWR)?;
    let driver = run::get().mounts.driver(name.mount)?;
    let result = {
        let locks = &run::get().node_locks;
        let _lock = locks.lock(name);
        let xattrs = xattrs_of(driver, name.node);
        take_over(name, (file, reader), xattrs, &writable)
    };
    run::get().posix_locks.close(name, writable);
    result
}

/// Makes the shadow in `writable` the file, under the node's lock.
fn take_over(
    name: ShadowName,
    (file, reader): (&dyn File, &dyn File),
    xattrs: Xattrs,
    writable: &OwnedFd,
) -> Result<()> {
    let fd = writable.raw();
    let found = stat_descriptor(fd)?;
    if State::of(&found) == State::Orphan {
        // Somebody was faster.
        return Ok(());
    }
    let group = group(name).ok_or(Errno::ENOMEM)?;
    let strangers = State::of(&found).follows() && baseline::strangers_have(name);
    let brought = match strangers {
        true => baseline::take_changes(name, fd),
        false => Ok(()),
    };
    // A driver that finds its nodes by names does not find this one any more: what strangers wrote
    // since it was brought is in the shadow alone.
    let in_shadow_alone = match brought {
        Ok(()) => false,
        Err(error) if reopen::is_out_of_reach(&error) => true,
        Err(error) => return Err(error),
    };
    // While it is mapped so that it can be written, or strangers may write, the shadow holds the
    // truth.
    match State::of(&found).follows() && (strangers || records::any(name)?) {
        true => {
            if let Some(baseline) = baseline::baseline(name)?.filter(|_| strangers) {
                baseline.renew(reader, fd)?;
            }
            filling::complete_in_room(reader, fd)?;
        }
        false => {
            let fresh = state::is_fresh(&found);
            room::make(
                file.attributes(&Caller::SYSTEM)?
                    .size
                    .saturating_sub(found.st_blocks as u64 * 512),
            )?;
            bytes::equalise(reader, fd, fresh)?;
        }
    }
    let now = file.attributes(&Caller::SYSTEM)?;
    let mut kept = InodeRecord {
        name,
        count: (group.followed.load(Acquire) >> COUNT) + 1,
        inode: now.inode,
        permissions: now.permissions,
        owner: (now.uid, now.gid),
        block_size: now.block_size,
        made: now.btime,
        changed: now.ctime,
        since: Timespec::default(),
    };
    let (folder, first) = (run::get().file("gone"), run::get().shadow(name));
    let (second, last) = (path_of(found.st_ino), last_of(name));
    let text = c_string(format!("{:x}", found.st_ino));
    let _ = culvert_run::make_directory(&folder);
    let record = open_record(found.st_ino, O_RDWR | O_CREAT)?;
    kept.write(&record)?;
    match fs::link(&first, &second) {
        // Somebody was killed who had begun.
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let _ = fs::unlink(&last);
    fs::symlink(&text, &last)?;
    let _ = fs::unlink(&first);
    hand_over_xattrs(xattrs, name.node, found.st_ino);
    if !in_shadow_alone {
        state::set_times(fd, &now);
    }
    state::set(fd, &found, State::Orphan, &now)?;
    baseline::disown(name);
    let marked = stat_descriptor(fd)?;
    kept.since = state::changed(&marked);
    // Only the time of change depends on it.
    let _ = kept.write(&record);
    // Groups have one lock, which is held.
    group.followed.fetch_add(1 << COUNT, AcqRel);
    Ok(())
}

/// Removes what nobody has open any more.
fn sweep() {
    for inode in all().unwrap_or_default() {
        let path = path_of(inode);
        let Ok(kept) = open_record(inode, 0).and_then(|record| InodeRecord::read(&record)) else {
            continue;
        };
        let Ok(alone) = culvert_run::holders::alone_at(kept.name, &path) else {
            continue;
        };
        // Who opened it by its driver and has not looked yet would lose what others wrote.
        let unchanged =
            stat_descriptor(alone.raw()).is_ok_and(|now| state::changed(&now) == kept.since);
        if !unchanged {
            run::get().posix_locks.close(kept.name, alone);
            continue;
        }
        let last = last_of(kept.name);
        if read_link(&last).is_ok_and(|text| number(&text) == Some(inode)) {
            let _ = fs::unlink(&last);
        }
        let _ = fs::unlink(&record_of(inode));
        let _ = fs::unlink(&path);
        run::get().posix_locks.close(kept.name, alone);
    }
}

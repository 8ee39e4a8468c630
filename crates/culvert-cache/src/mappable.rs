//! What mmap(2) is given for a file whose bytes only its driver has: its shadow, filled with them,
//! or one that the pager fills.

use super::filling;
use super::room;
use super::state::{self, State};
use super::{fill, pager};
use crate::shadow::{ToShadow, open_shadow};
use culvert::{Caller, Errno, File};
use culvert_run::files::OwnedFd;
use culvert_run::task::limits::set_length;
use culvert_run::{self as run, ShadowName, stat_descriptor, stat_path};

/// Fills the shadow of `name` with the bytes of `file` unless it is filled already.
pub fn fill(name: ShadowName, file: &dyn File) -> culvert::Result<()> {
    let path = run::get().shadow(name);
    if stat_path(&path).is_ok_and(|found| State::of(&found).has_all()) {
        return Ok(());
    }
    // Open for writing under the lock only: while it is, nobody can execute it (vfs/busy.rs).
    let _lock = run::get().node_locks.lock(name);
    let writable = match open_shadow(name, 0o2) {
        // Somebody has filled it meanwhile, and executes it.
        Err(Errno::ETXTBSY) if stat_path(&path).is_ok_and(|found| State::of(&found).has_all()) => {
            return Ok(());
        }
        opened => opened?,
    };
    let result = fill_opened(file, &writable);
    run::get().posix_locks.close(name, writable);
    result
}

fn fill_opened(file: &dyn File, writable: &OwnedFd) -> culvert::Result<()> {
    let found = stat_descriptor(writable.raw())?;
    if State::of(&found).has_all() {
        return Ok(());
    }
    if State::of(&found).is_partly() {
        return filling::complete_in_room(file, writable.raw());
    }
    let attributes = file.attributes(&Caller::SYSTEM)?;
    room::make(attributes.size)?;
    let mut sink = ToShadow {
        fd: writable.raw(),
        at: 0,
        room: 0,
    };
    while sink.at < attributes.size {
        sink.room = (attributes.size - sink.at).min(1 << 20) as usize;
        if file.read_at(sink.at, &mut sink)? == 0 {
            return Err(culvert::Error::because(
                Errno::EIO,
                "the file ended before its size",
            ));
        }
    }
    set_length(writable.raw(), attributes.size)?;
    state::set_times(writable.raw(), &attributes);
    let filled = State::Filled { follows: false };
    Ok(state::set(writable.raw(), &found, filled, &attributes)?)
}

/// Makes the shadow of `name`, whose file never changes, one that the pager fills when it is mapped
/// and touched; whether it is one.
fn begin(name: ShadowName, file: &dyn File) -> culvert::Result<bool> {
    let writable = match open_shadow(name, 0o2) {
        // It is being executed, and was filled for that.
        Err(Errno::ETXTBSY) => return Ok(false),
        opened => opened?,
    };
    let result = begin_opened(name, file, &writable);
    run::get().posix_locks.close(name, writable);
    result
}

fn begin_opened(name: ShadowName, file: &dyn File, writable: &OwnedFd) -> culvert::Result<bool> {
    let is_lazy = |found: &culvert_sys::raw::general::stat| State::of(found).is_partly();
    let may_be =
        |found: &culvert_sys::raw::general::stat| state::is_fresh(found) && fill::is_fit(found);
    let found = stat_descriptor(writable.raw())?;
    let attributes = file.attributes(&Caller::SYSTEM)?;
    // Before the lock, for which the pager may be waiting.
    if !(is_lazy(&found) || may_be(&found) && pager::lazy(name, attributes.size)) {
        return Ok(false);
    }
    let _lock = run::get().node_locks.lock(name);
    let found = stat_descriptor(writable.raw())?;
    if may_be(&found) {
        set_length(writable.raw(), attributes.size)?;
        state::set_times(writable.raw(), &attributes);
        let partly = State::Partly { follows: false };
        state::set(writable.raw(), &found, partly, &attributes)?;
        return Ok(true);
    }
    Ok(is_lazy(&found))
}

/// What mmap is given for a description: its own descriptor when that is a filled shadow already,
/// else a new one on the filled shadow.
///
/// A new one is avoided where possible: closing it would drop the POSIX locks that this process has
/// on the shadow (fcntl(2)).
pub enum Mappable {
    /// The program's own descriptor.
    Own(i32),
    /// A descriptor for this purpose.
    Other(OwnedFd),
}

impl Mappable {
    /// The descriptor's number.
    pub fn number(&self) -> i32 {
        match self {
            Self::Own(fd) => *fd,
            Self::Other(fd) => fd.raw(),
        }
    }
}

impl Mappable {
    /// That of the shadow of `name` has been mapped.
    pub fn close(self, name: ShadowName) {
        if let Self::Other(descriptor) = self {
            run::get().posix_locks.close(name, descriptor);
        }
    }
}

/// Something to map for `file`, whose shadow is that of `name`; `own`: a descriptor of it that the
/// program has. `on_demand`: it may be one that the pager fills (`pager::mapped`).
pub fn mappable(
    name: ShadowName,
    file: &dyn File,
    own: Option<i32>,
    on_demand: bool,
) -> culvert::Result<Mappable> {
    // Open all the time, so that nobody empties it before it is mapped.
    let mappable = match own {
        Some(fd) if State::of(&stat_descriptor(fd)?).has_all() => return Ok(Mappable::Own(fd)),
        Some(fd) => Mappable::Own(fd),
        None => Mappable::Other(open_shadow(name, 0)?),
    };
    let begun = match on_demand {
        true => begin(name, file),
        false => Ok(false),
    };
    let ready = begun.and_then(|begun| match begun {
        true => Ok(()),
        false => fill(name, file),
    });
    match ready {
        Ok(()) => Ok(mappable),
        Err(error) => {
            mappable.close(name);
            Err(error)
        }
    }
}

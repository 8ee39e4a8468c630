//! Filling all of a shadow at once, within the bound of the run.

use super::fill::{complete, lacking};
use super::reopen;
use super::room;
use crate::shadow::open_shadow;
use culvert::{Errno, File};
use culvert_run::{self as run, ShadowName};

/// [`complete`] within the bound of the run. ENOMEM, with the reason in the log, where there is no
/// room.
pub fn complete_in_room(file: &dyn File, shadow: i32) -> culvert::Result<()> {
    room::make(lacking(file, shadow)?)?;
    complete(file, shadow).map_err(no_room)
}

/// Fills all of the shadow of `name`, and marks it so.
pub fn all(name: ShadowName) -> culvert::Result<()> {
    let (file, shadow) = (reopen::for_reading(name)?, open_shadow(name, 2)?);
    let result = lacking(&*file, shadow.raw())
        .and_then(|bytes| Ok(room::make(bytes)?))
        .and_then(|()| {
            let _lock = run::get().node_locks.lock(name);
            complete(&*file, shadow.raw()).map_err(no_room)
        });
    run::get().posix_locks.close(name, shadow);
    result
}

fn no_room(error: culvert::Error) -> culvert::Error {
    match error.errno() {
        Errno::ENOSPC | Errno::EDQUOT => {
            culvert_sys::log!(
                "a file that is mapped cannot be filled: its bytes find no room in the run \
                directory: {error}"
            );
            Errno::ENOMEM.into()
        }
        _ => error,
    }
}

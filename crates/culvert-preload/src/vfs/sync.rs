//! Making durable what was written.

use crate::answer::Answer;
use crate::description::{Held, Object, report};
use crate::process::Process;
use culvert::Errno;

/// How much of a file sync(2) and its kin make durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// fsync(2): all of it.
    File,
    /// fdatasync(2): the data, and what is needed to find them.
    Data,
    /// sync_file_range(2): the data, of files alone.
    Range,
    /// syncfs(2): the whole file system.
    FileSystem,
}

/// fsync(2) and its kin.
pub fn sync(held: &Held, extent: Extent) -> Answer {
    let data_only = extent != Extent::File;
    let file_system = || culvert_cache::file_system(held.mount);
    let (what, synced) = match &held.object {
        Object::Path => return Err(Errno::EBADF),
        _ if extent == Extent::FileSystem => {
            let file_system = file_system()?;
            culvert_cache::write_back_all();
            ("syncfs", file_system.sync())
        }
        Object::File(file) => {
            let written = culvert_cache::write_back(&**held);
            ("fsync", written.and_then(|()| file.sync(data_only)))
        }
        Object::Directory if extent == Extent::Range => return Ok(0),
        Object::Directory => {
            let synced = match &held.listing {
                Some(listing) => listing.sync(data_only),
                None => file_system()?.sync_directory(held.node, data_only),
            };
            ("fsync", synced)
        }
        Object::Fifo | Object::Broken => return Err(Errno::EIO),
    };
    synced
        .map(|()| 0)
        .map_err(|error| report(held, what, &error))
}

/// sync(2), but for what is the kernel's: what was stored in mappings goes to their drivers, and
/// what these delay to where they keep it. It tells of no errors.
pub fn sync_all(process: &Process) {
    culvert_cache::write_back_all();
    let mounts = &process.mounts;
    for mount in mounts.ids() {
        // A tree of the kernel's is written by the call itself.
        let driver = mounts.driver_if_open(mount);
        if let Some(driver) = driver.filter(|driver| driver.backing().is_none())
            && let Err(error) = driver.sync()
        {
            culvert_sys::log!("sync of mount {}: {error}", mount.0);
        }
    }
}

//! Programs on a mount, as files that the kernel can execute.

use crate::process::Process;
use alloc::ffi::CString;
use core::ffi::CStr;
use culvert::Errno;
use culvert_cache::{shadow, state, strangers};
use culvert_run::{ShadowName, files::c_string, stat_path};
use culvert_sys::fs;

/// What the kernel is given for a program on a mount.
pub struct Executable {
    /// Its path, NUL-terminated.
    pub host: CString,
    /// It is the node's shadow; else the driver's own file.
    pub is_shadow: bool,
}

/// What the kernel is given for the program at `path` of a mount: the filled shadow, under the path
/// that it has on the mount, so that `/proc/self/exe` and `$ORIGIN` still say where it came from.
/// `ETXTBSY` when it is open for writing.
pub fn materialise(process: &Process, path: &[u8], name: ShadowName) -> Result<Executable, Errno> {
    let file_system = culvert_cache::file_system(name.mount)?;
    let attributes = file_system
        .attributes(&culvert_run::task::caller(), name.node)
        .map_err(|error| error.errno())?;
    if attributes.kind != culvert::FileKind::Regular || attributes.permissions & 0o111 == 0 {
        return Err(Errno::EACCES);
    }
    let file = match file_system
        .open(
            &culvert_run::task::caller(),
            name.node,
            culvert::OpenFlags(0),
        )
        .map_err(|error| error.errno())?
    {
        culvert::Opened::Driven(file) => file,
        culvert::Opened::Backed(fd) => {
            return Ok(Executable {
                host: c_string(culvert_run::descriptor_path(fd.raw())?),
                is_shadow: false,
            });
        }
    };
    let immutable = file_system.capabilities().immutable;
    if !immutable {
        crate::vfs::busy::announce(process, name);
        match file.descriptor() {
            Some(fd) => crate::vfs::busy::may_execute(fd)?,
            None => {
                let written = file_system.is_open_for_writing(name.node);
                if written.map_err(|error| error.errno())? {
                    return Err(Errno::ETXTBSY);
                }
            }
        }
        strangers::renew(name, &*file).map_err(|error| error.errno())?;
    }
    // Open until it has a second name, so that nobody empties it.
    let kept = shadow::open_shadow(name, 0);
    match culvert_cache::mappable::fill(name, &*file).map_err(|error| error.errno()) {
        // It is being executed, so it is filled.
        Ok(()) | Err(Errno::ETXTBSY) => {}
        Err(error) => return Err(error),
    }
    // Where that is not done the kernel refuses to execute it.
    if let Ok(kept) = &kept {
        let lock = || process.node_locks.lock(name);
        let _ = state::make_executable(kept.raw(), lock);
    }
    let named = name_in(process, b"exe", path, &process.run.shadow(name));
    if let Ok(kept) = kept {
        process.run.posix_locks.close(name, kept);
    }
    Ok(Executable {
        host: named?,
        is_shadow: !immutable,
    })
}

/// Gives the file `source` of the run directory the name `path` below its directory `folder`, and
/// returns that.
pub fn name_in(
    process: &Process,
    folder: &[u8],
    path: &[u8],
    source: &CStr,
) -> Result<CString, Errno> {
    let mut target = [&process.run.path[..], b"/", folder].concat();
    let top = target.len();
    for part in path.split(|&b| b == b'/').filter(|part| !part.is_empty()) {
        target.push(b'/');
        target.extend_from_slice(part);
    }
    let place = c_string(&target[..]);
    let mut made = fs::link(source, &place);
    if let Err(Errno::ENOENT) = made {
        let slashes = (top..target.len()).filter(|&at| target[at] == b'/');
        for directory in slashes.map(|at| c_string(&target[..at])) {
            let _ = culvert_run::make_directory(&directory);
        }
        made = fs::link(source, &place);
    }
    match made {
        Ok(_) => return Ok(place),
        Err(Errno::EEXIST) => {}
        Err(error) => return Err(error),
    }
    // The program that had this path before may have been another one.
    if let (Ok(there), Ok(wanted)) = (stat_path(&place), stat_path(source))
        && (there.st_dev, there.st_ino) == (wanted.st_dev, wanted.st_ino)
    {
        return Ok(place);
    }
    let thread = culvert_sys::process::gettid() as isize;
    target.extend_from_slice(alloc::format!("\n{thread}").as_bytes());
    let new = c_string(target);
    fs::link(source, &new)?;
    // rename(2) leaves two links to one file as they are: the new one goes in any case.
    let renamed = fs::rename(&new, &place);
    let _ = fs::unlink(&new);
    renamed.map(|()| place)
}

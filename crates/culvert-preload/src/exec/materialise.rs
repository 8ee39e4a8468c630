//! Programs on a mount, as files that the kernel can execute.

use crate::looked_at;
use crate::memory::c_string;
use crate::process;
use crate::run::ShadowName;
use crate::shadow::{self, Descriptor};
use alloc::vec::Vec;
use culvert::Errno;
use culvert_sys::{nr, syscall};

/// The path that the kernel is given for a program on a mount: its filled shadow, under the path it has on the mount, so that `/proc/self/exe` and
/// `$ORIGIN` still say where it came from.
pub fn materialise(path: &[u8], name: ShadowName) -> Result<Vec<u8>, Errno> {
    let process = process::get();
    let file_system = process::file_system(crate::resolver::MountId(name.mount))?;
    let attributes = file_system
        .attributes(name.node)
        .map_err(|error| error.errno())?;
    if attributes.kind != culvert::FileKind::Regular || attributes.permissions & 0o111 == 0 {
        return Err(Errno::EACCES);
    }
    let file = match file_system
        .open(&process::caller(), name.node, culvert::OpenFlags(0))
        .map_err(|error| error.errno())?
    {
        culvert::Opened::Driven(file) => file,
        culvert::Opened::Backed(fd) => {
            return Ok(c_string(&crate::run::descriptor_path(Descriptor(fd).0)?));
        }
    };
    if !file_system.capabilities().immutable {
        looked_at::renew(name, &*file).map_err(|error| error.errno())?;
    }
    match shadow::fill(name, &*file).map_err(|error| error.errno()) {
        // It is being executed, so it is filled.
        Ok(()) | Err(Errno::ETXTBSY) => {}
        Err(error) => return Err(error),
    }
    let mut target = process.run.path.clone();
    target.extend_from_slice(b"/exe");
    for part in path.split(|&b| b == b'/').filter(|part| !part.is_empty()) {
        // SAFETY: the path ends in NUL. One that exists already is fine.
        let _ = unsafe { syscall::call(nr::MKDIR, [c_string(&target).as_ptr() as usize, 0o700]) };
        target.push(b'/');
        target.extend_from_slice(part);
    }
    let link = |to: &[u8]| {
        let shadow = process.run.shadow(name);
        // SAFETY: both paths end in NUL.
        unsafe { syscall::call(nr::LINK, [shadow.as_ptr() as usize, to.as_ptr() as usize]) }
    };
    let place = c_string(&target);
    match link(&place) {
        Ok(_) => Ok(place),
        // The program that had this path before may have been another one.
        Err(Errno::EEXIST) => {
            // SAFETY: gettid has no arguments.
            let thread = unsafe { syscall::raw(nr::GETTID, [0; 6]) };
            target.extend_from_slice(alloc::format!("\n{thread}").as_bytes());
            let new = c_string(&target);
            link(&new)?;
            let paths = [new.as_ptr() as usize, place.as_ptr() as usize];
            // SAFETY: both paths end in NUL. rename(2) leaves two links to one file as they are: the new one goes in any case.
            let renamed = unsafe {
                let renamed = syscall::call(nr::RENAME, paths);
                let _ = syscall::call(nr::UNLINK, [paths[0]]);
                renamed
            };
            renamed.map(|_| place)
        }
        Err(error) => Err(error),
    }
}

/// The path below a mount that `path` of an executed shadow stands for.
pub fn origin(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(&process::get().run.path[..])?
        .strip_prefix(b"/exe")
}

//! Who holds a node that has become a kernel file: asked by drivers that must know whether a file without a name is still in use.

use crate::process;
use crate::run::ShadowName;
use crate::shadow;
use culvert::{Errno, Node};
use culvert_sys::{nr, syscall};

/// Whether any process has the shadow of `name` open or mapped. A write lease is granted only where nobody else has (fcntl(2), F_SETLEASE; `check_conflicting_open`,
/// fs/locks.c). When in doubt it is held.
pub fn is_held(mount: u16, node: Node) -> bool {
    const F_SETLEASE: usize = 1024;
    const F_WRLCK: usize = 1;
    const F_SETSIG: usize = 10;
    const SIGURG: usize = 23;
    const O_WRONLY_NONBLOCK: usize = 0o1 | 0o4000;
    let name = ShadowName { mount, node };
    // To close a descriptor of it would drop this process's record locks, which say enough.
    if process::get().table.posix_locks.are_on(name) {
        return true;
    }
    let path = process::get().run.shadow(name);
    let file = match shadow::open(&path, O_WRONLY_NONBLOCK, 0) {
        Ok(file) => file,
        Err(Errno::ENOENT) => return false,
        Err(_) => return true,
    };
    // SAFETY: the lease is on a descriptor of our own, and ends with it. Who opens the shadow meanwhile makes the kernel send a signal, by default SIGIO,
    // which would end the program; SIGURG is ignored by default.
    let held = unsafe {
        syscall::call(nr::FCNTL, [file.0 as usize, F_SETSIG, SIGURG]).is_err()
            || syscall::call(nr::FCNTL, [file.0 as usize, F_SETLEASE, F_WRLCK]).is_err()
    };
    process::get().table.posix_locks.close(name, file);
    held
}

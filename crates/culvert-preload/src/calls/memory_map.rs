//! mmap of driven files: through the filled shadow.

use super::{Answer, descriptor, done};
use crate::description::{Held, Object};
use crate::shadow;
use culvert::Errno;
use culvert_intercept::{Call, Outcome};
use culvert_sys::{nr, syscall};

const PROT_WRITE: usize = 2;
const PROT_EXEC: usize = 4;
const MAP_SHARED: usize = 1;
const MAP_SHARED_VALIDATE: usize = 3;
const MAP_TYPE: usize = 0xf;
const MAP_ANONYMOUS: usize = 0x20;

/// mmap(2)
pub fn mmap(call: &mut Call) -> Outcome {
    let [_, length, _, flags, fd, _] = call.args;
    if flags & MAP_ANONYMOUS != 0 || length == 0 {
        return Outcome::Forward;
    }
    let Some(held) = descriptor(fd) else { return Outcome::Forward };
    done(map(&held, fd as i32, call))
}

fn map(held: &Held, fd: i32, call: &Call) -> Answer {
    let [address, length, protection, flags, _, offset] = call.args;
    match held.object {
        Object::File(_) => {}
        Object::Directory => return Err(Errno::ENODEV),
        Object::Path => return Err(Errno::EBADF),
    }
    let access = held.flags(fd)? & 3;
    let shared = matches!(flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE);
    // mmap(2), EACCES: no read permission, or a shared writable mapping of a descriptor that is not O_RDWR.
    if access == 1 || (shared && protection & PROT_WRITE != 0 && access != 2) {
        return Err(Errno::EACCES);
    }
    let shadow = shadow::mappable(held, fd).map_err(|error| super::io::report(held, "mmap", &error))?;
    // SAFETY: the program's own mapping call, with its own address and length, of the file's content.
    let start = unsafe { syscall::call(nr::MMAP, [address, length, protection, flags, shadow.number() as usize, offset]) }?;
    if protection & PROT_EXEC != 0 {
        culvert_intercept::code_mapped(start, length);
    }
    Ok(start)
}

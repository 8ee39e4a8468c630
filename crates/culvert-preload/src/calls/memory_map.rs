//! mmap of driven files: through the filled shadow.

use super::transfer::kernel_has_not;
use super::{Answer, done};
use crate::description::{Held, Object};
use crate::memory::{Span, UserSink};
use crate::process;
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
    if process::get().table.is_internal(fd as i32) {
        return done(Err(Errno::EBADF));
    }
    let Some(held) = kernel_has_not(fd) else {
        return Outcome::Forward;
    };
    done(map(&held, fd as i32, call))
}

fn map(held: &Held, fd: i32, call: &Call) -> Answer {
    let [address, length, protection, flags, _, offset] = call.args;
    match held.object {
        Object::File(_) | Object::Directory => {}
        Object::Path => return Err(Errno::EBADF),
        Object::Broken => return Err(Errno::EIO),
    }
    let access = held.flags(fd)? & 3;
    let shared = matches!(flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE);
    // mmap(2), EACCES: no read permission, or a shared writable mapping of a descriptor that is not O_RDWR.
    if access == 1 || (shared && protection & PROT_WRITE != 0 && access != 2) {
        return Err(Errno::EACCES);
    }
    if matches!(held.object, Object::Directory) {
        return Err(Errno::ENODEV);
    }
    if process::get().is_confined() && !(shared && protection & PROT_WRITE != 0) {
        return copy(held, call);
    }
    if let Some(start) = map_kernel_file(held, access, call)? {
        return Ok(start);
    }
    let changes = !held.file_system()?.capabilities().immutable;
    if changes && shared && protection & PROT_WRITE != 0 {
        crate::log!(
            "a shared mapping that can be written of node {:x} of mount {} is refused: its driver offers no descriptor",
            held.node.0,
            held.mount.0
        );
        return Err(Errno::ENODEV);
    }
    let shadow = match changes {
        // One that cannot be made writable later (mprotect(2)); what is written from now on is written to the shadow as well.
        true => crate::looked_at::keep_equal(held).map(shadow::Mappable::Other),
        false => shadow::mappable(held, fd),
    }
    .map_err(|error| super::io::report(held, "mmap", &error))?;
    // SAFETY: the program's own mapping call, with its own address and length, of the file's content.
    let start = unsafe {
        syscall::call(
            nr::MMAP,
            [
                address,
                length,
                protection,
                flags,
                shadow.number() as usize,
                offset,
            ],
        )
    };
    shadow.close(held);
    let start = start?;
    if protection & PROT_EXEC != 0 {
        culvert_intercept::code_mapped(start, length);
    }
    Ok(start)
}

/// The mapping of a driver's own file of the kernel's, where the driver has one for this file.
fn map_kernel_file(held: &Held, access: u32, call: &Call) -> Result<Option<usize>, Errno> {
    let [address, length, protection, flags, _, offset] = call.args;
    let shared = matches!(flags & MAP_TYPE, MAP_SHARED | MAP_SHARED_VALIDATE);
    let mut mapped = Err(Errno::ENODEV);
    let mut map = |fd: i32| {
        // SAFETY: the program's own mapping call, with its own address and length, of the file that it names.
        mapped = unsafe {
            syscall::call(
                nr::MMAP,
                [address, length, protection, flags, fd as usize, offset],
            )
        };
    };
    // A shared mapping of a file that is open for writing may be made writable later (mprotect(2)).
    let stores = shared && access == 2;
    let has_one = held
        .file()?
        .with_kernel_file((offset as u64, length as u64), stores, &mut map)
        .map_err(|error| super::io::report(held, "mmap", &error))?;
    if !has_one {
        return Ok(None);
    }
    let start = mapped?;
    if protection & PROT_EXEC != 0 {
        culvert_intercept::code_mapped(start, length);
    }
    Ok(Some(start))
}

/// The mapping as a copy in anonymous memory: needs no call that a filter which allows mapping files is likely to forbid. Later changes of the file
/// are not seen, which a private mapping may do anyway (mmap(2)).
fn copy(held: &Held, call: &Call) -> Answer {
    const MAP_PRIVATE: usize = 2;
    const PROT_READ: usize = 1;
    let [address, length, protection, flags, _, offset] = call.args;
    let flags = flags & !MAP_TYPE | MAP_PRIVATE | MAP_ANONYMOUS;
    // SAFETY: the program's own mapping call, with its own address and length.
    let start = unsafe {
        syscall::call(
            nr::MMAP,
            [
                address,
                length,
                PROT_READ | PROT_WRITE,
                flags,
                usize::MAX,
                0,
            ],
        )
    }?;
    let file = held.readable()?;
    let spans = [Span {
        base: start,
        length,
    }];
    let mut sink = UserSink::new(&spans);
    let mut at = offset as u64;
    loop {
        match file.read_at(at, &mut sink) {
            Ok(0) => break,
            Ok(count) => at += count as u64,
            Err(error) => {
                // SAFETY: the mapping was made above.
                let _ = unsafe { syscall::call(nr::MUNMAP, [start, length]) };
                return Err(super::io::report(held, "mmap", &error));
            }
        }
    }
    // SAFETY: as above.
    unsafe { syscall::call(nr::MPROTECT, [start, length, protection]) }?;
    if protection & PROT_EXEC != 0 {
        culvert_intercept::code_mapped(start, length);
    }
    Ok(start)
}

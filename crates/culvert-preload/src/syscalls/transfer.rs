//! sendfile, copy_file_range, splice and the calls that only know pipes.
//!
//! Where both ends are the kernel's, or can be made so ([`kernel_has_not`]), the kernel moves the
//! bytes.

use super::arguments::{descriptor, kernel_has_not};
use crate::answer::{Answer, FORWARD};
use crate::description::{Held, Object};
use crate::fuse_server;
use crate::process::Process;
use crate::vfs::copy::{OpenFile, copy, send};
use crate::vfs::splice;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_run::memory;
use culvert_sys::nr;

/// The offset at `address`, where the program keeps one.
fn offset_at(address: usize) -> Result<Option<i64>, Errno> {
    (address != 0).then(|| memory::get(address)).transpose()
}

/// Leaves `offset` at `address`.
fn put_offset(address: usize, offset: Option<i64>) -> Result<(), Errno> {
    offset.map_or(Ok(()), |offset| memory::put(address, offset))
}

/// Runs `run` on both ends, unless the kernel has both.
fn between(
    process: &Process,
    input: usize,
    out: usize,
    run: impl FnOnce(OpenFile<'_>, OpenFile<'_>) -> Answer,
) -> Answer {
    let (source, target) = (kernel_has_not(process, input), kernel_has_not(process, out));
    if source.is_none() && target.is_none() {
        return Err(FORWARD);
    }
    let side = |held, fd| OpenFile { held, fd };
    run(side(source.as_ref(), input), side(target.as_ref(), out))
}

/// sendfile(2)
pub fn sendfile(process: &Process, call: &mut Call) -> Answer {
    let [out, input, address, count, ..] = call.args;
    between(process, input, out, |from, to| {
        let mut offset = offset_at(address)?;
        let moved = send(from, to, &mut offset, count)?;
        put_offset(address, offset).map(|()| moved)
    })
}

/// copy_file_range(2)
pub fn copy_file_range(process: &Process, call: &mut Call) -> Answer {
    let [input, from_address, out, to_address, count, flags] = call.args;
    between(process, input, out, |from, to| {
        let mut offsets = [offset_at(from_address)?, offset_at(to_address)?];
        // An `unsigned int`: syscall(2) may leave anything in the upper half of a sixth argument,
        // which lies on its stack.
        if flags as u32 != 0 {
            return Err(Errno::EINVAL);
        }
        let moved = copy(from, to, &mut offsets, count)?;
        if moved > 0 {
            put_offset(from_address, offsets[0])?;
            put_offset(to_address, offsets[1])?;
        }
        Ok(moved)
    })
}

/// splice(2); the order of checks is that of `__do_splice` and `do_splice` (fs/splice.c).
pub fn splice(process: &Process, call: &mut Call) -> Answer {
    let [input, from_address, out, to_address, count, flags] = call.args;
    if fuse_server::is_between(call) {
        return fuse_server::splice(call);
    }
    between(process, input, out, |from, to| {
        if count == 0 {
            return Ok(0);
        }
        let splicing = splice::Splicing::new(from, to, flags as u32)?;
        splicing.may_have_offsets(from_address != 0, to_address != 0)?;
        let to_offset = offset_at(to_address)?;
        let mut offsets = [offset_at(from_address)?, to_offset];
        let moved = splicing.run(&mut offsets, count)?;
        put_offset(from_address, offsets[0])?;
        put_offset(to_address, offsets[1]).map(|()| moved)
    })
}

/// tee(2), vmsplice(2): only pipes, so never what a driver serves.
pub fn only_pipes(process: &Process, call: &mut Call) -> Answer {
    let served =
        |fd| descriptor(process, fd).is_some_and(|held: Held| !matches!(held.object, Object::Fifo));
    let (ours, errno) = match call.number {
        nr::TEE => (served(call.args[0]) || served(call.args[1]), Errno::EINVAL),
        _ => (served(call.args[0]), Errno::EBADF),
    };
    match ours {
        true => Err(errno),
        false => Err(FORWARD),
    }
}

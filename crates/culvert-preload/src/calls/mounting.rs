//! mount(2): the kernel mounts on directories of a mount that is a tree of its own, and on no other.

use super::backed::through_proc;
use super::done;
use super::path::{AT_FDCWD, At, Found, find, find_by_walking, refuse_inside};
use crate::memory::PathBuffer;
use crate::resolver::{LastStep, Restrictions};
use alloc::vec::Vec;
use culvert::Errno;
use culvert_intercept::{Call, Outcome};

const MS_BIND: usize = 0x1000;
const MS_MOVE: usize = 0x2000;

/// mount(2)
pub fn mount(call: &mut Call) -> Outcome {
    let source = match call.args[3] & (MS_BIND | MS_MOVE) {
        0 => Ok(None),
        _ => source_for_kernel(call.args[0]),
    };
    let source = match source {
        Ok(source) => source,
        Err(errno) => return done(Err(errno)),
    };
    if let Some(source) = &source {
        call.args[0] = source.as_ptr() as usize;
    }
    let outcome = refuse_inside(call, At::new(1, LastStep::Follow), Errno::EOPNOTSUPP);
    match outcome {
        // With the path that the kernel finds.
        Outcome::Forward if source.is_some() => done(super::path::native(call)),
        outcome => outcome,
    }
}

/// The path (NUL-terminated) by which the kernel finds what the program at `address` names, if that is another one.
fn source_for_kernel(address: usize) -> Result<Option<Vec<u8>>, Errno> {
    let mut room = PathBuffer::new();
    let path = room.read(address)?;
    let last = LastStep::Follow;
    let mut found = find(AT_FDCWD, path, last, Restrictions(0))?;
    if matches!(&found, Found::Backed(place) if !place.is_resolved()) {
        found = find_by_walking(AT_FDCWD, path, last, Restrictions(0))?;
    }
    match found {
        Found::Inside(_) => Err(Errno::EOPNOTSUPP),
        Found::Backed(place) => Ok(Some(through_proc(place.base, place.path().bytes()))),
        Found::Outside(path) => Ok(Some(path)),
        Found::MagicLink(_) | Found::Kernel => Ok(None),
    }
}

//! Seeking on driven descriptors.

use super::arguments::driven;
use crate::answer::{Answer, FORWARD};
use crate::description::{Held, Object, report};
use crate::process::Process;
use culvert::{Errno, Whence};
use culvert_intercept::Call;

/// lseek(2). On directories the offset is a position of getdents64.
pub fn lseek(process: &Process, call: &mut Call) -> Answer {
    let [fd, offset, whence, ..] = call.args;
    let Some(held) = driven(process, fd) else {
        if (offset, whence as u32) == (0, 0) {
            crate::vfs::proc_files::renew(process, fd as i32);
        }
        return Err(FORWARD);
    };
    seek(&held, fd as i32, offset as i64, whence as u32)
}

fn seek(held: &Held, fd: i32, offset: i64, whence: u32) -> Answer {
    const SET: u32 = 0;
    const CUR: u32 = 1;
    const END: u32 = 2;
    const DATA: u32 = 3;
    const HOLE: u32 = 4;
    if matches!(held.object, Object::Path) {
        return Err(Errno::EBADF);
    }
    let base = match whence {
        SET => 0,
        CUR => return held.at_offset(fd, |at| move_to(at, (*at as i64).checked_add(offset)))?,
        END => match &held.object {
            Object::File(_) | Object::Broken => {
                held.attributes()
                    .map_err(|error| report(held, "lseek", &error))?
                    .size as i64
            }
            _ => return Err(Errno::EINVAL),
        },
        DATA | HOLE => {
            let whence = if whence == DATA {
                Whence::Data
            } else {
                Whence::Hole
            };
            let file = held.file_or(Errno::EINVAL)?;
            if offset < 0 {
                return Err(Errno::ENXIO);
            }
            culvert_cache::write_back(&**held).map_err(|error| report(held, "lseek", &error))?;
            let found = file
                .seek(offset as u64, whence)
                .map_err(|error| report(held, "lseek", &error))?;
            return held.at_offset(fd, |at| move_to(at, Some(found as i64)))?;
        }
        _ => return Err(Errno::EINVAL),
    };
    held.at_offset(fd, |at| move_to(at, base.checked_add(offset)))?
}

fn move_to(at: &mut u64, to: Option<i64>) -> Answer {
    match to {
        Some(to) if to >= 0 => {
            *at = to as u64;
            Ok(to as usize)
        }
        _ => Err(Errno::EINVAL),
    }
}

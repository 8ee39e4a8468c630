//! rename and link: two paths, each in a mount or not.

use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use crate::vfs::link::link_given;
use crate::vfs::native::{AT_EMPTY_PATH, AT_SYMLINK_FOLLOW};
use crate::vfs::path::{Given, at_once, is_nobodys_business};
use crate::vfs::rename::rename_given;
use culvert::{Errno, RenameFlags};
use culvert_intercept::Call;
use culvert_mounts::resolver::LastStep;
use culvert_run::memory::PathBuffer;
use culvert_sys::nr;
use culvert_sys::raw::general::AT_FDCWD;

/// rename(2), renameat(2), renameat2(2)
pub fn rename(process: &Process, call: &mut Call) -> Answer {
    let [a, b, c, d, e, _] = call.args;
    let (from_directory, from, to_directory, to, flags) = match call.number {
        nr::RENAME => (AT_FDCWD, a, AT_FDCWD, b, 0),
        nr::RENAMEAT => (a as i32, b, c as i32, d, 0),
        _ => (a as i32, b, c as i32, d, e as u32),
    };
    if flags & !7 != 0 || (flags & RenameFlags::EXCHANGE != 0 && flags != RenameFlags::EXCHANGE) {
        return Err(FORWARD);
    }
    let (mut from_room, mut to_room) = (PathBuffer::new(), PathBuffer::new());
    let from = from_room.read(from)?;
    // A bad new path is said after what is wrong with the old one (`filename_create`,
    // `filename_parentat` get it late).
    let to = to_room.read(to);
    let from = Given::new(from_directory, from, LastStep::Parent);
    let to = to.map(|path| Given::new(to_directory, path, LastStep::Parent));
    if flags == 0
        && let Ok(to) = to
        && let Some(answer) = rename_at_once(process, from, to)
    {
        return answer;
    }
    let both = (from, to);
    rename_given(process, both, flags, false)
        .unwrap_or_else(|| rename_given(process, both, flags, true).unwrap_or(Err(Errno::ELOOP)))
}

/// A rename within one mount whose driver makes it at once. None: both paths are looked up.
fn rename_at_once(process: &Process, from: Given<'_>, to: Given<'_>) -> Option<Answer> {
    let from = at_once(process, from)?;
    let to = at_once(process, to)?;
    let renamed = is_nobodys_business(from.driver)
        .then(|| from.rename(&to))
        .flatten()?;
    Some(renamed.map(|()| 0))
}

/// link(2), linkat(2)
pub fn link(process: &Process, call: &mut Call) -> Answer {
    let [a, b, c, d, e, _] = call.args;
    let (from_directory, from, to_directory, to, flags) = if call.number == nr::LINK {
        (AT_FDCWD, a, AT_FDCWD, b, 0)
    } else {
        (a as i32, b, c as i32, d, e)
    };
    if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(FORWARD);
    }
    let last = if flags & AT_SYMLINK_FOLLOW != 0 {
        LastStep::Follow
    } else {
        LastStep::NoFollow
    };
    let (mut from_room, mut to_room) = (PathBuffer::new(), PathBuffer::new());
    let from = from_room.read(from)?;
    // A bad new path is said after what is wrong with the old one (`filename_create`,
    // `filename_parentat` get it late).
    let to = to_room.read(to);
    let from = Given::new(from_directory, from, last);
    let to = to.map(|path| Given::new(to_directory, path, LastStep::Parent));
    link_given(process, from, to, flags, false)
        .unwrap_or_else(|| link_given(process, from, to, flags, true).unwrap_or(Err(Errno::ELOOP)))
}

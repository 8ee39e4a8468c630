//! access(2) and its relatives, inotify_add_watch(2).

use super::arguments::{At, is_empty, last_step, on_empty_path};
use super::path::{by_kernel, on_path, on_path_or_at_once};
use crate::answer::{Answer, FORWARD};
use crate::process::Process;
use crate::vfs::inotify::{IN_DONT_FOLLOW, add_watch};
use crate::vfs::native::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use crate::vfs::path::AtOnce;
use crate::vfs::{access::check, node::On};
use culvert_intercept::Call;
use culvert_mounts::resolver::LastStep;
use culvert_sys::nr;

const AT_EACCESS: usize = 0x200;

/// access(2)
pub fn access(process: &Process, call: &mut Call) -> Answer {
    if call.args[1] & !7 != 0 {
        return Err(FORWARD);
    }
    let at = At::new(0, LastStep::Follow);
    // ld.so asks so at each start: the real user need not be known for that.
    if let Some(answer) = by_kernel(process, call, at) {
        return answer;
    }
    culvert_run::task::as_real_user(|| {
        let mode = call.args[1] as u32;
        by_path(process, call, at, mode)
    })
}

/// faccessat(2) and faccessat2(2)
pub fn faccessat(process: &Process, call: &mut Call) -> Answer {
    let mode = call.args[2];
    let flags = if call.number == nr::FACCESSAT2 {
        call.args[3]
    } else {
        0
    };
    if mode & !7 != 0 || flags & !(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(FORWARD);
    }
    match flags & AT_EACCESS {
        0 => culvert_run::task::as_real_user(|| look(process, call, flags)),
        _ => look(process, call, flags),
    }
}

/// What faccessat(2) says to whom drivers are told.
fn look(process: &Process, call: &mut Call, flags: usize) -> Answer {
    let [fd, path, mode, ..] = call.args;
    let check = |on: On<'_>| check(on, mode as u32).map(|()| 0);
    // No path at all is EFAULT here, where statx(2) takes it for an empty one.
    if flags & AT_EMPTY_PATH != 0 && path != 0 && is_empty(path) {
        return on_empty_path(process, fd, check).unwrap_or(Err(FORWARD));
    }
    let at = At::below(0, last_step(flags));
    by_path(process, call, at, mode as u32)
}

/// The same of a path.
fn by_path(process: &Process, call: &mut Call, at: At, mode: u32) -> Answer {
    let ask = |place: &AtOnce<'_>| Some(place.access(mode)?.map(|()| 0));
    on_path_or_at_once(process, call, at, None, Some(ask), |_, found| {
        check(On::Found(found), mode).map(|()| 0)
    })
}

/// inotify_add_watch(2)
pub fn inotify_add_watch(process: &Process, call: &mut Call) -> Answer {
    const IN_ALL_EVENTS: usize = 0xfff;
    let [inotify, _, mask, ..] = call.args;
    // The kernel says EINVAL before it looks at the path.
    if mask & IN_ALL_EVENTS == 0 {
        return Err(FORWARD);
    }
    let last = match mask & IN_DONT_FOLLOW {
        0 => LastStep::Follow,
        _ => LastStep::NoFollow,
    };
    on_path(process, call, At::new(1, last), None, |_, found| {
        add_watch(On::Found(found), inotify, mask)
    })
}

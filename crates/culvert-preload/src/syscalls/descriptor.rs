//! Calls about descriptors themselves: close, dup and its family, fcntl.

use super::arguments::descriptor;
use super::locks::{
    self, F_GETLEASE, F_GETLK, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETLEASE, F_SETLK,
    F_SETLKW,
};
use crate::answer::{Answer, FORWARD};
use crate::description::{Held, Object};
use crate::fuse_server;
use crate::process::Process;
use culvert::{Errno, FileKind};
use culvert_intercept::Call;
use culvert_run::files::{self, dup_from};
use culvert_sys::raw::general::{
    F_ADD_SEALS, F_CREATED_QUERY, F_DUPFD, F_DUPFD_CLOEXEC, F_DUPFD_QUERY, F_GET_SEALS, F_GETFD,
    F_GETFL, F_GETPIPE_SZ, F_NOTIFY, F_SETFD, F_SETFL, F_SETPIPE_SZ,
};

/// close(2). The table is cleared before the kernel frees the number, so that no other thread's new
/// descriptor is ever taken for the old one.
pub fn close(process: &Process, call: &mut Call) -> Answer {
    let fd = call.args[0] as i32;
    let table = &process.table;
    if process.run.is_internal(fd) {
        return Err(Errno::EBADF);
    }
    let Some(held) = descriptor(process, call.args[0]) else {
        if table.has_class(fd) {
            let is_device = crate::descriptors::class(fd) == crate::descriptors::FUSE;
            table.remove(fd);
            if is_device {
                fuse_server::closed();
            }
        }
        return Err(FORWARD);
    };
    let flushed = culvert_cache::closing(&*held).and_then(|()| match &held.object {
        Object::File(file) => file.flush(),
        _ => Ok(()),
    });
    let result = flushed
        .map(|()| 0)
        .map_err(|error| crate::description::report(&held, "close", &error));
    drop(held);
    let _changes = table.changing();
    table.remove(fd);
    // A shared description loses this process's POSIX locks with any descriptor of its file: the
    // kernel sees to that on the shadow. SAFETY: the program closes its own descriptor.
    let closed = culvert_sys::OwnedFd::from_raw(fd).close();
    result.and(closed.map(|()| 0))
}

/// dup(2)
pub fn dup(process: &Process, call: &mut Call) -> Answer {
    if process.run.is_internal(call.args[0] as i32) {
        return Err(Errno::EBADF);
    }
    if descriptor(process, call.args[0]).is_none() {
        return dup_foreign(process, call);
    }
    dup_ours(process, call.args[0] as i32, 0, false)
}

/// A dup of a descriptor of ours at the lowest number from `from` on.
fn dup_ours(process: &Process, fd: i32, from: i32, close_on_exec: bool) -> Answer {
    let table = &process.table;
    let _changes = table.changing();
    let description = table.reference(fd).ok_or(Errno::EBADF)?;
    table.keep_lent(&description)?;
    let new = crate::descriptors::not_awaited(dup_from(fd, from, close_on_exec)?)?;
    let new = match from {
        0 => process.run.settle(new, close_on_exec),
        _ => new,
    };
    table.install(new, description);
    Ok(new as usize)
}

/// dup or F_DUPFD of a descriptor of the kernel's own: what is known of it is known of the new one,
/// too.
fn dup_foreign(process: &Process, call: &Call) -> Answer {
    let table = &process.table;
    if !table.has_class(call.args[0] as i32) {
        return Err(FORWARD);
    }
    let answer = call.execute();
    if let Ok(new) = answer {
        table.duplicated(call.args[0] as i32, new as i32);
    }
    answer
}

/// dup2(2), dup3(2)
pub fn dup_to(process: &Process, call: &mut Call) -> Answer {
    let (old, new) = (call.args[0] as i32, call.args[1] as i32);
    let table = &process.table;
    let is_wanted = new >= 0 && process.run.is_internal(new) && old != new;
    if process.run.is_internal(old) || is_wanted && files::close_on_exec(old).is_err() {
        // It fails, in the kernel's order of errors.
        return call.replacing().word(0, usize::MAX).execute();
    }
    if is_wanted {
        process.run.make_way(new)?;
    }
    if let Some(held) = descriptor(process, call.args[1]).filter(|_| old != new) {
        let _ = culvert_cache::closing(&*held);
    }
    let changes = table.changing();
    let (source, target) = (
        table.reference(old),
        descriptor(process, call.args[1]).is_some(),
    );
    if old == new {
        return Err(FORWARD);
    }
    if source.is_some() && crate::descriptors::rings::is_awaited(new) {
        return Err(Errno::EBUSY);
    }
    if let Some(source) = &source {
        table.keep_lent(source)?;
    }
    // Another thread's driver may have got the number since it was looked at.
    let make = |call: &Call| process.run.unless_internal(new, || call.execute());
    if source.is_none() && !target {
        let backed = table.has_class(old) || table.has_class(new);
        if !backed && !culvert_intercept::multi_threaded() {
            return Err(FORWARD);
        }
        // What is closed may take its time, and is none of ours.
        let changes = changes.filter(|_| backed);
        let Some(answer) = make(call) else {
            drop(changes);
            return dup_to(process, call);
        };
        if backed && answer.is_ok() && !table.duplicated(old, new) {
            table.remove(new);
        }
        return answer;
    }
    if let Some(Object::File(file)) = table.reference(new).as_ref().map(|held| &held.object) {
        let _ = file.flush(); // dup2(2): errors of the implied close are lost.
    }
    let Some(result) = make(call) else {
        drop(changes);
        return dup_to(process, call);
    };
    if result.is_ok() {
        match source {
            Some(description) => table.install(new, description),
            None if table.duplicated(old, new) => {}
            None => table.remove(new),
        }
    }
    result
}

/// fcntl(2)
pub fn fcntl(process: &Process, call: &mut Call) -> Answer {
    let [fd, command, argument, ..] = call.args;
    let Some(held) = descriptor(process, fd) else {
        return match command as u32 {
            _ if process.run.is_internal(fd as i32) => Err(Errno::EBADF),
            F_DUPFD | F_DUPFD_CLOEXEC => dup_foreign(process, call),
            _ => Err(FORWARD),
        };
    };
    let path_only = matches!(held.object, Object::Path);
    match command as u32 {
        F_DUPFD | F_DUPFD_CLOEXEC => dup_ours(
            process,
            fd as i32,
            argument as i32,
            command as u32 == F_DUPFD_CLOEXEC,
        ),
        F_GETFD | F_SETFD => Err(FORWARD),
        F_DUPFD_QUERY => {
            let same = process.table.are_same(fd as i32, argument as i32);
            same.map_or(Err(FORWARD), |same| Ok(usize::from(same)))
        }
        _ if matches!(held.object, Object::Fifo) => Err(FORWARD),
        F_SETFL if held.is_backed() => set_flags(process, &held, call),
        F_GETFL if held.is_backed() => Err(FORWARD),
        F_GETFL => held.flags(fd as i32).map(|flags| flags as usize),
        // `check_fcntl_cmd`, fs/fcntl.c.
        _ if path_only && command as u32 != F_CREATED_QUERY => Err(Errno::EBADF),
        F_SETFL => held.set_flags(fd as i32, argument as u32).map(|()| 0),
        // Older kernels than 6.12 do not know it.
        F_CREATED_QUERY => call.execute().map(|kernel| match held.is_direct() {
            true => usize::from(held.created) | kernel,
            false => usize::from(held.created),
        }),
        F_NOTIFY => notify(&held, argument),
        F_SETPIPE_SZ | F_GETPIPE_SZ => Err(Errno::EBADF),
        F_ADD_SEALS | F_GET_SEALS => Err(Errno::EINVAL),
        F_GETLK | F_SETLK | F_SETLKW | F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW => {
            locks::record(process, &held, fd as i32, command as u32, argument)
        }
        F_SETLEASE | F_GETLEASE => locks::lease(process, fd, command as u32),
        // Owners, signals, hints: the kernel keeps them.
        _ => process.table.promote(fd as i32).and(Err(FORWARD)),
    }
}

/// F_SETFL of a descriptor on the file itself.
fn set_flags(process: &Process, held: &Held, call: &Call) -> Answer {
    let answer = call.execute()?;
    held.note_flags(call.args[2] as u32);
    process.table.look_at_classes(held);
    Ok(answer)
}

/// F_NOTIFY: the kernel has no directory to watch whose number its signal would tell. As one
/// without `CONFIG_DNOTIFY` it says EINVAL, after which programs look for themselves.
fn notify(held: &Held, events: usize) -> Answer {
    const DN_MULTISHOT: usize = 0x8000_0000;
    match held.kind {
        _ if events as u32 as usize & !DN_MULTISHOT == 0 => Ok(0),
        FileKind::Directory => Err(Errno::EINVAL),
        _ => Err(Errno::ENOTDIR),
    }
}

/// close_range(2): everything in the range but Culvert's own descriptors.
pub fn close_range(process: &Process, call: &mut Call) -> Answer {
    const CLOSE_RANGE_UNSHARE: usize = 2;
    const CLOSE_RANGE_CLOEXEC: usize = 4;
    let (first, last, flags) = (call.args[0] as u32, call.args[1] as u32, call.args[2]);
    if first > last || flags & !(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) != 0 {
        return Err(FORWARD);
    }
    let table = &process.table;
    // First, so that the table which is changed is this thread's own.
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        let unshare = || culvert_sys::fd::unshare().map(|()| 0);
        crate::descriptors::with_own_table(unshare).transpose()?;
    }
    let mut internal: alloc::vec::Vec<u32> = process
        .internal_descriptors()
        .into_iter()
        .filter(|fd| (first..=last).contains(fd))
        .collect();
    internal.sort_unstable();
    if flags & CLOSE_RANGE_CLOEXEC == 0 && table.end() > 0 {
        for fd in first..=last.min(table.end() as u32 - 1) {
            if table.get_known(fd as i32)
                && let Some(held) = table.reference(fd as i32)
            {
                let _ = culvert_cache::closing(&*held);
                // Its errors are lost (close_range(2)).
                if let Object::File(file) = &held.object {
                    let _ = file.flush();
                }
            }
        }
    }
    let _changes = table.changing();
    let mut from = first;
    let mut result = Ok(());
    for stop in internal.into_iter().map(Some).chain([None]) {
        let to = stop.map_or(Some(last), |fd| fd.checked_sub(1));
        if let Some(to) = to.filter(|&to| from <= to) {
            if flags & CLOSE_RANGE_CLOEXEC == 0 {
                let known = to.min(table.end().max(0) as u32);
                for fd in from..=known {
                    if table.get_known(fd as i32) || table.has_class(fd as i32) {
                        table.remove(fd as i32);
                    }
                }
            }
            result = culvert_sys::fd::close_range(from, to, flags as u32);
        }
        from = match stop {
            Some(fd) => fd.saturating_add(1),
            None => break,
        };
    }
    result.map(|()| 0)
}

/// pidfd_getfd(2): a descriptor of another process may be a shadow.
pub fn pidfd_getfd(process: &Process, call: &mut Call) -> Answer {
    let result = call.execute();
    if let Ok(fd) = result {
        process.table.forget(fd as i32);
    }
    result
}

/// kcmp(2) of files: private descriptions are dups of one memfd, so the kernel must be told them
/// apart first.
pub fn kcmp(process: &Process, call: &mut Call) -> Answer {
    const KCMP_FILE: usize = 0;
    if call.args[2] == KCMP_FILE {
        process.table.promote_all(false)?;
    }
    Err(FORWARD)
}

//! Notifications: the file system tells, nobody asked.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_lowlevel.h.

use crate::{
    abi::{Buf, BufVec},
    buffers,
    mutex::locked,
    session::Session,
};
use culvert_wire::{
    Data, Name, Notification,
    structures::{
        NotifyDeleteOut, NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyPollWakeupOut,
        NotifyRetrieveOut, NotifyStoreOut,
    },
};
use libc::off_t;
use std::{
    ffi::{c_char, c_int, c_void},
    slice,
};

/// `struct fuse_pollhandle`.
pub struct PollHandle {
    pub session: &'static Session,
    pub handle: u64,
}

fn tell(session: &Session, notification: &Notification<'_>) -> c_int {
    let Ok(message) = notification.encode(&session.protocol()) else {
        return -libc::EINVAL;
    };
    match session.send(&message) {
        Ok(()) => 0,
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}

unsafe fn named<'a>(name: *const c_char, length: usize) -> Option<Name<'a>> {
    Name::new(slice::from_raw_parts(name.cast(), length))
}

#[unsafe(export_name = "culvert_fuse_notify_poll")]
unsafe extern "C" fn notify_poll(handle: *mut PollHandle) -> c_int {
    let Some(handle) = handle.as_ref() else {
        return 0;
    };
    let wakeup = NotifyPollWakeupOut { kh: handle.handle };
    tell(handle.session, &Notification::Poll { wakeup })
}

#[unsafe(export_name = "culvert_fuse_pollhandle_destroy")]
unsafe extern "C" fn pollhandle_destroy(handle: *mut PollHandle) {
    if !handle.is_null() {
        drop(Box::from_raw(handle));
    }
}

#[unsafe(export_name = "culvert_fuse_notify_inval_inode")]
pub unsafe extern "C" fn inval_inode(
    session: Option<&Session>,
    ino: u64,
    off: off_t,
    len: off_t,
) -> c_int {
    let Some(session) = session else {
        return -libc::EINVAL;
    };
    let inode = NotifyInvalInodeOut { ino, off, len };
    tell(session, &Notification::InvalInode { inode })
}

unsafe fn inval(
    session: Option<&Session>,
    parent: u64,
    name: *const c_char,
    length: usize,
    flags: u32,
) -> c_int {
    let (Some(session), Some(name)) = (session, named(name, length)) else {
        return -libc::EINVAL;
    };
    let entry = NotifyInvalEntryOut {
        parent,
        namelen: 0,
        flags,
    };
    tell(session, &Notification::InvalEntry { entry, name })
}

#[unsafe(export_name = "culvert_fuse_notify_inval_entry")]
pub unsafe extern "C" fn inval_entry(
    session: Option<&Session>,
    parent: u64,
    name: *const c_char,
    length: usize,
) -> c_int {
    inval(session, parent, name, length, 0)
}

#[unsafe(export_name = "culvert_fuse_notify_expire_entry")]
unsafe extern "C" fn expire_entry(
    session: Option<&Session>,
    parent: u64,
    name: *const c_char,
    length: usize,
) -> c_int {
    let flags = NotifyInvalEntryOut::EXPIRE_ONLY;
    match session {
        Some(session) if locked(&session.connection).capable & (1 << 26) == 0 => -libc::ENOSYS,
        session => inval(session, parent, name, length, flags),
    }
}

#[unsafe(export_name = "culvert_fuse_notify_delete")]
unsafe extern "C" fn delete(
    session: Option<&Session>,
    parent: u64,
    child: u64,
    name: *const c_char,
    length: usize,
) -> c_int {
    let (Some(session), Some(name)) = (session, named(name, length)) else {
        return -libc::EINVAL;
    };
    let delete = NotifyDeleteOut {
        parent,
        child,
        ..NotifyDeleteOut::default()
    };
    tell(session, &Notification::Delete { delete, name })
}

#[unsafe(export_name = "culvert_fuse_notify_store")]
unsafe extern "C" fn store(
    session: Option<&Session>,
    nodeid: u64,
    offset: off_t,
    buffer: *mut BufVec,
    _: c_int,
) -> c_int {
    let Some(session) = session else {
        return -libc::EINVAL;
    };
    let mut all = vec![0_u8; buffers::size(&*buffer)];
    let mut into = BufVec::of(Buf::memory(all.as_mut_ptr().cast(), all.len()));
    let count = buffers::copy(&mut into, &mut *buffer);
    if count < 0 {
        return count as c_int;
    }
    let store = NotifyStoreOut {
        nodeid,
        offset: offset as u64,
        size: 0,
        padding: 0,
    };
    let data = Data(&all[..count as usize]);
    tell(session, &Notification::Store { store, data })
}

#[unsafe(export_name = "culvert_fuse_notify_retrieve")]
unsafe extern "C" fn retrieve(
    session: Option<&'static Session>,
    nodeid: u64,
    size: usize,
    offset: off_t,
    cookie: *mut c_void,
) -> c_int {
    let Some(session) = session else {
        return -libc::EINVAL;
    };
    let whole = match session.version < 30 {
        true => session.whole(),
        false => session,
    };
    let mut retrieving = locked(&whole.retrieving);
    retrieving.last += 1;
    let notify_unique = retrieving.last;
    retrieving
        .waiting
        .insert(notify_unique, (nodeid, cookie as usize));
    drop(retrieving);
    let retrieve = NotifyRetrieveOut {
        notify_unique,
        nodeid,
        offset: offset as u64,
        size: size as u32,
        padding: 0,
    };
    let told = tell(session, &Notification::Retrieve { retrieve });
    if told != 0 {
        locked(&whole.retrieving).waiting.remove(&notify_unique);
    }
    told
}

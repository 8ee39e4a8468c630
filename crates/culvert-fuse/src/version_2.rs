//! Channels, which version 2 has besides sessions. A channel is a session without functions, made
//! when it is mounted; the session that it is added to takes its device over.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in the headers.

use crate::{
    arguments::Args, command_line, dispatch, high::Fuse, session::Session, signals, threads,
};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr, slice,
    sync::atomic::Ordering::SeqCst,
};

fn pointer(session: &'static Session) -> *mut Session {
    ptr::from_ref(session).cast_mut()
}

#[unsafe(export_name = "culvert_fuse_mount_2")]
unsafe extern "C" fn mount(target: *const c_char, args: *mut Args) -> *mut Session {
    let Some(channel) = Session::channel(args) else {
        return ptr::null_mut();
    };
    match channel.mount_at(CStr::from_ptr(target)) {
        true => pointer(channel),
        false => ptr::null_mut(),
    }
}

#[unsafe(export_name = "culvert_fuse_unmount_2")]
extern "C" fn unmount(_: *const c_char, channel: Option<&'static Session>) {
    if let Some(channel) = channel {
        channel.unmount();
    }
}

#[unsafe(export_name = "culvert_fuse_session_add_chan")]
extern "C" fn session_add_chan(session: &'static Session, channel: &'static Session) {
    session.add(channel);
}

#[unsafe(export_name = "culvert_fuse_session_remove_chan")]
unsafe extern "C" fn session_remove_chan(channel: Option<&'static Session>) {
    let owner = channel.map(|channel| channel.owner.swap(ptr::null_mut(), SeqCst));
    // SAFETY: null or a session, none of which is ever freed.
    if let Some(session) = owner.and_then(|owner| owner.as_ref()) {
        session.owner.store(ptr::null_mut(), SeqCst);
        session.fd.store(-1, SeqCst);
    }
}

#[unsafe(export_name = "culvert_fuse_session_next_chan")]
extern "C" fn session_next_chan(session: &'static Session, last: *mut Session) -> *mut Session {
    match last.is_null() {
        true => session.owner.load(SeqCst),
        false => ptr::null_mut(),
    }
}

#[unsafe(export_name = "culvert_fuse_session_data")]
extern "C" fn session_data(session: &'static Session) -> *mut c_void {
    session.data
}

#[unsafe(export_name = "culvert_fuse_session_process")]
unsafe extern "C" fn session_process(
    session: &'static Session,
    buffer: *const c_char,
    length: usize,
    _: *mut Session,
) {
    dispatch::serve(session, slice::from_raw_parts(buffer.cast(), length));
}

#[unsafe(export_name = "culvert_fuse_chan_fd")]
extern "C" fn chan_fd(channel: &'static Session) -> c_int {
    channel.fd.load(SeqCst)
}

#[unsafe(export_name = "culvert_fuse_chan_bufsize")]
extern "C" fn chan_bufsize(channel: &'static Session) -> usize {
    channel.buffer_size()
}

#[unsafe(export_name = "culvert_fuse_chan_data")]
extern "C" fn chan_data(_: &'static Session) -> *mut c_void {
    ptr::null_mut()
}

#[unsafe(export_name = "culvert_fuse_chan_session")]
extern "C" fn chan_session(channel: &'static Session) -> *mut Session {
    channel.owner.load(SeqCst)
}

#[unsafe(export_name = "culvert_fuse_chan_recv")]
unsafe extern "C" fn chan_recv(
    channel: *mut *mut Session,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    let channel: &'static Session = &**channel;
    let session = channel.whole();
    let place = slice::from_raw_parts_mut(buffer.cast(), size);
    match session.receive(channel.fd.load(SeqCst), place) {
        Ok(length) => length as c_int,
        Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
    }
}

#[unsafe(export_name = "culvert_fuse_chan_destroy")]
extern "C" fn chan_destroy(channel: Option<&'static Session>) {
    if let Some(channel) = channel {
        channel.unmount();
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn culvert_fuse_setup(
    argc: c_int,
    argv: *mut *mut c_char,
    operations: *const c_void,
    size: usize,
    target: *mut *mut c_char,
    multithreaded: *mut c_int,
    data: *mut c_void,
    version: c_int,
) -> *mut Fuse {
    let mut args = Args {
        argc,
        argv,
        allocated: 0,
    };
    let Some(line) = command_line::parse(&raw mut args, version) else {
        return ptr::null_mut();
    };
    let fuse = line.target.as_ref().and_then(|at| {
        let fuse = Fuse::new(&raw mut args, operations, size, data, version)?;
        fuse.session().mount_at(at).then_some(fuse)
    });
    let Some(fuse) = fuse else {
        return ptr::null_mut();
    };
    let session = fuse.session();
    let ready = command_line::daemonize(line.foreground, version) == 0
        && signals::set_signal_handlers(pointer(session)) == 0;
    if !ready {
        session.unmount();
        return ptr::null_mut();
    }
    *multithreaded = c_int::from(!line.single_thread);
    if let Some(at) = &line.target {
        *target = crate::session::duplicated(at);
    }
    ptr::from_ref(fuse).cast_mut()
}

#[unsafe(export_name = "culvert_fuse_teardown")]
unsafe extern "C" fn teardown(fuse: &'static Fuse, target: *mut c_char) {
    let session = fuse.session();
    signals::remove_signal_handlers(pointer(session));
    session.unmount();
    session.finish();
    libc::free(target.cast());
}

#[unsafe(export_name = "culvert_fuse_loop_mt_2")]
extern "C" fn loop_mt_2(fuse: &'static Fuse) -> c_int {
    threads::serve(fuse.session(), None)
}

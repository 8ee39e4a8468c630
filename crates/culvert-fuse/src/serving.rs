//! The loop of one thread.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_lowlevel.h.

use crate::{abi::Buf, dispatch, log, session::Session};
use std::{ffi::c_int, sync::atomic::Ordering::SeqCst};

/// The loop of one thread: 0, or a negated errno.
pub fn alone(session: &'static Session) -> c_int {
    let mut buffer = vec![0; session.buffer_size()];
    while !session.has_exited() {
        match session.receive(session.fd.load(SeqCst), &mut buffer) {
            Ok(0) => break,
            Ok(length) => dispatch::serve(session, &buffer[..length]),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            Err(error) => {
                log::say(&format!("reading device: {error}"));
                return -error.raw_os_error().unwrap_or(libc::EIO);
            }
        }
    }
    0
}

#[unsafe(export_name = "culvert_fuse_session_loop")]
extern "C" fn session_loop(session: &'static Session) -> c_int {
    alone(session)
}

#[unsafe(export_name = "culvert_fuse_session_process_buf")]
unsafe extern "C" fn session_process_buf(session: &'static Session, buffer: *const Buf) {
    let bytes = std::slice::from_raw_parts((*buffer).mem.cast::<u8>(), (*buffer).size);
    dispatch::serve(session, bytes);
}

//! A request that the file system has in hand: `struct fuse_req`.
#![allow(unsafe_op_in_unsafe_fn)] // C calls: what it promises stands in fuse_lowlevel.h.

use crate::{
    abi::{Ctx, Req},
    mutex::locked,
    session::Session,
};
use culvert_wire::{Answer, Reply};
use std::{
    ffi::{c_int, c_void},
    io,
    sync::Mutex,
};

type Interrupt = unsafe extern "C" fn(*mut Req, *mut c_void);

/// What is known of a request; it ends with its reply.
pub struct Asked {
    pub session: &'static Session,
    pub unique: u64,
    pub ctx: Ctx,
    interrupt: Mutex<(bool, Option<(Interrupt, usize)>)>,
}

impl Asked {
    /// The request `unique`, entered among those that can be interrupted.
    pub fn begin(session: &'static Session, unique: u64, ctx: Ctx) -> *mut Req {
        let interrupt = Mutex::new((false, None));
        let own = Box::into_raw(Box::new(Self {
            session,
            unique,
            ctx,
            interrupt,
        }));
        locked(&session.in_hand).insert(unique, own as usize);
        own.cast()
    }

    /// The caller of request `unique` has a signal; whether it is in hand.
    pub fn interrupt(session: &'static Session, unique: u64) -> bool {
        let in_hand = locked(&session.in_hand);
        let Some(&own) = in_hand.get(&unique) else {
            return false;
        };
        let own = own as *mut Self;
        // SAFETY: it is entered, so it lives until the lock is given back.
        let told = unsafe {
            let mut state = locked(&(*own).interrupt);
            state.0 = true;
            state.1
        };
        if let Some((function, data)) = told {
            // SAFETY: the file system's own function, for its request, which has not ended.
            unsafe { function(own.cast(), data as *mut c_void) };
        }
        true
    }

    /// Ends request `req`, of which nobody else has anything any more.
    ///
    /// # Safety
    /// It was made by [`Self::begin`] and has not ended.
    pub unsafe fn end(req: *mut Req) -> Box<Self> {
        let own = req.cast::<Self>();
        locked(&(*own).session.in_hand).remove(&(*own).unique);
        Box::from_raw(own)
    }
}

/// Replies to `req`, which ends: 0, or a negated errno.
///
/// # Safety
/// A request that has not ended.
pub unsafe fn answer(req: *mut Req, answer: Answer<'_>) -> c_int {
    let own = Asked::end(req);
    send(own.session, own.unique, answer)
}

/// Replies to request `unique`.
pub fn send(session: &Session, unique: u64, answer: Answer<'_>) -> c_int {
    let reply = Reply { unique, answer };
    if session.debug {
        crate::log::say(&match answer {
            Answer::Error(errno) => format!("reply {unique}: error {errno}"),
            _ => format!("reply {unique}"),
        });
    }
    let sent = match reply.encode(&session.protocol()) {
        Ok(message) => session.send(&message),
        Err(_) => Err(io::ErrorKind::InvalidInput.into()),
    };
    match sent {
        Ok(()) => 0,
        // Nobody waits for it any more, or the kernel refuses it; then it gets another one.
        Err(error) => {
            let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
            if !matches!(errno, libc::ENOENT | libc::ENODEV) {
                let again = Reply {
                    unique,
                    answer: Answer::Error(libc::EIO),
                };
                if let Ok(message) = again.encode(&session.protocol()) {
                    let _ = session.send(&message);
                }
            }
            -errno
        }
    }
}

#[unsafe(export_name = "culvert_fuse_req_userdata")]
pub unsafe extern "C" fn userdata(req: *mut Req) -> *mut c_void {
    (*req.cast::<Asked>()).session.data
}

#[unsafe(export_name = "culvert_fuse_req_ctx")]
pub unsafe extern "C" fn ctx(req: *mut Req) -> *const Ctx {
    &raw const (*req.cast::<Asked>()).ctx
}

#[unsafe(export_name = "culvert_fuse_req_interrupt_func")]
unsafe extern "C" fn interrupt_func(req: *mut Req, function: Option<Interrupt>, data: *mut c_void) {
    let mut state = locked(&(*req.cast::<Asked>()).interrupt);
    state.1 = function.map(|function| (function, data as usize));
    let was = state.0;
    drop(state);
    if let (true, Some(function)) = (was, function) {
        function(req, data);
    }
}

#[unsafe(export_name = "culvert_fuse_req_interrupted")]
pub unsafe extern "C" fn interrupted(req: *mut Req) -> c_int {
    c_int::from(locked(&(*req.cast::<Asked>()).interrupt).0)
}

#[unsafe(export_name = "culvert_fuse_req_getgroups")]
unsafe extern "C" fn getgroups(req: *mut Req, size: c_int, list: *mut libc::gid_t) -> c_int {
    groups((*req.cast::<Asked>()).ctx.pid, size, list)
}

/// The supplementary groups of process `pid`: how many, of which `size` are put at `list`.
///
/// # Safety
/// There is room for as many.
pub unsafe fn groups(pid: libc::pid_t, size: c_int, list: *mut libc::gid_t) -> c_int {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/status")) else {
        return -libc::ENOENT;
    };
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let groups = line.unwrap_or_default().split_whitespace();
    let mut count = 0;
    for group in groups.filter_map(|word| word.parse().ok()) {
        if count < size {
            *list.offset(count as isize) = group;
        }
        count += 1;
    }
    count
}

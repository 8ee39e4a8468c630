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
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

type Interrupt = unsafe extern "C" fn(*mut Req, *mut c_void);

/// What is known of a request; it ends with its reply.
pub struct Asked {
    pub session: &'static Session,
    pub unique: u64,
    pub ctx: Ctx,
    interrupt: Mutex<(bool, Option<(Interrupt, usize)>)>,
    /// Held while the file system's function is called.
    calling: Mutex<()>,
    /// The thread that calls it, 0: none.
    caller: AtomicUsize,
}

fn this_thread() -> usize {
    // SAFETY: it only answers.
    unsafe { libc::pthread_self() as usize }
}

impl Asked {
    /// The request `unique`, entered among those that can be interrupted.
    pub fn begin(session: &'static Session, unique: u64, ctx: Ctx) -> *mut Req {
        let interrupt = Mutex::new((false, None));
        let own = Arc::into_raw(Arc::new(Self {
            session,
            unique,
            ctx,
            interrupt,
            calling: Mutex::new(()),
            caller: AtomicUsize::new(0),
        }));
        locked(&session.in_hand).insert(unique, own as usize);
        own.cast_mut().cast()
    }

    /// The caller of request `unique` has a signal; whether it is in hand.
    pub fn interrupt(session: &'static Session, unique: u64) -> bool {
        let in_hand = locked(&session.in_hand);
        let Some(&own) = in_hand.get(&unique) else {
            return false;
        };
        // SAFETY: it is entered, so it lives at least until the lock is given back.
        let own = unsafe { Self::shared(own as *const Self) };
        // The function may reply, here or by another thread, so nothing that a reply takes is held.
        drop(in_hand);
        own.calls(|| {
            let mut state = locked(&own.interrupt);
            state.0 = true;
            state.1
        });
        true
    }

    /// Itself once more.
    ///
    /// # Safety
    /// Of [`Self::begin`], and it has not ended.
    unsafe fn shared(own: *const Self) -> Arc<Self> {
        Arc::increment_strong_count(own);
        Arc::from_raw(own)
    }

    /// Calls the function that `told` finds, when no other call is under way.
    fn calls(self: &Arc<Self>, told: impl FnOnce() -> Option<(Interrupt, usize)>) {
        if self.caller.load(Relaxed) == this_thread() {
            // That function itself says which is the next one; it knows of the interrupt.
            told();
            return;
        }
        let calling = locked(&self.calling);
        if let Some((function, data)) = told() {
            self.caller.store(this_thread(), Relaxed);
            let req = Arc::as_ptr(self).cast_mut().cast();
            // SAFETY: the file system's own function, for its request, which lives as long as the
            // call, whoever replies meanwhile.
            unsafe { function(req, data as *mut c_void) };
            self.caller.store(0, Relaxed);
        }
        drop(calling);
    }

    /// Ends request `req`, of which nobody else has anything any more.
    ///
    /// # Safety
    /// It was made by [`Self::begin`] and has not ended.
    pub unsafe fn end(req: *mut Req) -> Arc<Self> {
        let own = Arc::from_raw(req.cast::<Self>().cast_const());
        locked(&own.session.in_hand).remove(&own.unique);
        // An interrupt that has just found it calls nothing any more.
        locked(&own.interrupt).1 = None;
        own
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
    let own = Asked::shared(req.cast::<Asked>().cast_const());
    own.calls(|| {
        let mut state = locked(&own.interrupt);
        state.1 = function.map(|function| (function, data as usize));
        state.1.filter(|_| state.0)
    });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::LowLevel;
    use std::ptr;

    unsafe extern "C" fn replies(req: *mut Req, data: *mut c_void) {
        *data.cast::<u32>() += 1;
        interrupt_func(req, Some(replies), data);
        answer(req, Answer::Error(libc::EINTR));
    }

    #[test]
    fn the_function_of_an_interrupt_may_name_another_and_reply() {
        let mut calls = 0_u32;
        let data = (&raw mut calls).cast::<c_void>();
        // SAFETY: no arguments; the data live as long as the session is used.
        unsafe {
            let none = ptr::null_mut();
            let session = Session::new(none, LowLevel::NONE, ptr::null_mut(), 30).unwrap();
            let req = Asked::begin(session, 1, Ctx::default());
            interrupt_func(req, Some(replies), data);
            assert!(Asked::interrupt(session, 1));
            assert_eq!(data.cast::<u32>().read(), 1);
            assert!(!Asked::interrupt(session, 1), "it has ended");
            // One that was interrupted before the function was named.
            let req = Asked::begin(session, 2, Ctx::default());
            assert!(Asked::interrupt(session, 2));
            assert_eq!(interrupted(req), 1);
            interrupt_func(req, Some(replies), data);
            assert_eq!(data.cast::<u32>().read(), 2);
            // One whose function was taken back.
            let req = Asked::begin(session, 3, Ctx::default());
            interrupt_func(req, Some(replies), data);
            interrupt_func(req, None, ptr::null_mut());
            assert!(Asked::interrupt(session, 3));
            answer(req, Answer::Done {});
            assert_eq!(data.cast::<u32>().read(), 2);
        }
    }
}

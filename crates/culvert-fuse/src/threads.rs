//! The loop of several threads: each reads requests; when none waits for one, another is made.

use crate::{
    abi::{LoopConfig, LoopConfig32},
    dispatch, log,
    mutex::locked,
    session::Session,
    signals,
};
use culvert_wire::structures::device::CLONE;
use std::{
    ffi::{c_int, c_uint},
    os::{fd::RawFd, unix::thread::JoinHandleExt},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// How many threads there are at most, unless the caller says how many. A file system may wait in
/// many requests at once, for locks that others of its requests give back.
const MOST: c_uint = 100;
/// How many wait at most, unless the caller says how many.
const IDLE: c_uint = 10;

struct Pool {
    session: &'static Session,
    /// Each, and whether it waits for a request, or is about to.
    threads: Mutex<Vec<(JoinHandle<()>, Arc<AtomicBool>)>>,
    count: AtomicUsize,
    /// Those that wait for a request.
    waiting: AtomicUsize,
    error: AtomicI32,
    most: usize,
    most_waiting: usize,
    clones: bool,
}

impl Pool {
    fn start(self: &Arc<Self>) -> bool {
        let own = Arc::clone(self);
        let receiving = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&receiving);
        let mut threads = locked(&self.threads);
        threads.retain(|(thread, _)| !thread.is_finished());
        self.count.fetch_add(1, SeqCst);
        self.waiting.fetch_add(1, SeqCst);
        let name = thread::Builder::new().name("fuse".into());
        match signals::blocked(|| name.spawn(move || own.work(&receiving))) {
            Ok(thread) => {
                threads.push((thread, seen));
                true
            }
            Err(error) => {
                self.count.fetch_sub(1, SeqCst);
                self.waiting.fetch_sub(1, SeqCst);
                log::say(&format!("cannot make a thread: {error}"));
                false
            }
        }
    }

    /// The device of one thread.
    fn device(&self) -> RawFd {
        let fd = self.session.fd.load(SeqCst);
        if !self.clones {
            return fd;
        }
        // SAFETY: a string; then descriptors and a place with one.
        unsafe {
            let own = libc::open(c"/dev/fuse".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if own >= 0 && libc::ioctl(own, CLONE.into(), &raw const fd) == 0 {
                return own;
            }
            if own >= 0 {
                libc::close(own);
            }
        }
        fd
    }

    fn work(self: Arc<Self>, receiving: &AtomicBool) {
        signals::admit_waking();
        let session = self.session;
        let mut buffer = vec![0; session.buffer_size()];
        let device = self.device();
        while !session.has_exited() {
            receiving.store(true, SeqCst);
            let received = session.receive(device, &mut buffer);
            receiving.store(false, SeqCst);
            let length = match received {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => continue,
                Err(error) => {
                    log::say(&format!("reading device: {error}"));
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    self.error.store(-errno, SeqCst);
                    session.exit();
                    break;
                }
            };
            if self.waiting.fetch_sub(1, SeqCst) == 1 && self.count.load(SeqCst) < self.most {
                self.start();
            }
            dispatch::serve(session, &buffer[..length]);
            if self.waiting.fetch_add(1, SeqCst) >= self.most_waiting {
                break;
            }
        }
        self.waiting.fetch_sub(1, SeqCst);
        self.count.fetch_sub(1, SeqCst);
        if device != session.fd.load(SeqCst) && self.clones {
            // SAFETY: this thread's own.
            unsafe { libc::close(device) };
        }
    }

    fn serve(self: Arc<Self>) -> c_int {
        if !self.start() {
            return -libc::EAGAIN;
        }
        self.session.await_exit();
        // Who still waits in a read is woken until it has seen it.
        signals::prepare_waking();
        loop {
            let mut threads = locked(&self.threads);
            threads.retain(|(thread, _)| !thread.is_finished());
            if threads.is_empty() {
                break;
            }
            // A function of the file system's is let be: its thread sees the end after it.
            let receiving = threads
                .iter()
                .filter(|(_, receiving)| receiving.load(SeqCst));
            for (thread, _) in receiving {
                // SAFETY: a thread that was not joined, so its number is its own.
                unsafe { libc::pthread_kill(thread.as_pthread_t(), signals::WAKING) };
            }
            drop(threads);
            thread::sleep(Duration::from_millis(1));
        }
        self.error.load(SeqCst)
    }
}

/// Serves `session` by several threads: 0, or a negated errno.
pub fn serve(session: &'static Session, config: Option<LoopConfig>) -> c_int {
    let given = |value: Option<c_uint>, default| {
        let value = value.filter(|&value| value != 0 && value != c_uint::MAX);
        value.unwrap_or(default) as usize
    };
    let pool = Pool {
        session,
        threads: Mutex::default(),
        count: AtomicUsize::new(0),
        waiting: AtomicUsize::new(0),
        error: AtomicI32::new(0),
        most: given(config.map(|config| config.max_threads), MOST),
        most_waiting: given(config.map(|config| config.max_idle_threads), IDLE),
        clones: config.is_some_and(|config| config.clone_fd != 0),
    };
    Arc::new(pool).serve()
}

#[unsafe(export_name = "culvert_fuse_session_loop_mt_32")]
unsafe extern "C" fn session_loop_mt_32(
    session: &'static Session,
    config: *const LoopConfig32,
) -> c_int {
    // SAFETY: null or a configuration of the header's.
    serve(session, unsafe { config.as_ref() }.map(of_32))
}

#[unsafe(export_name = "culvert_fuse_session_loop_mt_312")]
unsafe extern "C" fn session_loop_mt_312(
    session: &'static Session,
    config: *const LoopConfig,
) -> c_int {
    // SAFETY: null or one of `loop_cfg_create`.
    serve(session, unsafe { config.as_ref() }.copied())
}

/// The configuration of versions that say nothing of how many threads there are.
pub const fn of_32(config: &LoopConfig32) -> LoopConfig {
    LoopConfig {
        clone_fd: config.clone_fd,
        max_idle_threads: config.max_idle_threads,
        max_threads: 10,
    }
}

/// The configuration of versions that only say whether descriptors are cloned.
pub const fn cloning(clone_fd: c_int) -> LoopConfig {
    LoopConfig {
        clone_fd,
        max_idle_threads: IDLE,
        max_threads: 0,
    }
}

#[unsafe(export_name = "culvert_fuse_session_loop_mt_31")]
extern "C" fn session_loop_mt_31(session: &'static Session, clone_fd: c_int) -> c_int {
    serve(session, Some(cloning(clone_fd)))
}

#[unsafe(export_name = "culvert_fuse_session_loop_mt_2")]
extern "C" fn session_loop_mt_2(session: &'static Session) -> c_int {
    serve(session, None)
}

#[unsafe(export_name = "culvert_fuse_loop_cfg_create")]
extern "C" fn loop_cfg_create() -> *mut LoopConfig {
    Box::into_raw(Box::new(LoopConfig {
        max_threads: 10,
        ..cloning(0)
    }))
}

#[unsafe(export_name = "culvert_fuse_loop_cfg_destroy")]
unsafe extern "C" fn loop_cfg_destroy(config: *mut LoopConfig) {
    if !config.is_null() {
        // SAFETY: one of `loop_cfg_create`.
        drop(unsafe { Box::from_raw(config) });
    }
}

#[unsafe(export_name = "culvert_fuse_loop_cfg_set_idle_threads")]
extern "C" fn loop_cfg_set_idle_threads(config: &mut LoopConfig, value: c_uint) {
    config.max_idle_threads = value;
}

#[unsafe(export_name = "culvert_fuse_loop_cfg_set_max_threads")]
extern "C" fn loop_cfg_set_max_threads(config: &mut LoopConfig, value: c_uint) {
    config.max_threads = value;
}

#[unsafe(export_name = "culvert_fuse_loop_cfg_set_clone_fd")]
extern "C" fn loop_cfg_set_clone_fd(config: &mut LoopConfig, value: c_uint) {
    config.clone_fd = value as c_int;
}

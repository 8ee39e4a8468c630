//! What can happen to the process itself: waiting, and ways to end.
//!
//! Waits are calls that others may fork beside ([`culvert_sys::waits`]), as those of a driver for a
//! network are.

use crate::waiting::SLICE;
pub use crate::waiting::wait;
use core::ffi::CStr;
use culvert::Errno;
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general::{POLLIN, pollfd};
use culvert_sys::{fs, process};

/// What a driver with a defect does to its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads address 0: SIGSEGV.
    Crash,
    /// Panics, as code with a wrong assumption does.
    Panic,
    /// SIGABRT, as by abort(3), whatever the process wants to do with it.
    Abort,
    /// Never comes back.
    Loop,
}

impl Action {
    /// The action called `name`.
    pub fn named(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"crash" => Self::Crash,
            b"panic" => Self::Panic,
            b"abort" => Self::Abort,
            b"loop" => Self::Loop,
            _ => return None,
        })
    }

    /// Does it.
    pub fn run(self) -> ! {
        match self {
            Self::Crash => crash(),
            Self::Panic => panic!("a panic that a rule of layer fault asked for"),
            Self::Abort => culvert_sys::abort(),
            Self::Loop => loop {
                core::hint::spin_loop();
            },
        }
    }
}

fn crash() -> ! {
    // SAFETY: nothing is ever mapped there (mmap_min_addr, and the first page is never given out);
    // a fault is what is wanted. In assembly, for to the compiler it would be undefined.
    unsafe { core::arch::asm!("mov rax, qword ptr [0]", "ud2", options(noreturn)) }
}

/// Waits until somebody writes to the FIFO `path`, or has opened it for writing
/// and closes it. Who opens it for writing waits natively until this is reached. `EINTR` as soon as
/// a signal waits for this thread.
pub fn until(path: &CStr, interrupted: &dyn Fn() -> bool) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fifo = fs::open(path, flags, 0)?;
    let mut waited = [pollfd {
        fd: fifo.raw(),
        events: POLLIN as i16,
        revents: 0,
    }];
    while !interrupted() {
        match process::waiting::poll(&mut waited, (SLICE / 1_000_000) as i32) {
            Ok(0) | Err(Errno::EINTR) => {}
            done => return done.map(drop),
        }
    }
    Err(Errno::EINTR)
}

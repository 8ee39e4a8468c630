//! A process that is a FUSE server: what it does with /dev/fuse is answered here, by the slots in
//! its run's directory, whose other side is the driver for FUSE servers in other programs.
//!
//! Its descriptors for the device are open on a FIFO, the bell, which holds a byte for each request
//! that waits. So poll(2), select(2), epoll(7) and O_NONBLOCK are the kernel's own, and a thread
//! that waits for a request waits in a read of the program's own descriptor: signals and
//! cancellation end that as they would end a read of the device.
//!
//! The flag [`culvert_run::FUSE_SERVER`] of `CULVERT_RUN` makes a process a server. It is trusted
//! as the rest of the variable is, and goes on to what the process executes: a server may be a
//! script.

mod awake;
mod backing;
mod device;
mod follow;
mod fusermount;
mod mounting;
mod pipes;
pub mod processors;

pub use device::{Spans, closed, ioctl, open, read, write};
pub use fusermount::fusermount;
pub use mounting::{OPTIONS, TARGET, mount, unmount};
pub use pipes::{is_between, splice};

use crate::descriptors::fuse_devices;
use alloc::boxed::Box;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_run::{FUSE_SERVER, Run, files::c_string};
use culvert_slots::{Area, BELL, Server, open_fifo, waiters};
use culvert_sys::sync::{AtomicRef, Mutex};
use culvert_sys::trust::{self, Opened};
use culvert_sys::{OwnedFd, fs};

/// What this process knows as a server.
struct State {
    slots: Server,
    /// The directory that the slots lie in.
    directory: Vec<u8>,
    /// Where it has mounted, as it has said.
    target: Mutex<Option<Vec<u8>>>,
    backing: backing::BackingFiles,
    follow: follow::Follow,
    awake: awake::Awake,
}

static STATE: AtomicRef<State> = AtomicRef::new();

/// This process is a server, if the `flags` of its run say so.
///
/// # Errors
/// The slots cannot be used.
pub fn begin(run: &Run, flags: u8) -> Result<(), Errno> {
    match flags & FUSE_SERVER {
        0 => Ok(()),
        _ => serve(run),
    }
}

/// Apart, as its stack is large: each page of that is touched on the way in.
#[cold]
#[inline(never)]
fn serve(run: &Run) -> Result<(), Errno> {
    let directory = trusted(&run.path)?;
    let area = Area::open(&directory)?;
    let bell = open_fifo(&directory, BELL)?;
    let owner = (directory.stat().st_uid, culvert_sys::process::getegid());
    fuse_devices::begin(&fs::fstat(&bell)?);
    STATE.set(Some(Box::leak(Box::new(State {
        slots: Server::new(area, owner),
        directory: run.path.clone(),
        target: Mutex::new(None),
        backing: backing::BackingFiles::new(),
        follow: follow::Follow::new(),
        awake: awake::Awake::new(),
    }))));
    Ok(())
}

/// Whether this process is one.
#[inline]
pub fn is_one() -> bool {
    STATE.is_some()
}

/// The state, where `fd`, which no driver serves, stands for the device.
#[inline]
fn of(fd: usize) -> Option<&'static State> {
    let state = STATE.get()?;
    fuse_devices::is_device(fd as i32).then_some(state)
}

fn trusted(path: &[u8]) -> Result<Opened, Errno> {
    trust::directory(&c_string(path), trust::user()).map_err(|why| why.errno())
}

impl State {
    /// A new description of the bell.
    fn bell(&self) -> Result<OwnedFd, Errno> {
        open_fifo(&trusted(&self.directory)?, BELL)
    }

    /// The session is over: no request is taken any more.
    fn end(&self) {
        if let Ok(bell) = self.bell() {
            self.slots.area().end(&bell);
        }
        if let Ok(directory) = trusted(&self.directory) {
            waiters::wake(&directory, None);
        }
    }
}

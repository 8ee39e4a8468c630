//! The program's side of the pager: a process outside the programs, one for a run, that fills pages
//! of mapped files when they are touched, and knows when a process with written pages is gone. The
//! other side is the hidden mode `run-pager` of the command (culvert-cli, `pager/`).
//!
//! A mapping of a shadow that still has holes is registered with the process's userfaultfd before
//! the mapping is known to the program; whoever touches a missing page, the kernel for a system
//! call among them, sleeps until the pager has filled it. The process keeps the userfaultfd too:
//! were the pager's the only one, its death would let the sleepers see zeroes.

mod connection;
pub(super) mod launch;
pub mod message;
mod ranges;
pub mod userfault;

pub use launch::{LISTENING, LOCK, NAMESPACE, WORD};
pub use message::name_of;
pub use ranges::Part;

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use culvert::Errno;
use culvert_run::ShadowName;
use culvert_run::task;
use culvert_sys::sync::{Mutex, MutexGuard};
use message::{Kind, Message};

/// Files up to this length are filled before they are mapped: that costs less than the faults.
pub const SMALL: u64 = 1 << 20;

pub(super) struct State {
    /// Where the number of the connection stands.
    pub(super) socket: Option<&'static AtomicI32>,
    /// Where that of the userfaultfd stands, and whether the kernel's accesses are caught too.
    pub(super) userfault: Option<(&'static AtomicI32, bool)>,
    pub(super) ranges: Vec<Part>,
    /// How many messages were sent.
    sent: u32,
    /// This process was just forked, and does not wait for the pager's answers yet.
    pub(super) forked: bool,
    /// The numbers of messages whose answers are waited for later.
    pub(super) unheard: Vec<u32>,
    /// There is no pager, for a reason that stays.
    impossible: bool,
}

pub(super) static STATE: Mutex<State> = Mutex::new(State {
    socket: None,
    userfault: None,
    ranges: Vec::new(),
    sent: 0,
    forked: false,
    unheard: Vec::new(),
    impossible: false,
});

/// Whether there ever was such a range.
static ANY: AtomicBool = AtomicBool::new(false);

/// This process's userfaultfd, made at first need: the one with which all its mappings are
/// registered. None: the kernel gives none.
pub fn userfault() -> Option<i32> {
    STATE.lock().userfault().map(|(fd, _)| fd)
}

/// Whether the pages of `name`, `size` bytes long, may be filled when they are touched: the pager
/// can read the file. False: the caller fills the shadow. Not to be called with a node's lock, for
/// which the pager may be waiting.
pub fn lazy(name: ShadowName, size: u64) -> bool {
    if size <= SMALL || !possible() {
        return false;
    }
    let mut state = STATE.lock();
    if !matches!(state.userfault(), Some((_, true))) {
        return false;
    }
    culvert_run::node_paths::note(name);
    let asked = Message {
        node: name.node.0,
        mount: name.mount.0.into(),
        ..Message::new(Kind::Prepare)
    };
    if let Err(error) = state.ask(&asked) {
        culvert_sys::log!("{name} is filled before it is mapped: {error}");
        return false;
    }
    true
}

/// Registers `length` bytes at `start`, which were just mapped from byte `offset` of the shadow of
/// `name` on. False: nothing is registered, and the caller fills the shadow before anybody knows of
/// the mapping.
pub fn mapped(part: &Part) -> bool {
    let part = Part {
        length: part.length.next_multiple_of(culvert_sys::PAGE),
        ..*part
    };
    let name = part.name;
    let mut state = STATE.lock();
    ranges::cut(&mut state.ranges, part.start, part.length);
    let done = state.attach(&part);
    match done {
        Ok(()) => {
            state.ranges.push(part);
            ANY.store(true, Relaxed);
        }
        Err(error) => culvert_sys::log!("a mapping of {name} is filled at once: {error}"),
    }
    done.is_ok()
}

/// What is at `start` is no mapping of ours any more. Comes in the order of the system calls that
/// said so.
pub fn unmapped(start: usize, length: usize) {
    let mut state = STATE.lock();
    let length = length.next_multiple_of(culvert_sys::PAGE);
    if ranges::cut(&mut state.ranges, start, length) {
        let message = Message {
            start: start as u64,
            length: length as u64,
            ..Message::new(Kind::Detach)
        };
        // Who does not hear of it, for a filter may forbid that, is never asked for anything there
        // again.
        if let Some(socket) = state.number().filter(|_| possible()) {
            let _ = message.send(socket, None);
        }
    }
}

/// The process's userfaultfd does not watch these bytes, from the first address on, any more: who
/// calls this moves them, and registers them anew.
pub fn unregister((start, length): (usize, usize)) {
    if let Some((place, _)) = STATE.lock().userfault {
        let _ = userfault::unregister(place.load(Acquire), start as u64, length as u64);
    }
}

/// The parts between `start` and `length` bytes from there.
pub fn between(start: usize, length: usize) -> Vec<Part> {
    if !ANY.load(Relaxed) {
        return Vec::new();
    }
    ranges::between(&STATE.lock().ranges, start, length)
}

/// Whether any page in the range may be missing.
pub fn is_lazy(start: usize, length: usize) -> bool {
    !between(start, length).is_empty()
}

/// Tells the pager of this process, so that what it has written is brought to the files when it is
/// gone, however it ends. False: there is no pager.
pub fn introduce() -> bool {
    if !possible() {
        return false;
    }
    let mut state = STATE.lock();
    state.look();
    state.connect().is_ok()
}

/// Asks the pager, if there is one, to drop pages of mapped files until `bytes` more find room, and
/// waits until it has done what it can.
pub fn drop_pages(bytes: u64) {
    if !possible() {
        return;
    }
    let Some(mut state) = state_soon() else {
        return;
    };
    state.look();
    let message = Message {
        length: bytes,
        ..Message::new(Kind::Room)
    };
    // Where none listens there are no pages that were filled on demand.
    let socket = match state.number() {
        Some(socket) => Ok(socket),
        None => match launch::connect() {
            Err(Errno::ECONNREFUSED | Errno::ENOENT) => return,
            connected => connected.and_then(|socket| state.greet(socket)),
        },
    };
    if let Err(error) = socket.and_then(|socket| state.exchange(socket, message, None)) {
        culvert_sys::log!("no pages of mapped files can be dropped: {error}");
    }
}

/// [`STATE`], which another thread keeps while the pager drops pages for it, that is as long as
/// drivers write. None after a minute: rather no room than a program that hangs.
fn state_soon() -> Option<MutexGuard<'static, State>> {
    /// Milliseconds.
    const PATIENCE: usize = 60_000;
    for _ in 0..PATIENCE {
        if let Some(state) = STATE.try_lock() {
            return Some(state);
        }
        let _ = culvert_sys::process::nanosleep(1_000_000);
    }
    None
}

/// Neither in a child of vfork, whose descriptors are not those that its memory knows, nor under a
/// seccomp filter.
fn possible() -> bool {
    task::vfork_child().is_none() && !task::is_confined()
}

//! The program's side of the pager: a process outside the programs, one for a run, that fills pages of mapped files when they are touched, and knows when a
//! process with written pages is gone. The other side is the hidden mode `run-pager` of the command (culvert-cli, `pager/`).
//!
//! A mapping of a shadow that still has holes is registered with the process's userfaultfd before the mapping is known to the program; whoever touches a missing
//! page, the kernel for a system call among them, sleeps until the pager has filled it. The process keeps the userfaultfd too: were the pager's the only
//! one, its death would let the sleepers see zeroes.

pub mod evict;
pub mod fill;
mod launch;
pub mod message;
pub mod userfault;

pub use launch::{LISTENING, LOCK, WORD};
pub use message::name_of;

use crate::process;
use crate::run::{ShadowName, stat_descriptor, stat_path};
use crate::shadow::Descriptor;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering::*};
use culvert::Errno;
use culvert_intercept::descriptors as classes;
use culvert_sys::{
    nr,
    sync::{Mutex, MutexGuard},
    syscall,
};
use message::{Kind, Message};

/// Files up to this length are filled before they are mapped: that costs less than the faults.
pub const SMALL: u64 = 1 << 20;

/// A range of this process whose missing pages the pager fills.
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    length: u64,
    name: ShadowName,
    offset: u64,
    /// The program's descriptor does not allow to write through it: the kernel's does, without which it takes no registration (`VM_MAYWRITE`, UFFDIO_REGISTER).
    read_only: bool,
}

struct State {
    /// Where the number of the connection stands.
    socket: Option<&'static AtomicI32>,
    /// Where that of the userfaultfd stands, and whether the kernel's accesses are caught too.
    userfault: Option<(&'static AtomicI32, bool)>,
    ranges: Vec<Range>,
    /// How many messages were sent.
    sent: u32,
    /// This process was just forked, and does not wait for the pager's answers yet.
    forked: bool,
    /// The numbers of messages whose answers are waited for later.
    unheard: Vec<u32>,
    /// There is no pager, for a reason that stays.
    impossible: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
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

/// This process's userfaultfd, made at first need: the one with which all its mappings are registered. None: the kernel gives none.
pub fn userfault() -> Option<i32> {
    STATE.lock().userfault().map(|(fd, _)| fd)
}

/// Whether the pages of `name`, `size` bytes long, may be filled when they are touched: the pager can read the file. False: the caller fills the shadow. Not to be
/// called with a node's lock, for which the pager may be waiting.
pub fn lazy(name: ShadowName, size: u64) -> bool {
    if size <= SMALL || !possible() {
        return false;
    }
    let mut state = STATE.lock();
    if !matches!(state.userfault(), Some((_, true))) {
        return false;
    }
    crate::descriptors::note_node(name);
    let asked = Message {
        node: name.node.0,
        mount: name.mount.into(),
        ..Message::new(Kind::Prepare)
    };
    if let Err(error) = state.ask(&asked) {
        crate::log!(
            "node {:x} of mount {} is filled before it is mapped: {error}",
            name.node.0,
            name.mount
        );
        return false;
    }
    true
}

/// Registers `length` bytes at `start`, which were just mapped from byte `offset` of the shadow of `name` on. False: nothing is registered, and the caller fills
/// the shadow before anybody knows of the mapping.
pub fn mapped(part: &Part) -> bool {
    let length = (part.length as u64).next_multiple_of(userfault::PAGE);
    let range = Range {
        start: part.start as u64,
        length,
        name: part.name,
        offset: part.offset,
        read_only: part.read_only,
    };
    let name = part.name;
    let mut state = STATE.lock();
    state.cut(range.start, length);
    let done = state.attach(&range);
    match done {
        Ok(()) => {
            state.ranges.push(range);
            ANY.store(true, Relaxed);
        }
        Err(error) => crate::log!(
            "a mapping of node {:x} of mount {} is filled at once: {error}",
            name.node.0,
            name.mount
        ),
    }
    done.is_ok()
}

/// What is at `start` is no mapping of ours any more. Comes in the order of the system calls that said so.
pub fn unmapped(start: usize, length: usize) {
    let mut state = STATE.lock();
    let length = (length as u64).next_multiple_of(userfault::PAGE);
    if state.cut(start as u64, length) {
        let message = Message {
            start: start as u64,
            length,
            ..Message::new(Kind::Detach)
        };
        // Who does not hear of it, for a filter may forbid that, is never asked for anything there again.
        if let Some(socket) = state.number().filter(|_| possible()) {
            let _ = message.send(socket, None);
        }
    }
}

/// The process's userfaultfd does not watch these bytes, from the first address on, any more: who calls this moves them, and registers them anew.
pub fn unregister((start, length): (usize, usize)) {
    if let Some((place, _)) = STATE.lock().userfault {
        let _ = userfault::unregister(place.load(Acquire), start as u64, length as u64);
    }
}

/// A part of the program's memory, whose missing pages the pager fills.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// First address.
    pub start: usize,
    /// Bytes.
    pub length: usize,
    /// The file.
    pub name: ShadowName,
    /// Its byte at `start`.
    pub offset: u64,
    /// It must not become writable (mprotect(2), EACCES), though the kernel would allow it.
    pub read_only: bool,
}

/// The parts between `start` and `length` bytes from there.
pub fn between(start: usize, length: usize) -> Vec<Part> {
    if !ANY.load(Relaxed) {
        return Vec::new();
    }
    let (start, end) = (start as u64, (start as u64).saturating_add(length as u64));
    let state = STATE.lock();
    let ranges = state.ranges.iter();
    let parts = ranges.filter_map(|range| {
        let (from, to) = (
            range.start.max(start),
            (range.start + range.length).min(end),
        );
        (from < to).then(|| Part {
            start: from as usize,
            length: (to - from) as usize,
            name: range.name,
            offset: range.offset + (from - range.start),
            read_only: range.read_only,
        })
    });
    parts.collect()
}

/// Whether any page in the range may be missing.
pub fn is_lazy(start: usize, length: usize) -> bool {
    !between(start, length).is_empty()
}

/// What is missing of the file of `name` is filled, because a mapping of it cannot be registered.
pub fn fill_all(name: ShadowName) -> culvert::Result<()> {
    fill::all(name)
}

/// Tells the pager of this process, so that what it has written is brought to the files when it is gone, however it ends. False: there is no pager.
pub fn introduce() -> bool {
    if !possible() {
        return false;
    }
    let mut state = STATE.lock();
    state.look();
    state.connect().is_ok()
}

/// Asks the pager, if there is one, to drop pages of mapped files until `bytes` more find room, and waits until it has done what it can.
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
        crate::log!("no pages of mapped files can be dropped: {error}");
    }
}

/// [`STATE`], unless somebody keeps it: this may be its owner, who is asking for something just now that needs room.
fn state_soon() -> Option<MutexGuard<'static, State>> {
    /// Milliseconds: others ask the pager for as long.
    const PATIENCE: usize = 100;
    let pause = [0usize, 1_000_000];
    for _ in 0..PATIENCE {
        if let Some(state) = STATE.try_lock() {
            return Some(state);
        }
        // SAFETY: sleeps for a millisecond.
        let _ = unsafe { syscall::call(nr::NANOSLEEP, [pause.as_ptr() as usize, 0]) };
    }
    None
}

/// This is the child of a fork, its only thread; `shares_table`: its descriptors are its parent's too. Registrations are not inherited: all ranges get new ones
/// before the program goes on.
pub fn forked(shares_table: bool) {
    let mut state = STATE.lock();
    let inherited = [
        state.socket.take(),
        state.userfault.take().map(|(place, _)| place),
    ];
    for place in inherited.into_iter().flatten() {
        let fd = place.swap(-1, AcqRel);
        if !shares_table && fd >= 0 {
            classes::set(fd, classes::UNKNOWN);
            drop(Descriptor(fd));
        }
    }
    state.forked = true;
    state.unheard.clear();
    let mut ranges = core::mem::take(&mut state.ranges);
    // Of one that is filled nothing goes any more; that it may only be read is still to be known.
    ranges.retain(|range| range.read_only || may_lack(range.name));
    let Some((fd, true)) = (match ranges.is_empty() {
        true => None,
        false => state.userfault(),
    }) else {
        return fill_these(&ranges, Errno::EPERM);
    };
    for range in ranges {
        match userfault::register(fd, range.start, range.length) {
            Ok(()) => state.ranges.push(range),
            Err(error) => fill_now(&range, error),
        }
    }
    // All that are registered are told in the greeting, which is answered while this process does what else a new one has to.
    if !state.ranges.is_empty() {
        let _ = launch::connect().and_then(|socket| state.greet(socket));
    }
}

/// The end of what [`forked`] began: the pager knows all ranges, or they are filled.
pub fn settle() {
    let mut state = STATE.lock();
    state.forked = false;
    if state.ranges.is_empty() {
        return;
    }
    if state.hear().is_err() {
        state.disconnect();
    }
    if let Err(error) = state.connect() {
        let ranges = core::mem::take(&mut state.ranges);
        let userfault = state.userfault().map(|(fd, _)| fd);
        drop(state);
        for range in &ranges {
            let _ = userfault.map(|fd| userfault::unregister(fd, range.start, range.length));
        }
        fill_these(&ranges, error);
    }
}

/// Whether the shadow of `name`, of which something is mapped, may have holes that mean missing pages.
fn may_lack(name: ShadowName) -> bool {
    let found = match super::nodes::descriptor(name) {
        Some(fd) => stat_descriptor(fd),
        None => stat_path(&process::get().run.shadow(name)),
    };
    !found.is_ok_and(|found| !fill::is_partly(&found))
}

fn fill_these(ranges: &[Range], cause: Errno) {
    ranges.iter().for_each(|range| fill_now(range, cause));
}

/// A range that cannot be registered here: its file is filled. A child that cannot even do that must not see zeroes: the range is unmapped.
fn fill_now(range: &Range, cause: Errno) {
    if let Err(error) = fill::all(range.name) {
        crate::log!(
            "node {:x} of mount {}, which is mapped, can neither be filled on demand ({cause}) nor now: {error}",
            range.name.node.0,
            range.name.mount
        );
        // SAFETY: a mapping of this process whose content is missing.
        let _ = unsafe { syscall::call(nr::MUNMAP, [range.start as usize, range.length as usize]) };
    }
}

/// Neither in a child of vfork, whose descriptors are not those that its memory knows, nor under a seccomp filter.
fn possible() -> bool {
    process::vfork_child().is_none() && !process::get().is_confined()
}

impl State {
    fn userfault(&mut self) -> Option<(i32, bool)> {
        if self.userfault.is_none() && possible() {
            let (made, full) = userfault::create()
                .inspect_err(|error| crate::log!("no userfaultfd: {error}"))
                .ok()?;
            let place = process::get().table.adopt_internal(made.0)?;
            let _ = made.release();
            self.userfault = Some((place, full));
        }
        self.userfault
            .map(|(place, full)| (place.load(Acquire), full))
    }

    fn number(&self) -> Option<i32> {
        self.socket
            .map(|place| place.load(Acquire))
            .filter(|&fd| fd >= 0)
    }

    /// A connection to a pager that knows this process and all its ranges.
    fn connect(&mut self) -> Result<i32, Errno> {
        if let Some(socket) = self.number() {
            return Ok(socket);
        }
        if self.impossible {
            return Err(Errno::ENOSYS);
        }
        /// A pager that is being started, or is about to end, is not waited for longer than this, in milliseconds.
        const PATIENCE: usize = 5000;
        let mut last = Errno::ECONNREFUSED;
        for _ in 0..PATIENCE {
            match launch::connect().and_then(|socket| self.greet(socket)) {
                Ok(socket) => return Ok(socket),
                Err(
                    error @ (Errno::ECONNREFUSED
                    | Errno::ENOENT
                    | Errno::EPIPE
                    | Errno::ECONNRESET
                    | Errno::EAGAIN),
                ) => last = error,
                Err(error) => return Err(self.give_up(error)),
            }
            match launch::start() {
                Ok(()) => {}
                Err(Errno::EAGAIN) => {
                    let pause = [0usize, 1_000_000];
                    // SAFETY: sleeps for a millisecond.
                    let _ = unsafe { syscall::call(nr::NANOSLEEP, [pause.as_ptr() as usize, 0]) };
                }
                Err(error) => return Err(self.give_up(error)),
            }
        }
        Err(last)
    }

    fn give_up(&mut self, error: Errno) -> Errno {
        crate::log!("there is no pager: {error}; mapped files are filled at once");
        self.impossible = true;
        error
    }

    /// Says who we are, and which ranges are ours already (an earlier pager has died).
    fn greet(&mut self, socket: Descriptor) -> Result<i32, Errno> {
        let userfault = match self.userfault() {
            Some((fd, true)) => Some(fd),
            _ => None,
        };
        let hello = Message {
            slot: process::get().node_locks.owner(),
            ..Message::new(Kind::Hello)
        };
        let mut all = alloc::vec![hello];
        all.extend(self.ranges.iter().map(Range::message));
        // Sent together, so that the child of a fork does not wait for each; no more than the answers find room for.
        const AT_ONCE: usize = 64;
        let mut userfault = userfault;
        let mut left = all.len();
        for messages in all.chunks_mut(AT_ONCE) {
            left -= messages.len();
            let last = left == 0;
            for message in &mut *messages {
                message.number = self.next_number();
                message.send(socket.0, userfault.take())?;
            }
            // The child of a fork that has no pages to wait for only says that it lives: its parent was served, so there is somebody who hears it. Where that one
            // ends this very moment, the next user of the file brings what a killed process has stored. Others listen for the answers in `settle`.
            if self.forked && last {
                if !self.ranges.is_empty() {
                    let numbers = messages.iter().map(|message| message.number);
                    self.unheard.extend(numbers);
                }
                break;
            }
            for message in &*messages {
                check(message::answered(socket.0, message.number)?)?;
            }
        }
        let place = process::get()
            .table
            .adopt_internal(socket.0)
            .ok_or(Errno::EMFILE)?;
        let _ = socket.release();
        self.socket = Some(place);
        // An earlier pager may have died with faults that it had taken and not answered.
        if let Some(fd) = userfault {
            for range in &self.ranges {
                let _ = userfault::wake(fd, range.start, range.length);
            }
        }
        Ok(place.load(Acquire))
    }

    /// Forgets the connection to a pager that has died.
    fn look(&mut self) {
        if self.unheard.is_empty() && self.number().is_some_and(message::is_over) {
            self.disconnect();
        }
    }

    /// Waits for the answers that were not waited for. EPIPE: one of them is no good, or there is no pager.
    fn hear(&mut self) -> Result<(), Errno> {
        let unheard = core::mem::take(&mut self.unheard);
        if unheard.is_empty() {
            return Ok(());
        }
        let socket = self.number().ok_or(Errno::EPIPE)?;
        unheard.iter().try_for_each(|&number| {
            let answer = message::answered(socket, number).and_then(check);
            answer.map_err(|_| Errno::EPIPE)
        })
    }

    fn disconnect(&mut self) {
        self.unheard.clear();
        if let Some(place) = self.socket.take() {
            let fd = place.swap(-1, AcqRel);
            classes::set(fd, classes::UNKNOWN);
            drop(Descriptor(fd));
        }
    }

    /// Sends a message and waits for the answer; a pager that has died is replaced.
    fn ask(&mut self, message: &Message) -> Result<(), Errno> {
        let mut last = Errno::EPIPE;
        for _ in 0..3 {
            let socket = self.connect()?;
            match self.exchange(socket, *message, None) {
                Err(error @ (Errno::EPIPE | Errno::ECONNRESET)) => last = error,
                other => return other,
            }
            self.disconnect();
        }
        Err(last)
    }

    fn next_number(&mut self) -> u32 {
        self.sent = self.sent.wrapping_add(1);
        self.sent
    }

    /// Sends a message and waits for its answer. EPIPE, ECONNRESET: the pager is gone.
    fn exchange(&mut self, socket: i32, message: Message, fd: Option<i32>) -> Result<(), Errno> {
        self.hear()?;
        let message = Message {
            number: self.next_number(),
            ..message
        };
        message.send(socket, fd)?;
        check(message::answered(socket, message.number)?)
    }

    fn attach(&mut self, range: &Range) -> Result<(), Errno> {
        let Some((fd, true)) = self.userfault() else {
            return Err(Errno::EPERM);
        };
        // Before the pager fills anything: it wakes who waits here, or nobody.
        userfault::register(fd, range.start, range.length)?;
        self.ask(&range.message()).inspect_err(|_| {
            let _ = userfault::unregister(fd, range.start, range.length);
        })
    }

    /// Takes a range out of the list; whether anything of it was there.
    fn cut(&mut self, start: u64, length: u64) -> bool {
        let end = start.saturating_add(length);
        let touched = |range: &Range| range.start < end && start < range.start + range.length;
        if !self.ranges.iter().any(touched) {
            return false;
        }
        let mut left = Vec::with_capacity(self.ranges.len() + 1);
        for range in self.ranges.drain(..) {
            if !touched(&range) {
                left.push(range);
                continue;
            }
            let range_end = range.start + range.length;
            if range.start < start {
                left.push(Range {
                    length: start - range.start,
                    ..range
                });
            }
            if end < range_end {
                left.push(Range {
                    start: end,
                    length: range_end - end,
                    offset: range.offset + (end - range.start),
                    ..range
                });
            }
        }
        self.ranges = left;
        true
    }
}

impl Range {
    fn message(&self) -> Message {
        Message {
            start: self.start,
            length: self.length,
            offset: self.offset,
            node: self.name.node.0,
            mount: self.name.mount.into(),
            ..Message::new(Kind::Attach)
        }
    }
}

fn check(errno: i32) -> Result<(), Errno> {
    match errno {
        0 => Ok(()),
        errno => Err(Errno::new(errno)),
    }
}

/// The length of a shadow.
pub fn length_of(shadow: &Descriptor) -> Result<u64, Errno> {
    stat_descriptor(shadow.0).map(|found| found.st_size as u64)
}

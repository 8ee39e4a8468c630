//! io_uring_enter(2): requests are copied, looked at, and the copies given to the kernel.
//!
//! A request for a file that a driver serves is done first, by the hook of the call of the same
//! name, and the kernel gets a NOP that ends as it did: completion, order and links are the
//! kernel's. It is done when it is submitted, as the kernel does what it can do at once. What would
//! have to wait for another request of the kernel's is refused.

use super::SETUP_IOPOLL;
use super::operations::{self, Treatment};
use crate::descriptors::rings::entry::{
    ASYNC, BUFFER_SELECT, Entry, FIXED_FILE, IO_DRAIN, IO_HARDLINK, UNUSED,
};
use crate::descriptors::rings::{DescriptorKind, Ring, State, await_descriptor, find};
use crate::process::{self, Process};
use crate::syscalls::{done, socket, unix_sockets};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culvert::Errno;
use culvert_intercept::{Call, Outcome, descriptors as classes, user};
use culvert_sys::BorrowedFd;
use culvert_sys::net::socket_option;
use culvert_sys::raw::net::SO_DOMAIN;

const GETEVENTS: usize = 1 << 0;
const REGISTERED_RING: usize = 1 << 4;
/// All `IORING_ENTER_*` of Linux 6.18.
const KNOWN_FLAGS: u32 = 0xff;
const AF_UNIX: i32 = 1;
/// `sizeof(struct sockaddr_storage)`: a longer address is none.
const LONGEST_ADDRESS: usize = 128;

/// How a call is answered, whichever it is.
pub type Dispatch = fn(&mut Call) -> Outcome;

/// io_uring_enter(2); `dispatch` answers the requests that are calls.
pub fn enter(process: &Process, call: &mut Call, dispatch: Dispatch) -> Outcome {
    let fd = call.args[0] as i32;
    // What is not known is refused before anybody looks at the descriptor.
    if call.args[3] as u32 & !KNOWN_FLAGS != 0 {
        return done(Err(Errno::EINVAL));
    }
    // None is ever registered (`registration.rs`).
    if call.args[3] & REGISTERED_RING != 0 || process.run.is_internal(fd) {
        return done(Err(Errno::EBADF));
    }
    // Waiting reads no requests.
    if call.args[1] as u32 == 0 {
        return Outcome::Forward;
    }
    match find(fd) {
        DescriptorKind::Ring(ring) => submit(&ring, call, dispatch),
        DescriptorKind::Other => Outcome::Forward,
        DescriptorKind::Stranger => {
            culvert_sys::log!(
                "io_uring: requests in a ring that this program has not made are refused"
            );
            done(Err(Errno::EOPNOTSUPP))
        }
    }
}

fn submit(ring: &Ring, call: &Call, dispatch: Dispatch) -> Outcome {
    let [_, wanted, least, flags, ..] = call.args;
    let mut guard = ring.state.lock();
    let state = &mut *guard;
    let mut batch = Batch {
        ring,
        dispatch,
        chain: Chain::None,
        addresses: Vec::new(),
    };
    let (count, stop) = match state.disabled {
        true => (0, None),
        false => batch.fill(state, wanted as u32),
    };
    if count == 0 {
        match stop {
            Some(Stop::Signal) => return Outcome::Restart,
            Some(Stop::Anothers) => return done(Err(Errno::EEXIST)),
            None => {}
        }
        // The queue is empty, or the ring not enabled yet: the kernel says so, and waits for
        // nothing.
        let nothing = call.replacing().word(1, 0).word(2, 0).word(3, 0);
        return done(nothing.execute());
    }
    // What is not all taken is not waited for either (`io_uring_enter`, io_uring/io_uring.c).
    let waits = flags & GETEVENTS != 0 && least as u32 != 0 && count == wanted as u32;
    if waits && !culvert_intercept::multi_threaded() {
        // Nobody else submits or forks meanwhile, so that it can be one call.
        let answer = call.replacing().word(1, count as usize).wait();
        batch.end(state);
        return done(answer);
    }
    let (least_now, flags_now) = match waits {
        true => (0, flags & !GETEVENTS),
        false => (least, flags),
    };
    let least_now = if count == wanted as u32 { least_now } else { 0 };
    let now = call.replacing().word(1, count as usize);
    let answer = now.word(2, least_now).word(3, flags_now).execute();
    batch.end(state);
    drop(guard);
    if waits && answer == Ok(count as usize) {
        // Whatever becomes of the wait, what counts is what was submitted.
        let _ = call.replacing().word(1, 0).wait();
    }
    done(answer)
}

/// What a request that is linked waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chain {
    /// It begins one.
    None,
    /// What is done already.
    Done,
    /// What was done and has failed: nothing of the chain is done any more.
    Broken,
    /// What the kernel is to do.
    Kernel,
}

/// The requests of one call.
struct Batch<'a> {
    ring: &'a Ring,
    dispatch: Dispatch,
    chain: Chain,
    /// Addresses of sockets, which the kernel reads here.
    addresses: Vec<Vec<u8>>,
}

/// Why a request is not given to the kernel now.
enum Stop {
    /// A signal waits that the program is to see first.
    Signal,
    /// Only one thread may submit (`IORING_SETUP_SINGLE_ISSUER`).
    Anothers,
}

impl Batch<'_> {
    /// Fills in the kernel's requests; how many, and what has put an end to it.
    fn fill(&mut self, state: &mut State, wanted: u32) -> (u32, Option<Stop>) {
        let memory = &self.ring.memory;
        let (head, queued) = memory.queued();
        let count = queued.min(wanted);
        for i in 0..count {
            let position = head.wrapping_add(i);
            let index = memory.index(position);
            // The kernel counts it as dropped.
            if index >= memory.entries {
                continue;
            }
            // The same request twice: one at a time.
            if !memory.is_unused(index) {
                return (i, None);
            }
            let (mut entry, second) = memory.original(index);
            let linked = entry.is_linked();
            if let Err(stop) = self.decide(state, position, &mut entry) {
                return (i, Some(stop));
            }
            memory.fill(index, &entry, &second);
            state.filled.push(index);
            if !linked {
                self.chain = Chain::None;
            }
        }
        (count, None)
    }

    /// The kernel has read what it wanted.
    fn end(&mut self, state: &mut State) {
        for index in state.filled.drain(..) {
            self.ring.memory.clear(index);
        }
        if !state.performed.is_empty() {
            let (head, queued) = self.ring.memory.queued();
            let waits = |&(position, _): &(u32, i32)| position.wrapping_sub(head) < queued;
            state.performed.retain(waits);
        }
    }

    /// Makes of a request what the kernel may have.
    fn decide(&mut self, state: &mut State, position: u32, entry: &mut Entry) -> Result<(), Stop> {
        if let Some(restrictions) = &state.restrictions
            && !restrictions.allow(entry)
        {
            self.answer(entry, Err(Errno::EACCES));
            return Ok(());
        }
        // Done by a call whose request the kernel did not take.
        let performed = |(at, _): &&(u32, i32)| *at == position;
        if let Some(&(_, result)) = state.performed.iter().find(performed) {
            self.ended(entry, result);
            return Ok(());
        }
        if self.chain == Chain::Broken && entry.operation != operations::LINK_TIMEOUT {
            entry.end_with(Errno::ECANCELED.negated() as i32);
            return Ok(());
        }
        let judgement = match self.judge(entry) {
            Judgement::Call if operations::is_malformed(entry) => {
                match self.concerns_driver(entry) {
                    true => self.unknown(entry),
                    false => Judgement::Kernel,
                }
            }
            judgement => judgement,
        };
        match judgement {
            Judgement::Kernel => {
                self.give(state, entry);
                Ok(())
            }
            Judgement::Answer(errno) => {
                self.answer(entry, Err(errno));
                Ok(())
            }
            Judgement::Unknown => {
                entry.operation = UNUSED;
                Ok(())
            }
            Judgement::Call => self.perform(state, position, entry),
        }
    }

    /// The kernel's.
    fn give(&mut self, state: &mut State, entry: &Entry) {
        let waits = self.chain == Chain::Kernel || state.drains || entry.has(IO_DRAIN | ASYNC);
        if entry.operation != operations::LINK_TIMEOUT {
            self.chain = Chain::Kernel;
        }
        if operations::is_close(entry.operation) && entry.file_index == 0 {
            // When it goes nobody will see: from here on it is looked at each time.
            let table = &process::get().table;
            if table.has_class(entry.fd) || !is_foreign(entry.fd) {
                table.forget(entry.fd);
            }
        }
        state.drains |= entry.has(IO_DRAIN);
        if !waits {
            return;
        }
        let treatment = operations::treatment(entry.operation);
        let names = !matches!(treatment, Treatment::Kernel | Treatment::Socket)
            && !operations::is_of_memory(entry.operation);
        if names && !entry.has(FIXED_FILE) {
            await_descriptor(entry.fd);
        }
        match treatment {
            Treatment::Splice => await_descriptor(entry.file_index as i32),
            Treatment::Epoll => await_descriptor(entry.offset as i32),
            _ => {}
        }
    }

    /// It ends with `answer`, without anything having been done.
    fn answer(&mut self, entry: &mut Entry, answer: Result<i32, Errno>) {
        let result = answer.unwrap_or_else(|errno| errno.negated() as i32);
        // What waits for the kernel still does, and the kernel breaks its chain.
        if self.chain == Chain::Kernel {
            entry.end_with(result);
        } else {
            self.ended(entry, result);
        }
    }

    /// It was done, and came to `result`.
    fn ended(&mut self, entry: &mut Entry, result: i32) {
        let wanted = match result {
            0.. => operations::bytes(entry),
            _ => None,
        };
        let fails = result < 0 || wanted.is_some_and(|wanted| wanted != result as usize);
        self.chain = match fails && !entry.has(IO_HARDLINK) {
            true => Chain::Broken,
            false => Chain::Done,
        };
        entry.end_with(result);
    }

    /// As the call of the same name.
    fn perform(&mut self, state: &mut State, position: u32, entry: &mut Entry) -> Result<(), Stop> {
        let mut vector = [0; 2];
        let Some(mut call) = operations::as_call(entry, &mut vector) else {
            self.refuse(entry, "what a registered buffer is, only the kernel knows");
            return Ok(());
        };
        let refused = match () {
            () if self.ring.setup & SETUP_IOPOLL != 0 => Some("a driver cannot be polled"),
            () if entry.has(BUFFER_SELECT) => Some("the kernel chooses the buffer"),
            () if entry.personality != 0 => Some("it is to be done with registered credentials"),
            () if operations::only_syncs(entry.operation) && self.chain != Chain::Kernel => None,
            () if self.chain == Chain::Kernel => Some("it waits for a request of the kernel's"),
            () if state.drains || entry.has(IO_DRAIN) => {
                Some("it waits for requests of the kernel's")
            }
            () => None,
        };
        if let Some(why) = refused {
            // Descriptors of the kernel's own have come here to be looked at.
            match self.concerns_driver(entry) {
                true => self.refuse(entry, why),
                false => self.give(state, entry),
            }
            return Ok(());
        }
        // The kernel would not take the request.
        if self.ring.is_anothers() {
            return Err(Stop::Anothers);
        }
        let outcome = match (self.dispatch)(&mut call) {
            // What is linked to it may be the driver's, and would have to wait for the kernel.
            Outcome::Forward if entry.is_linked() && is_backed(entry.fd) => done(call.execute()),
            outcome => outcome,
        };
        match outcome {
            Outcome::Forward => {
                self.give(state, entry);
                Ok(())
            }
            Outcome::Return(result) => {
                let result = result as i32;
                state.performed.push((position, result));
                self.ended(entry, result);
                Ok(())
            }
            _ => Err(Stop::Signal),
        }
    }

    fn refuse(&mut self, entry: &mut Entry, why: &str) {
        culvert_sys::log!(
            "io_uring: operation {} on descriptor {} of a mount is refused: {why}",
            entry.operation,
            entry.fd
        );
        self.answer(entry, Err(Errno::EOPNOTSUPP));
    }

    /// Whether the kernel would do something else than the request says. A close must be known.
    fn concerns_driver(&self, entry: &Entry) -> bool {
        use crate::syscalls::arguments::{descriptor, driven, metadata};
        match operations::treatment(entry.operation) {
            Treatment::Address => is_path(entry.address as usize, entry.offset as usize),
            Treatment::AsCall if operations::is_close(entry.operation) => {
                descriptor(process::get(), entry.fd as usize).is_some()
            }
            Treatment::AsCall if operations::is_of_memory(entry.operation) => true,
            _ if operations::is_of_more_than_bytes(entry.operation) => {
                metadata(process::get(), entry.fd as usize).is_some()
            }
            _ => driven(process::get(), entry.fd as usize).is_some(),
        }
    }

    /// Who is to do it.
    fn judge(&mut self, entry: &mut Entry) -> Judgement {
        let registered = entry.has(FIXED_FILE);
        let _table = &process::get().table;
        let treatment = operations::treatment(entry.operation);
        let names = !matches!(
            treatment,
            Treatment::Kernel | Treatment::Socket | Treatment::Refused
        );
        let of_memory = operations::is_of_memory(entry.operation);
        if names && !registered && !of_memory && process::get().run.is_internal(entry.fd) {
            return Judgement::Answer(Errno::EBADF);
        }
        let foreign = registered || is_foreign(entry.fd);
        match treatment {
            // Which of the files it is only the kernel knows.
            Treatment::AsCall | Treatment::Kernel
                if registered
                    && operations::is_of_more_than_the_kernels(entry.operation)
                    && self.ring.layered.load(Relaxed) =>
            {
                culvert_sys::log!(
                    "io_uring: operation {} on a registered file is refused: a layer is to hear \
                    of it",
                    entry.operation
                );
                Judgement::Answer(Errno::EOPNOTSUPP)
            }
            Treatment::Kernel | Treatment::KernelOnFile => Judgement::Kernel,
            Treatment::Refused => {
                culvert_sys::log!("io_uring: operation {} is refused", entry.operation);
                self.unknown(entry)
            }
            Treatment::AsCall if of_memory => match operations::is_of_mapped_file(entry) {
                true => Judgement::Call,
                false => Judgement::Kernel,
            },
            Treatment::AsCall if foreign || operations::closes_registered(entry) => {
                Judgement::Kernel
            }
            Treatment::AsCall => match operations::has_registered_buffer(entry.operation) {
                // Not one of the kernel's own, as far as is known.
                true if crate::syscalls::arguments::driven(process::get(), entry.fd as usize)
                    .is_none() =>
                {
                    Judgement::Kernel
                }
                _ => Judgement::Call,
            },
            Treatment::Splice => self.judge_splice(entry, foreign),
            Treatment::Epoll if process::get().run.is_internal(entry.offset as i32) => {
                Judgement::Answer(Errno::EBADF)
            }
            Treatment::Epoll => Judgement::Call,
            Treatment::Address => self.judge_address(entry, registered),
            Treatment::Send => self.judge_send(entry),
            Treatment::SendMessage => judge_send_message(entry, registered),
            Treatment::ReceiveMessage => self.judge_message(entry, registered),
            // A descriptor passed from ring to ring: which, is read when it is passed.
            Treatment::MessageRing if entry.address != 0 => Judgement::Answer(Errno::EINVAL),
            Treatment::MessageRing => Judgement::Kernel,
            Treatment::Socket => {
                if entry.file_index != 0 && entry.fd == AF_UNIX {
                    self.ring.unix.store(true, Relaxed);
                }
                Judgement::Kernel
            }
            Treatment::Accept => {
                if entry.file_index != 0 && (registered || domain(entry.fd) == Some(AF_UNIX)) {
                    let inherits = !registered || self.ring.unix.load(Relaxed);
                    self.ring.unix.fetch_or(inherits, Relaxed);
                }
                Judgement::Kernel
            }
        }
    }

    /// Bytes to an address, which is not to be a path any more when the kernel looks.
    fn judge_send(&mut self, entry: &mut Entry) -> Judgement {
        let length = (entry.file_index & 0xffff) as usize;
        if length == 0 {
            return Judgement::Kernel;
        }
        match self.keep(entry.offset as usize, length) {
            Err(errno) => Judgement::Answer(errno),
            Ok(kept) if is_path(kept, length) => Judgement::Answer(Errno::EOPNOTSUPP),
            Ok(kept) => {
                entry.offset = kept as u64;
                Judgement::Kernel
            }
        }
    }

    /// The kernel takes no such request.
    fn unknown(&self, entry: &Entry) -> Judgement {
        match self.chain == Chain::None && !entry.is_linked() {
            true => Judgement::Unknown,
            // With it the kernel would break off the whole chain, of which something is done.
            false => Judgement::Answer(Errno::EINVAL),
        }
    }

    /// splice(2) of a file that a driver serves may wait for a pipe: it is refused, and EINVAL
    /// sends programs another way.
    fn judge_splice(&self, entry: &Entry, foreign: bool) -> Judgement {
        const FD_IN_FIXED: u32 = 1 << 31;
        let from = entry.file_index as i32;
        let from_foreign = entry.own_flags & FD_IN_FIXED != 0 || is_foreign(from);
        if !from_foreign && process::get().run.is_internal(from) {
            return Judgement::Answer(Errno::EBADF);
        }
        let driven = |fd: i32| {
            crate::syscalls::arguments::kernel_has_not(process::get(), fd as usize).is_some()
        };
        match !foreign && driven(entry.fd) || !from_foreign && driven(from) {
            true => Judgement::Answer(Errno::EINVAL),
            false => Judgement::Kernel,
        }
    }

    /// connect(2) and bind(2): the kernel reads a copy of the address, and of a path the hook
    /// decides.
    fn judge_address(&mut self, entry: &mut Entry, registered: bool) -> Judgement {
        // The kernel has an int for it (`io_connect_prep`, io_uring/net.c).
        let length = entry.offset as i32 as usize;
        match self.keep(entry.address as usize, length) {
            Ok(kept) => entry.address = kept as u64,
            Err(errno) => return Judgement::Answer(errno),
        }
        match is_path(entry.address as usize, length) {
            true if registered => Judgement::Answer(Errno::EOPNOTSUPP),
            true => Judgement::Call,
            false => Judgement::Kernel,
        }
    }

    /// recvmsg(2): a descriptor of a mount's that came in would be taken for one of the kernel's
    /// own.
    fn judge_message(&self, entry: &Entry, registered: bool) -> Judgement {
        let control = culvert_run::memory::get::<usize>((entry.address as usize).wrapping_add(40));
        if control.unwrap_or(0) == 0 {
            return Judgement::Kernel;
        }
        let may_receive = match registered {
            true => self.ring.unix.load(Relaxed),
            false => domain(entry.fd) == Some(AF_UNIX),
        };
        match may_receive {
            true => {
                culvert_sys::log!("io_uring: RECVMSG with room for descriptors is refused");
                Judgement::Answer(Errno::EOPNOTSUPP)
            }
            false => Judgement::Kernel,
        }
    }

    /// A copy of the address of a socket, for as long as the kernel reads requests; 0 for address
    /// 0, which means that a send has none. That it is too long the kernel says.
    fn keep(&mut self, address: usize, length: usize) -> Result<usize, Errno> {
        if address == 0 {
            return Ok(0);
        }
        // Longer than it says, so that no address ends where memory does.
        let mut bytes = vec![0; LONGEST_ADDRESS];
        if length <= LONGEST_ADDRESS {
            user::copy_in(&mut bytes[..length], address).map_err(|_| Errno::EFAULT)?;
        }
        let kept = bytes.as_ptr() as usize;
        self.addresses.push(bytes);
        Ok(kept)
    }
}

/// Who does a request.
enum Judgement {
    /// The kernel, as it stands.
    Kernel,
    /// Nobody: it ends with this.
    Answer(Errno),
    /// The kernel, which is to find that it has no such operation.
    Unknown,
    /// The hook of the call of the same name, or the kernel, if that says so.
    Call,
}

/// Whether the bytes of the file behind `fd` are the kernel's, and the rest its driver's.
fn is_backed(fd: i32) -> bool {
    crate::syscalls::arguments::descriptor(process::get(), fd as usize)
        .is_some_and(|held| held.is_backed())
}

/// Whether it is known without a look that `fd` is the kernel's own, and nothing about it.
fn is_foreign(fd: i32) -> bool {
    fd < 0 || crate::descriptors::class(fd) == classes::FOREIGN
}

/// A message, with the descriptors that it carries.
fn judge_send_message(entry: &Entry, registered: bool) -> Judgement {
    let socket = if registered { -1 } else { entry.fd };
    let message = entry.address as usize;
    match socket::hand_over(process::get(), socket, message) {
        Ok(()) if unix_sockets::is_to_path(message) => Judgement::Answer(Errno::EOPNOTSUPP),
        Ok(()) => Judgement::Kernel,
        Err(errno) => Judgement::Answer(errno),
    }
}

/// Whether an address of a socket, a copy of ours, is a path in the file system.
fn is_path(address: usize, length: usize) -> bool {
    let mut start = [0; 3];
    length > 2
        && address != 0
        && user::copy_in(&mut start, address).is_ok()
        && i32::from(u16::from_ne_bytes([start[0], start[1]])) == AF_UNIX
        && start[2] != 0
}

/// The domain of a socket.
pub(super) fn domain(fd: i32) -> Option<i32> {
    socket_option(BorrowedFd::number(fd), SO_DOMAIN).ok()
}

//! The system calls of the pager that rustix has only with more of its features.

use culvert_sys::fd::{Command, fcntl};
use culvert_sys::net::socket_option;
use culvert_sys::raw::general::{O_NONBLOCK, POLLIN, pollfd};
use culvert_sys::raw::net::SO_PEERCRED;
use culvert_sys::{BorrowedFd, Errno, OwnedFd, nr, process, syscall};

const EPOLL_CLOEXEC: usize = 0o2000000;
const EPOLL_CTL_ADD: usize = 1;
const EPOLL_CTL_DEL: usize = 2;
const EPOLL_CTL_MOD: usize = 3;
/// EPOLLIN
const READABLE: u32 = 1;
/// EPOLLONESHOT
const ONCE: u32 = 1 << 30;

/// `struct epoll_event` of x86-64.
#[repr(C, packed)]
struct Event {
    events: u32,
    data: u64,
}

/// epoll_create1(2)
pub fn epoll() -> Result<i32, Errno> {
    // SAFETY: makes a descriptor.
    unsafe { syscall::call(nr::EPOLL_CREATE1, [EPOLL_CLOEXEC]) }.map(|fd| fd as i32)
}

/// Watches `fd` for something to read; `once`: until it is watched again.
pub fn watch(epoll: i32, fd: i32, data: u64, once: bool) -> Result<(), Errno> {
    let events = READABLE | if once { ONCE } else { 0 };
    let event = Event { events, data };
    let place = core::ptr::from_ref(&event) as usize;
    let control = |operation| {
        let arguments = [epoll as usize, operation, fd as usize, place];
        // SAFETY: the event outlives the call.
        unsafe { syscall::call(nr::EPOLL_CTL, arguments) }
    };
    match control(EPOLL_CTL_MOD) {
        Err(Errno::ENOENT) => control(EPOLL_CTL_ADD),
        other => other,
    }
    .map(|_| ())
}

/// Does not watch it any more.
pub fn unwatch(epoll: i32, fd: i32) {
    let arguments = [epoll as usize, EPOLL_CTL_DEL, fd as usize, 0];
    // SAFETY: a call on descriptors of ours.
    let _ = unsafe { syscall::call(nr::EPOLL_CTL, arguments) };
}

/// Waits for one thing that is watched; its data.
pub fn wait(epoll: i32) -> u64 {
    let mut event = Event { events: 0, data: 0 };
    loop {
        let place = core::ptr::from_mut(&mut event) as usize;
        // SAFETY: room for one event.
        let got = unsafe { syscall::call(nr::EPOLL_WAIT, [epoll as usize, place, 1, usize::MAX]) };
        if got == Ok(1) {
            return event.data;
        }
    }
}

/// A connection to a listening socket, whose other side is of our own user. EAGAIN: nobody waits.
pub fn accept(listening: i32) -> Result<i32, Errno> {
    const SOCK_CLOEXEC: usize = 0o2000000;
    // SAFETY: a call on a descriptor of ours, without an address.
    let fd = unsafe { syscall::call(nr::ACCEPT4, [listening as usize, 0, 0, SOCK_CLOEXEC]) }?;
    let fd = OwnedFd::from_raw(fd as i32);
    match peer_of(fd.raw()) {
        Ok([_, user, _]) if user == process::geteuid() => Ok(fd.into_raw()),
        _ => Err(Errno::EACCES),
    }
}

/// Who has connected `socket` (`struct ucred`): process, user, group.
fn peer_of(socket: i32) -> Result<[u32; 3], Errno> {
    socket_option(BorrowedFd::number(socket), SO_PEERCRED)
}

/// Whether somebody waits for [`accept`], looked for during `milliseconds`.
pub fn somebody_waits(listening: i32, milliseconds: usize) -> bool {
    let mut asked = [pollfd {
        fd: listening,
        events: POLLIN as i16,
        revents: 0,
    }];
    process::poll(&mut asked, milliseconds as i32) == Ok(1)
}

/// fcntl(F_SETFL, O_NONBLOCK)
pub fn set_nonblocking(fd: i32) {
    let _ = fcntl(BorrowedFd::number(fd), Command::SETFL, O_NONBLOCK as usize);
}

/// close(2)
pub fn close(fd: i32) {
    drop(OwnedFd::from_raw(fd));
}

/// Closes all descriptors of this process but those that are `kept`.
pub fn close_all_but(kept: impl Fn(i32) -> bool) -> std::io::Result<()> {
    let mut open = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let name = entry?.file_name();
        open.extend(name.to_str().and_then(|name| name.parse::<i32>().ok()));
    }
    // The directory's own is closed by now, and its number perhaps nobody's.
    open.into_iter().filter(|&fd| !kept(fd)).for_each(close);
    Ok(())
}

/// Zeroed memory that children share.
pub fn shared_memory(length: usize) -> Result<usize, Errno> {
    const READ_WRITE: usize = 3;
    const SHARED_ANONYMOUS_NORESERVE: usize = 0x4021;
    // SAFETY: a new mapping.
    unsafe {
        let arguments = [
            0,
            length,
            READ_WRITE,
            SHARED_ANONYMOUS_NORESERVE,
            usize::MAX,
            0,
        ];
        syscall::call(nr::MMAP, arguments)
    }
}

/// Makes a child with the same table of descriptors, and memory of its own; 0 in the child.
///
/// # Safety
/// This process has no other thread.
pub unsafe fn fork_with_descriptors() -> Result<usize, Errno> {
    const CLONE_FILES_SIGCHLD: usize = 0x400 | 17;
    // SAFETY: without a stack the child goes on with a copy of this one, as after fork; nothing
    // here keeps a thread's number.
    unsafe { syscall::call(nr::CLONE, [CLONE_FILES_SIGCHLD, 0, 0, 0, 0]) }
}

/// Waits for the end of a child; its status as wait4(2) has it.
pub fn wait_for(child: usize) -> Result<i32, Errno> {
    let mut status = 0i32;
    loop {
        let place = core::ptr::from_mut(&mut status) as usize;
        // SAFETY: room for the status.
        match unsafe { syscall::call(nr::WAIT4, [child, place, 0, 0]) } {
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(status),
        }
    }
}

/// A descriptor that can be read when the process `pid` has ended.
pub fn process(pid: u32) -> Result<i32, Errno> {
    // SAFETY: makes a descriptor.
    unsafe { syscall::call(nr::PIDFD_OPEN, [pid as usize, 0]) }.map(|fd| fd as i32)
}

/// Whether the process that connected `socket` is on its way out: not when it executes another
/// program, nor when it has ended.
pub fn is_ending(socket: i32) -> bool {
    /// `include/linux/sched.h`
    const PF_EXITING: u64 = 4;
    let Ok([peer, ..]) = peer_of(socket) else {
        return false;
    };
    let stat = std::fs::read_to_string(format!("/proc/{peer}/stat")).unwrap_or_default();
    // proc_pid_stat(5): behind the name in parentheses the state, and as the seventh field the
    // flags.
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let state = fields.next().unwrap_or("X");
    let flags: u64 = fields
        .nth(5)
        .and_then(|flags| flags.parse().ok())
        .unwrap_or(0);
    flags & PF_EXITING != 0 && !matches!(state, "Z" | "X")
}

/// Ends this process at once, all its threads.
pub fn end(status: usize) -> ! {
    process::exit_group(status as i32)
}

//! The system calls of the pager that rustix has only with more of its features.

use culvert_sys::{Errno, nr, syscall};

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
    const SOL_SOCKET_PEERCRED: [usize; 2] = [1, 17];
    // SAFETY: a call on a descriptor of ours, without an address.
    let fd = unsafe { syscall::call(nr::ACCEPT4, [listening as usize, 0, 0, SOCK_CLOEXEC]) }?;
    // `struct ucred`: pid, uid, gid.
    let mut peer = [0u32; 3];
    let mut length = size_of_val(&peer) as u32;
    let arguments = [
        fd,
        SOL_SOCKET_PEERCRED[0],
        SOL_SOCKET_PEERCRED[1],
        peer.as_mut_ptr() as usize,
        core::ptr::from_mut(&mut length) as usize,
    ];
    // SAFETY: the buffer is given with its length.
    let known = unsafe { syscall::call(nr::GETSOCKOPT, arguments) };
    if known.is_err() || peer[1] != rustix::process::geteuid().as_raw() {
        close(fd as i32);
        return Err(Errno::EACCES);
    }
    Ok(fd as i32)
}

/// Whether somebody waits for [`accept`], looked for during `milliseconds`.
pub fn somebody_waits(listening: i32, milliseconds: usize) -> bool {
    // `struct pollfd`: the descriptor, then POLLIN.
    let mut asked = [listening, 1];
    // SAFETY: one entry.
    let ready = unsafe { syscall::call(nr::POLL, [asked.as_mut_ptr() as usize, 1, milliseconds]) };
    ready == Ok(1)
}

/// fcntl(F_SETFL, O_NONBLOCK)
pub fn set_nonblocking(fd: i32) {
    const F_SETFL: usize = 4;
    const O_NONBLOCK: usize = 0o4000;
    // SAFETY: a call on a descriptor of ours.
    let _ = unsafe { syscall::call(nr::FCNTL, [fd as usize, F_SETFL, O_NONBLOCK]) };
}

/// close(2)
pub fn close(fd: i32) {
    // SAFETY: the caller owns it.
    let _ = unsafe { syscall::call(nr::CLOSE, [fd as usize]) };
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
    const SOL_SOCKET: usize = 1;
    const SO_PEERCRED: usize = 17;
    /// `include/linux/sched.h`
    const PF_EXITING: u64 = 4;
    // `struct ucred`: pid, uid, gid.
    let (mut peer, mut length) = ([0u32; 3], 12u32);
    let arguments = [
        socket as usize,
        SOL_SOCKET,
        SO_PEERCRED,
        peer.as_mut_ptr() as usize,
        core::ptr::from_mut(&mut length) as usize,
    ];
    // SAFETY: a `struct ucred` and its length.
    if unsafe { syscall::call(nr::GETSOCKOPT, arguments) }.is_err() {
        return false;
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", peer[0])).unwrap_or_default();
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
    loop {
        // SAFETY: never comes back.
        unsafe { syscall::raw(nr::EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
    }
}

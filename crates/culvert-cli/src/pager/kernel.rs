//! The system calls of the pager, by numbers of descriptors, which its table keeps.

use culvert_sys::fd::{Command, epoll_ctl, epoll_wait, fcntl};
use culvert_sys::net::socket_option;
use culvert_sys::raw::general::{
    EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLIN, EPOLLONESHOT, O_NONBLOCK, POLLIN,
    epoll_event, pollfd,
};
use culvert_sys::raw::net::SO_PEERCRED;
use culvert_sys::{BorrowedFd, Errno, OwnedFd, net, process};

const NOTHING: epoll_event = epoll_event { events: 0, data: 0 };

/// Watches `fd` for something to read; `once`: until it is watched again.
pub fn watch(epoll: i32, fd: i32, data: u64, once: bool) -> Result<(), Errno> {
    let events = EPOLLIN | if once { EPOLLONESHOT } else { 0 };
    let event = epoll_event { events, data };
    let (epoll, fd) = (BorrowedFd::number(epoll), BorrowedFd::number(fd));
    match epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) {
        Err(Errno::ENOENT) => epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event),
        other => other,
    }
}

/// Does not watch it any more.
pub fn unwatch(epoll: i32, fd: i32) {
    let (epoll, fd) = (BorrowedFd::number(epoll), BorrowedFd::number(fd));
    let _ = epoll_ctl(epoll, EPOLL_CTL_DEL, fd, &NOTHING);
}

/// Waits for one thing that is watched; its data.
pub fn wait(epoll: i32) -> u64 {
    let mut event = [NOTHING];
    loop {
        if epoll_wait(BorrowedFd::number(epoll), &mut event, -1) == Ok(1) {
            return event[0].data;
        }
    }
}

/// A connection to a listening socket, whose other side is of our own user. EAGAIN: nobody waits.
pub fn accept(listening: i32) -> Result<i32, Errno> {
    let fd = net::accept(BorrowedFd::number(listening))?;
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

/// A descriptor that can be read when the process `pid` has ended.
pub fn process(pid: u32) -> Result<i32, Errno> {
    process::pidfd_open(pid).map(OwnedFd::into_raw)
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

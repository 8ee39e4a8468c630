//! Starting the pager from inside a program, so that the program does not notice: no child to wait
//! for, no SIGCHLD, nothing of the program's in the new process.
//!
//! The program makes the socket and takes the lock, and the pager inherits both: so whoever has
//! seen the start succeed can connect at once.

use crate::shadow::{self, OwnedFd};
use alloc::{vec, vec::Vec};
use culvert_run::files::c_string;
use culvert_run::files::dup_from;
use culvert_run::task::helper::{self, Blocked};
use culvert_run::{self as run, read_link};
use culvert_sys::flags::OFlags;
use culvert_sys::raw::general::{
    LOCK_EX, LOCK_NB, O_CLOEXEC, O_CREAT, O_RDWR, RLIMIT_AS, RLIMIT_DATA,
};
use culvert_sys::raw::net::{AF_UNIX, SOCK_SEQPACKET};
use culvert_sys::{BorrowedFd, fd, fs, net, process};
use culvert_sys::{Errno, nr, syscall};

/// The word with which the command becomes the pager (`argv[1]`).
pub const WORD: &core::ffi::CStr = c"run-pager";
/// The pager's listening socket.
pub const LISTENING: i32 = 3;
/// Its lock on `pager.lock` of the run directory: held while it lives.
pub const LOCK: i32 = 4;

const STACK: usize = 32 << 10;

/// `struct sockaddr_un` of the pager's socket. ENAMETOOLONG: the run directory's path is too long
/// for one.
fn address() -> Result<Vec<u8>, Errno> {
    let path = run::get().file("pager");
    let address = [&(AF_UNIX as u16).to_ne_bytes(), path.to_bytes_with_nul()].concat();
    match address.len() {
        ..=110 => Ok(address),
        _ => Err(Errno::ENAMETOOLONG),
    }
}

fn socket() -> Result<OwnedFd, Errno> {
    net::socket(AF_UNIX, SOCK_SEQPACKET | O_CLOEXEC, 0)
}

/// A connection to the pager that runs. ECONNREFUSED, ENOENT: there is none.
pub fn connect() -> Result<OwnedFd, Errno> {
    let (address, socket) = (address()?, socket()?);
    net::connect(&socket, &address)?;
    Ok(socket)
}

/// The link in the run directory whose text names the run's PID namespace, as `/proc/self/ns/pid`
/// does.
pub const NAMESPACE: &str = "pid-namespace";

/// Whether a child would be in the PID namespace of the run. In another one it would be ended with
/// that one's first process (pid_namespaces(7)), and leave those outside waiting; or be that first
/// process, with which all others end.
fn children_are_in_runs_namespace() -> bool {
    let runs = read_link(&run::get().file(NAMESPACE));
    // Of what unshare(2) has made there is none before its first process.
    runs.is_ok() && runs == read_link(c"/proc/thread-self/ns/pid_for_children")
}

/// Starts a pager. EAGAIN: there is one, or one is being started or is about to end. EXDEV: a pager
/// that is made here would be in another PID namespace than the run.
pub fn start() -> Result<(), Errno> {
    let run = run::get();
    if !children_are_in_runs_namespace() {
        return Err(Errno::EXDEV);
    }
    let lock = shadow::open(&run.file("pager.lock"), O_RDWR | O_CREAT, 0o600)?;
    let path = run.file("pager");
    let (address, socket) = (address()?, socket()?);
    fd::flock(&lock, LOCK_EX | LOCK_NB)?;
    let _ = fs::unlink(&path);
    net::bind(&socket, &address)?;
    let _ = fs::chmod(&path, 0o600);
    net::listen(&socket, 128)?;
    let command = run.file("command");
    let directory = c_string(&run.path[..]);
    let log = culvert_sys::log::path().map(|path| c_string([b"CULVERT_LOG=", path].concat()));
    let mut launch = Launch {
        command: command.as_ptr() as usize,
        arguments: [
            c"culvert".as_ptr() as usize,
            WORD.as_ptr() as usize,
            directory.as_ptr() as usize,
            0,
        ],
        environment: [log.as_ref().map_or(0, |entry| entry.as_ptr() as usize), 0],
        descriptors: [socket.raw(), lock.raw()],
        stack: 0,
        failed: 0,
    };
    let mut stacks: Vec<u8> = vec![0; 2 * STACK];
    let top = (stacks.as_mut_ptr() as usize + 2 * STACK) & !15;
    launch.stack = top - STACK;
    {
        let _blocked = Blocked::all();
        // SAFETY: no handler of the program's runs in the children, which share our memory until
        // they end or execute the command; they run on stacks of their own, while this thread
        // waits.
        let child = unsafe { helper::start(top, first_child, &mut launch) }?;
        helper::reap(child);
    }
    match launch.failed {
        0 => Ok(()),
        errno => {
            let _ = fs::unlink(&path);
            Err(Errno::new(errno))
        }
    }
}

/// What the children need, all of it made before.
struct Launch {
    command: usize,
    arguments: [usize; 4],
    environment: [usize; 2],
    descriptors: [i32; 2],
    /// The end of the second child's stack.
    stack: usize,
    /// The errno for which there is no pager.
    failed: i32,
}

/// Its only child becomes the pager and then has no parent in the program's family.
extern "C" fn first_child(launch: &mut Launch) -> ! {
    let stack = launch.stack;
    // SAFETY: the second half of the memory is nobody's; the child executes or ends.
    if let Err(error) = unsafe { helper::start(stack, second_child, launch) } {
        launch.failed = error.raw();
    }
    helper::end()
}

extern "C" fn second_child(launch: &mut Launch) -> ! {
    launch.failed = match become_pager(launch) {
        Ok(()) => 0,
        Err(error) => error.raw(),
    };
    helper::end()
}

/// The program's bounds on memory are not the pager's, which could not even be loaded within some
/// of them. Hard ones stay.
fn raise_limits() {
    for resource in [RLIMIT_DATA, RLIMIT_AS] {
        if let Ok([_, hard]) = process::prlimit(resource, None) {
            let _ = process::prlimit(resource, Some(&[hard; 2]));
        }
    }
}

/// Comes back only with an error. What else a process inherits the pager gives up itself.
fn become_pager(launch: &Launch) -> Result<(), Errno> {
    // This process's table of descriptors is a copy of the program's.
    const ABOVE: i32 = 10;
    process::setsid()?;
    raise_limits();
    let mut kept = launch.descriptors;
    for fd in &mut kept {
        *fd = dup_from(*fd, ABOVE, false)?;
    }
    fd::replace(BorrowedFd::number(kept[0]), LISTENING, 0)?;
    fd::replace(BorrowedFd::number(kept[1]), LOCK, 0)?;
    fd::close_range(LOCK as u32 + 1, u32::MAX, 0)?;
    for fd in 0..3 {
        drop(OwnedFd::from_raw(fd));
    }
    for _ in 0..3 {
        fs::open(c"/dev/null", OFlags::RDWR, 0)?.into_raw();
    }
    let arguments = [
        launch.command,
        launch.arguments.as_ptr() as usize,
        launch.environment.as_ptr() as usize,
    ];
    // SAFETY: the strings end in NUL, the arrays in 0.
    unsafe { syscall::call(nr::EXECVE, arguments) }.map(drop)
}

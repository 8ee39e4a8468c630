//! Starting the pager from inside a program, so that the program does not notice: no child to wait
//! for, no SIGCHLD, nothing of the program's in the new process.
//!
//! The program makes the socket and takes the lock, and the pager inherits both: so whoever has
//! seen the start succeed can connect at once.

use crate::shadow::{self, OwnedFd};
use alloc::{vec, vec::Vec};
use culvert_run::task::helper::{self, Blocked};
use culvert_run::{self as run, read_link};
use culvert_sys::{Errno, nr, syscall};

/// The word with which the command becomes the pager (`argv[1]`).
pub const WORD: &core::ffi::CStr = c"run-pager";
/// The pager's listening socket.
pub const LISTENING: i32 = 3;
/// Its lock on `pager.lock` of the run directory: held while it lives.
pub const LOCK: i32 = 4;

const SOCK_SEQPACKET_CLOEXEC: usize = 5 | 0o2000000;
const AF_UNIX: usize = 1;
const LOCK_EX_NB: usize = 2 | 4;
const STACK: usize = 32 << 10;
const O_RDWR_CREAT: usize = 0o102;

/// `struct sockaddr_un` of the pager's socket, and its length. ENAMETOOLONG: the run directory's
/// path is too long for one.
fn address() -> Result<([u8; 110], usize), Errno> {
    let path = run::get().file("pager");
    let mut address = [0u8; 110];
    address[0] = AF_UNIX as u8;
    let room = address
        .get_mut(2..2 + path.len())
        .ok_or(Errno::ENAMETOOLONG)?;
    room.copy_from_slice(&path);
    Ok((address, 2 + path.len()))
}

fn socket() -> Result<OwnedFd, Errno> {
    // SAFETY: makes a descriptor.
    unsafe { syscall::call(nr::SOCKET, [AF_UNIX, SOCK_SEQPACKET_CLOEXEC, 0]) }
        .map(|fd| OwnedFd::from_raw(fd as i32))
}

/// A connection to the pager that runs. ECONNREFUSED, ENOENT: there is none.
pub fn connect() -> Result<OwnedFd, Errno> {
    let (address, length) = address()?;
    let socket = socket()?;
    let arguments = [socket.raw() as usize, address.as_ptr() as usize, length];
    // SAFETY: the address is given with its length.
    unsafe { syscall::call(nr::CONNECT, arguments) }?;
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
    runs.is_ok() && runs == read_link(c"/proc/thread-self/ns/pid_for_children".to_bytes_with_nul())
}

/// Starts a pager. EAGAIN: there is one, or one is being started or is about to end. EXDEV: a pager
/// that is made here would be in another PID namespace than the run.
pub fn start() -> Result<(), Errno> {
    let run = run::get();
    if !children_are_in_runs_namespace() {
        return Err(Errno::EXDEV);
    }
    let lock = shadow::open(&run.file("pager.lock"), O_RDWR_CREAT, 0o600)?;
    let path = run.file("pager");
    let (address, length) = address()?;
    let socket = socket()?;
    // SAFETY: descriptors of ours, a path that ends in NUL, an address given with its length.
    unsafe {
        syscall::call(nr::FLOCK, [lock.raw() as usize, LOCK_EX_NB])?;
        let _ = syscall::call(nr::UNLINK, [path.as_ptr() as usize]);
        let place = [socket.raw() as usize, address.as_ptr() as usize, length];
        syscall::call(nr::BIND, place)?;
        let _ = syscall::call(nr::CHMOD, [path.as_ptr() as usize, 0o600]);
        syscall::call(nr::LISTEN, [socket.raw() as usize, 128])?;
    }
    let command = run.file("command");
    let directory = culvert_run::files::c_string(&run.path);
    let log = culvert_sys::log::path().map(|path| [b"CULVERT_LOG=", path, b"\0"].concat());
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
            // SAFETY: the path ends in NUL.
            let _ = unsafe { syscall::call(nr::UNLINK, [path.as_ptr() as usize]) };
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
    /// `RLIMIT_DATA`, `RLIMIT_AS`.
    const MEMORY: [usize; 2] = [2, 9];
    for resource in MEMORY {
        let mut limit = [0u64; 2];
        let place = limit.as_mut_ptr() as usize;
        // SAFETY: prlimit64(2) of this process, which shares memory with the program but not its
        // limits; two words are written, then read.
        unsafe {
            if syscall::call(nr::PRLIMIT64, [0, resource, 0, place]).is_ok() {
                limit[0] = limit[1];
                let place = limit.as_ptr() as usize;
                let _ = syscall::call(nr::PRLIMIT64, [0, resource, place, 0]);
            }
        }
    }
}

/// Comes back only with an error. What else a process inherits the pager gives up itself.
fn become_pager(launch: &Launch) -> Result<(), Errno> {
    const F_DUPFD: usize = 0;
    const ABOVE: usize = 10;
    // SAFETY: plain calls on this process's own table of descriptors, a copy of the program's; the
    // strings end in NUL, the arrays in 0.
    unsafe {
        syscall::call(nr::SETSID, [])?;
        raise_limits();
        let mut kept = launch.descriptors;
        for fd in &mut kept {
            *fd = syscall::call(nr::FCNTL, [*fd as usize, F_DUPFD, ABOVE])? as i32;
        }
        syscall::call(nr::DUP2, [kept[0] as usize, LISTENING as usize])?;
        syscall::call(nr::DUP2, [kept[1] as usize, LOCK as usize])?;
        syscall::call(nr::CLOSE_RANGE, [LOCK as usize + 1, u32::MAX as usize, 0])?;
        for fd in 0..3 {
            let _ = syscall::call(nr::CLOSE, [fd]);
        }
        for _ in 0..3 {
            syscall::call(nr::OPEN, [c"/dev/null".as_ptr() as usize, 2, 0])?;
        }
        let arguments = [
            launch.command,
            launch.arguments.as_ptr() as usize,
            launch.environment.as_ptr() as usize,
        ];
        syscall::call(nr::EXECVE, arguments).map(|_| ())
    }
}

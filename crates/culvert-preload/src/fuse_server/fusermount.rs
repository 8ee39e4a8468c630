//! Programs that mount for servers without root's rights: libfuse's fusermount. A child of the
//! server executes it, and gets the descriptor by a socket; it is answered in that child.

use super::STATE;
use alloc::vec::Vec;
use culvert::Errno;
use culvert_run::memory::PathBuffer;
use culvert_sys::{BorrowedFd, net, process};

const NAMES: [&[u8]; 3] = [b"fusermount", b"fusermount3", b"mergerfs-fusermount"];
const SOCKET: &[u8] = b"_FUSE_COMMFD=";

/// Ends this process as the program at `path` would, with the arguments and the environment of
/// `lists`, where that is one of those and mounts or unmounts. Else it comes back.
pub fn fusermount(path: &[u8], lists: impl FnOnce() -> Result<[Vec<usize>; 2], Errno>) {
    let Some(state) = STATE.get() else {
        return;
    };
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    if !NAMES.contains(&name) {
        return;
    }
    let Ok([arguments, environment]) = lists() else {
        return;
    };
    let arguments = strings(&arguments);
    let has = |options: &[&[u8]]| {
        let given = |argument: &Vec<u8>| options.contains(&&argument[..]);
        arguments.iter().skip(1).any(given)
    };
    if has(&[b"-V", b"--version", b"-h", b"--help"]) {
        return;
    }
    if has(&[b"-u", b"--unmount"]) {
        if arguments.iter().any(|argument| state.is_target(argument)) {
            state.end();
        }
        process::exit_group(0);
    }
    let socket = strings(&environment).into_iter().find_map(|entry| {
        let number = entry.strip_prefix(SOCKET)?;
        str::from_utf8(number).ok()?.parse().ok()
    });
    let Some(socket) = socket else {
        return;
    };
    if let Some(at) = arguments.iter().position(|argument| argument == b"-o")
        && let Some(options) = arguments.get(at + 1)
    {
        state.note_options(options);
    }
    let sent = state.bell().and_then(|bell| {
        culvert_sys::fd::fcntl(&bell, culvert_sys::fd::Command::SETFL, 0)?;
        net::send_with(BorrowedFd::number(socket), &[0], Some(bell.borrow()), 0)
    });
    if let Err(errno) = &sent {
        culvert_sys::log!("fusermount: the descriptor cannot be sent: {errno}");
    }
    process::exit_group(i32::from(sent.is_err()))
}

/// The strings at `pointers` of the program's memory.
fn strings(pointers: &[usize]) -> Vec<Vec<u8>> {
    let read = |&pointer: &usize| {
        let mut room = PathBuffer::new();
        room.read(pointer).map(|string| string.to_vec()).ok()
    };
    pointers.iter().filter_map(read).collect()
}

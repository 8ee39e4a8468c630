//! A program of another user than the run's: its run directory is closed to it (0700). The run's
//! lock file is not, which each program inherits open for reading: it says what is mounted, and
//! where the command lies. By that the program starts again, in a run directory of its own user's
//! (`culvert run-again`).
//!
//! The descriptor is as trustworthy as the environment that brought it, which brought this library,
//! too. It gives nothing away: names of mounts and their sources.

use super::environment::Environment;
use crate::{exec::static_tls, notice};
use alloc::{format, vec::Vec};
use culvert_run::state::{self, State};
use culvert_run::{files::c_string, stat_descriptor};
use culvert_sys::raw::general::{S_IFMT, S_IFREG};
use culvert_sys::{Errno, nr, syscall};

/// The word with which the command makes a run for this program (`argv[1]`).
pub const WORD: &core::ffi::CStr = c"run-again";

/// What the state of a run says to another user's program.
pub struct TheirRun {
    /// The path of the command.
    pub command: Vec<u8>,
    /// The mounts, [`culvert::mount::encode`].
    pub mounts: Vec<u8>,
}

/// Why it is not read.
pub enum Unread {
    /// There is none.
    Nothing,
    /// It is being changed, and does not become whole.
    Changing,
}

/// How often it is read while it is being changed, and the time in between, nanoseconds: a change
/// takes a fifth of a second.
const TRIES: usize = 200;
const PAUSE: u64 = 10_000_000;

impl TheirRun {
    /// Reads it from the descriptor `fd`, whose offset stays.
    pub fn read(fd: i32) -> Result<Self, Unread> {
        for _ in 0..TRIES {
            let size = stat_descriptor(fd).map_err(|_| Unread::Nothing)?.st_size;
            let size = usize::try_from(size).map_err(|_| Unread::Nothing)?;
            let content = state::read(fd, size).map_err(|_| Unread::Nothing)?;
            match State::decode(&content) {
                Some(state) if state.command.starts_with(b"/") => {
                    return Ok(Self {
                        command: state.command.into(),
                        mounts: state.mounts.into(),
                    });
                }
                None if State::is_changing(&content) => {}
                _ => return Err(Unread::Nothing),
            }
            let _ = culvert_sys::process::nanosleep(PAUSE);
        }
        Err(Unread::Changing)
    }
}

/// Starts this program again for its own user, if the run that it was to join is another's: `lock`
/// is that run's, as inherited, and `flags` are its flags. Comes back only if that is not so, or
/// fails.
pub(super) fn start_again(lock: i32, flags: u8, environment: &Environment) -> Option<Errno> {
    let found = stat_descriptor(lock).ok()?;
    let user = culvert_sys::process::geteuid();
    if found.st_mode & S_IFMT != S_IFREG || found.st_uid == user {
        return None;
    }
    let theirs = match TheirRun::read(lock) {
        Ok(theirs) => theirs,
        Err(Unread::Nothing) => return None,
        Err(Unread::Changing) => {
            let own = culvert_run::read_link(c"/proc/self/exe");
            let program = own.as_deref().unwrap_or(b"this program");
            notice::end_without_mounts(program, "what its run has mounted is being changed");
        }
    };
    let started = static_tls::as_started().ok()?;
    let command = c_string(&theirs.command);
    let (lock, flags) = (c_string(format!("{lock}")), c_string(format!("{flags}")));
    let first = [
        command.as_ptr() as usize,
        WORD.as_ptr() as usize,
        lock.as_ptr() as usize,
        flags.as_ptr() as usize,
        started.path.as_ptr() as usize,
    ];
    let arguments = first
        .into_iter()
        .chain(started.words.iter().map(|word| word.as_ptr() as usize))
        .chain([0])
        .collect::<Vec<usize>>();
    let call = [
        command.as_ptr() as usize,
        arguments.as_ptr() as usize,
        environment.array as usize,
    ];
    // SAFETY: path and strings end in NUL, the arrays in null pointers.
    unsafe { syscall::call(nr::EXECVE, call) }.err()
}

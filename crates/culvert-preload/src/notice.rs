//! The one line on standard error that tells a run's user that a program does not see the mounts.
//!
//! It is said once for a run, by whoever comes first: a file in the run directory is the mark. It
//! must not disturb the program: nothing waits, no signal of it is seen, and nothing is said into a
//! file of a mount.

use crate::process;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::*;
use culvert_run::{descriptor_path, files::c_string, stat_descriptor};
use culvert_sys::process::{exit_group, pending_signals, poll, sigprocmask, take_signal};
use culvert_sys::raw::general::{
    O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY, POLLOUT, RWF_NOWAIT, S_IFIFO, S_IFMT, S_IFREG, S_IFSOCK,
    SIG_SETMASK, pollfd,
};
use culvert_sys::raw::net::{MSG_DONTWAIT, MSG_NOSIGNAL};
use culvert_sys::{BorrowedFd, Errno, fs, net};

/// The mark's name in the run directory.
pub const MARK: &str = "told";

const STDERR: i32 = 2;
/// Of a name in the line: enough to tell which it is, and the line stays below PIPE_BUF, so that no
/// pipe splits it.
const LONGEST_NAME: usize = 1024;

/// This process has said it, or somebody else in its run.
static SAID: AtomicBool = AtomicBool::new(false);

/// Tells the user of this process's run, and the log, that `program` does not see the mounts, for a
/// `reason` ("it is ...") and with a `remedy` ("do ..."). Nothing is said in runs without mounts.
/// It may be a program of this process's run, or this process itself that loses its mounts.
pub fn mounts_are_lost(program: &[u8], reason: &str, remedy: &str) {
    let Some(process) = process::joined() else {
        return;
    };
    // Each time, for who reads the log.
    culvert_sys::log!(
        "{} does not see the mounts: {reason}; {remedy}",
        shown(program)
    );
    // A filter's owner has counted the calls that are made.
    if process.mounts.ids().next().is_none() || culvert_run::task::is_confined() {
        return;
    }
    if process.table.get(STDERR).is_none() {
        say(Some(&process.run.path), program, reason, remedy);
    }
}

/// Likewise, in any process: `run` is the path of a run directory that this process trusts, if it
/// has one. Without it, or where it cannot be written to, the line is said once for this process.
pub fn say(run: Option<&[u8]>, program: &[u8], reason: &str, remedy: &str) {
    if SAID.load(Relaxed) || !may_be_written(run) || SAID.swap(true, Relaxed) {
        return;
    }
    let mark = run.map(|run| c_string([run, b"/", MARK.as_bytes()].concat()));
    let flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
    let marked = mark
        .as_deref()
        .map(|mark| culvert_run::files::open(mark, flags, 0o600));
    if matches!(marked, Some(Err(Errno::EEXIST))) {
        return;
    }
    let name = shown(program);
    let line = format!("culvert: warning: {name} does not see the mounts: {reason}; {remedy}\n");
    if write(line.as_bytes()).is_err() {
        // The next one has better luck.
        SAID.store(false, Relaxed);
        if let (Some(mark), Some(Ok(_))) = (mark, marked) {
            let _ = fs::unlink(&mark);
        }
    }
}

/// Tells the user one more thing about `program`, which sees the mounts: `what` goes on with its
/// name.
pub fn say_also(program: &[u8], what: &str) {
    if may_be_written(None) {
        let line = format!("culvert: warning: {} {what}\n", shown(program));
        let _ = write(line.as_bytes());
    }
}

/// Ends this process with status 125: it is, or was to become, `program`, which was promised mounts
/// and would run without them. What `why` says, reason and remedy, is said each time.
pub fn end_without_mounts(program: &[u8], why: &str) -> ! {
    let name = shown(program);
    let line = format!("culvert: {name} is not started, for it would not see its mounts: {why}\n");
    let shadow = |path: Vec<u8>| path.windows(9).any(|part| part == b"/shadows/");
    // A shadow is no place for it: nobody would bring the line to its file.
    if !descriptor_path(STDERR).is_ok_and(shadow) {
        let _ = write(line.as_bytes());
    }
    exit_group(125)
}

/// `name` for a terminal: control characters and what is no UTF-8 are escaped, and a long one is
/// cut.
fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_control() {
                true => text.extend(character.escape_default()),
                false => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
        if text.len() > LONGEST_NAME {
            let end = (0..=LONGEST_NAME)
                .rev()
                .find(|&at| text.is_char_boundary(at));
            text.truncate(end.unwrap_or(0));
            text.push_str("...");
            break;
        }
    }
    text
}

/// Whether standard error takes a line at once, and neither goes with the next exec nor is a file
/// of the mounts of `run`.
fn may_be_written(run: Option<&[u8]>) -> bool {
    let Ok(found) = stat_descriptor(STDERR) else {
        return false;
    };
    // Somebody's file that happens to have this number is opened so.
    if culvert_run::files::close_on_exec(STDERR).unwrap_or(true) {
        return false;
    }
    if found.st_mode & S_IFMT == S_IFREG {
        let base = run.map(|run| &run[..run.iter().rposition(|&byte| byte == b'/').unwrap_or(0)]);
        let ours = |path: &Vec<u8>| match base {
            Some(base) => path.starts_with(base),
            None => path.windows(9).any(|part| part == b"/shadows/"),
        };
        if !descriptor_path(STDERR).is_ok_and(|path| !ours(&path)) {
            return false;
        }
    }
    takes_a_line()
}

/// poll(2): a pipe or terminal that would make us wait, and a pipe that nobody reads, takes none.
fn takes_a_line() -> bool {
    let mut asked = [pollfd {
        fd: STDERR,
        events: POLLOUT as i16,
        revents: 0,
    }];
    poll(&mut asked, 0) == Ok(1) && asked[0].revents == POLLOUT as i16
}

/// Writes `line` without waiting, and without a signal that the program sees: those that a write
/// raises (SIGPIPE, SIGXFSZ, SIGTTOU) are blocked meanwhile, and what has come of them since is
/// taken.
fn write(line: &[u8]) -> Result<(), Errno> {
    const SIGPIPE: u64 = 1 << 12;
    const SIGXFSZ: u64 = 1 << 24;
    let before = sigprocmask(SIG_SETMASK, u64::MAX)?;
    let pending = pending_signals();
    let result = pending.and_then(|_| write_at_once(line));
    let raised = match result {
        Err(Errno::EPIPE) => SIGPIPE,
        Err(Errno::EFBIG) => SIGXFSZ,
        _ => 0,
    };
    let raised = raised & !pending.unwrap_or(0);
    if raised != 0 {
        let _ = take_signal(raised);
    }
    let _ = sigprocmask(SIG_SETMASK, before);
    result.map(|_| ())
}

/// write(2) of `line`, of a pipe or socket with the flag that it must not wait: others may have
/// filled it since it was asked. O_NONBLOCK would be everybody's who has the pipe.
fn write_at_once(line: &[u8]) -> Result<usize, Errno> {
    let it = BorrowedFd::number(STDERR);
    match stat_descriptor(STDERR)?.st_mode & S_IFMT {
        S_IFSOCK => net::send(it, line, MSG_DONTWAIT | MSG_NOSIGNAL),
        S_IFIFO => match fs::write_with(it, line, RWF_NOWAIT) {
            // Pipes have had it since Linux 6.4.
            Err(Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) => fs::write(it, line),
            other => other,
        },
        _ => fs::write(it, line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_break_no_line_and_are_cut() {
        assert_eq!(shown(b"/bin/a b"), "/bin/a b");
        assert_eq!(shown(b"a\nb\x1b\xff"), "a\\nb\\u{1b}\\xff");
        let long = shown("\u{e9}".repeat(5000).as_bytes());
        assert!(
            long.len() < LONGEST_NAME + 8 && long.ends_with("..."),
            "{}",
            long.len()
        );
    }
}

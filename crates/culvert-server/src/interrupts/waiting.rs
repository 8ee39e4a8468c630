//! What a thread waits with, as proc(5) says it.

use std::fs;

/// `SIGKILL`, as a set.
pub const KILL: u64 = 1 << 8;

/// Whether a signal of the set `counted` waits for the thread with this `status` (proc(5)) that
/// ends what it waits in. Signals for a whole process go to its first thread where that takes them
/// (`complete_signal`, kernel/signal.c), so of others only those count that were sent to the thread
/// itself.
pub fn signalled(status: &str, counted: u64) -> bool {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|rest| rest.trim_start_matches(':').trim())
    };
    let set = |name| u64::from_str_radix(field(name)?, 16).ok();
    let is_first = field("Pid").is_some() && field("Pid") == field("Tgid");
    let shared = if is_first { set("ShdPnd") } else { None };
    let pending = set("SigPnd").unwrap_or(0) | shared.unwrap_or(0);
    counted & pending & !set("SigBlk").unwrap_or(u64::MAX) != 0
}

/// Whether `thread`, one of ours, sleeps in the kernel (proc(5), `stat`).
pub fn is_asleep(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    let state = stat.ok().and_then(|stat| {
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.bytes().next()
    });
    !matches!(state, Some(b'R' | b'D'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_waits_for_the_caller_is_found() {
        let status = |pid: u32, own: &str, shared: &str, blocked: &str| {
            format!(
                "Name:\tcat\nTgid:\t7\nNgid:\t0\nPid:\t{pid}\nThreads:\t2\nSigQ:\t0/1\nSigPnd:\t{own}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\n"
            )
        };
        let (none, user, kill) = ("0000000000000000", "0000000000000200", "0000000000000100");
        let any = |status: &str| signalled(status, u64::MAX);
        assert!(!any(&status(7, none, none, none)));
        assert!(any(&status(7, user, none, none)));
        assert!(any(&status(7, none, user, none)));
        assert!(any(&status(7, kill, user, user)));
        // Blocked, or another thread's.
        assert!(!any(&status(7, user, user, user)));
        assert!(!any(&status(8, none, user, none)));
        assert!(any(&status(8, kill, none, user)));
        assert!(!any("") && !any("SigPnd:\tffffffffffffffff\n"));
        // Only what kills.
        assert!(!signalled(&status(7, user, user, none), KILL));
        assert!(signalled(&status(7, kill, user, none), KILL));
    }
}

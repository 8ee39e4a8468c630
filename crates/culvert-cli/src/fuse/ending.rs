//! Making servers end.

use culvert_sys::raw::general::{SIGKILL, SIGTERM, pollfd};
use culvert_sys::{Errno, OwnedFd, process};
use std::{
    fs,
    time::{Duration, Instant},
};

/// How long a server may take to answer DESTROY, to end when the session has, and after SIGTERM.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Makes `process` end: whether it has.
pub fn end(process: &OwnedFd) -> bool {
    [SIGTERM, SIGKILL].into_iter().any(|signal| {
        let _ = process::pidfd_send_signal(process, signal);
        ends(process)
    })
}

/// Waits for the end of `process`, not for ever: whether it came.
fn ends(process: &OwnedFd) -> bool {
    let until = Instant::now() + PATIENCE;
    wait_for(process, || {
        until.saturating_duration_since(Instant::now()).as_millis() as i32
    })
}

/// Waits for the end of `process`.
pub fn until_gone(process: &OwnedFd) {
    wait_for(process, || -1);
}

/// Whether `process` has ended within `left` milliseconds, asked anew after each signal.
fn wait_for(process: &OwnedFd, left: impl Fn() -> i32) -> bool {
    const POLLIN: i16 = 1;
    loop {
        let mut polled = [pollfd {
            fd: process.raw(),
            events: POLLIN,
            revents: 0,
        }];
        match process::poll(&mut polled, left()) {
            Err(Errno::EINTR) => {}
            polled => return polled.is_ok_and(|count| count > 0),
        }
    }
}

/// Sends `signal` to all children of this process, which may wait for them at the same time.
pub fn signal_children(signal: u32) {
    let open = |child: u32| Some((child, process::pidfd_open(child).ok()?));
    let opened: Vec<_> = children().into_iter().filter_map(open).collect();
    // The number of one that was waited for may be another process's by now; one that is a child
    // still was it when it was opened.
    let now = children();
    for (_, process) in opened.iter().filter(|(child, _)| now.contains(child)) {
        let _ = process::pidfd_send_signal(process, signal);
    }
}

fn children() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten();
    let texts = tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    let numbers = |text: String| -> Vec<u32> {
        let words = text.split_ascii_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    };
    texts.flat_map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::process::ExitStatusExt,
        process::{Command, Stdio},
    };

    #[test]
    fn a_process_that_ignores_sigterm_is_killed() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = process::pidfd_open(child.id()).unwrap();
        assert!(end(&process));
        assert_eq!(child.wait().unwrap().signal(), Some(SIGTERM as i32));
        let mut stubborn = Command::new("sh")
            .args(["-c", "trap '' TERM; echo; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = stubborn.stdout.take().unwrap();
        std::io::Read::read_exact(&mut out, &mut [0]).unwrap();
        let process = process::pidfd_open(stubborn.id()).unwrap();
        assert!(end(&process));
        assert_eq!(stubborn.wait().unwrap().signal(), Some(SIGKILL as i32));
    }
}

//! Running one command to its end, with a limit.

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long one command may take, unless its test says otherwise.
pub const LIMIT: Duration = Duration::from_secs(60);

/// What a command left behind.
#[derive(Clone, PartialEq, Eq)]
pub struct Finished {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// `exit N`, `signal N` or `killed after 60 s`.
    pub status: String,
}

impl Finished {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text.
    pub fn errors(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Everything, for the message of a failed test.
    pub fn report(&self) -> String {
        format!(
            "[{}]\n--- stdout\n{}--- stderr\n{}",
            self.status,
            clip(&self.text()),
            clip(&self.errors())
        )
    }
}

/// The first and last kilobytes of a long output.
fn clip(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() <= 200 {
        return lines.iter().map(|line| format!("{line}\n")).collect();
    }
    let (head, tail) = (&lines[..100], &lines[lines.len() - 100..]);
    format!(
        "{}\n... {} lines ...\n{}\n",
        head.join("\n"),
        lines.len() - 200,
        tail.join("\n")
    )
}

/// Runs `command` in a process group of its own with `input` on its standard input. After [`LIMIT`]
/// the whole group is killed.
pub fn run(command: Command, input: &[u8]) -> Finished {
    run_within(command, input, LIMIT)
}

/// [`run`] with a limit of its own.
pub fn run_within(mut command: Command, input: &[u8], limit: Duration) -> Finished {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => panic!("cannot start {command:?}: {error}"),
    };
    let group = child.id();
    let mut pipe = child.stdin.take().expect("standard input was asked for");
    let input = input.to_vec();
    // A program may end without reading its input: EPIPE is no failure.
    let writer = std::thread::spawn(move || drop(pipe.write_all(&input)));
    let (sender, receiver) = mpsc::channel();
    let waiter = std::thread::spawn(move || drop(sender.send(child.wait_with_output())));
    let (output, late) = match receiver.recv_timeout(limit) {
        Ok(output) => (output, false),
        Err(_) => {
            let _ = Command::new("kill")
                .args(["-KILL", "--", &format!("-{group}")])
                .status();
            (
                receiver
                    .recv()
                    .expect("the waiter answers once the group is dead"),
                true,
            )
        }
    };
    let output = output.expect("the output of a child can be read");
    waiter.join().expect("the waiter ended");
    writer.join().expect("the writer ended");
    let status = match (late, output.status.code(), output.status.signal()) {
        (true, ..) => format!("killed after {} s", limit.as_secs()),
        (_, Some(code), _) => format!("exit {code}"),
        (_, None, signal) => format!("signal {}", signal.unwrap_or(0)),
    };
    Finished {
        stdout: output.stdout,
        stderr: output.stderr,
        status,
    }
}

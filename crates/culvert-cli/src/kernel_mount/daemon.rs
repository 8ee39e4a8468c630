//! The server as a process of its own: the command returns when the mount can be used, or with the
//! reason why not.

use super::{Ready, serve};
use crate::failure::{Failure, reason, shown};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    path::Path,
};

unsafe extern "C" {
    /// fork(2) of the C library, which keeps its own books right.
    safe fn fork() -> i32;
}

/// What the child says when the mount is up.
const UP: u8 = b'+';

/// Leaves a child behind that serves the mount; returns when it can be used.
pub fn leave_behind(ready: Ready) -> Result<u8, Failure> {
    let cannot = |error: io::Error| Failure::new(format!("cannot start: {}", reason(&error)));
    let (mut ours, theirs) = io::pipe().map_err(cannot)?;
    // No thread exists yet: the child is whole.
    match fork() {
        -1 => {
            ready.directory.discard();
            Err(cannot(io::Error::last_os_error()))
        }
        0 => {
            drop(ours);
            child(ready, theirs);
            // The parent's clean-up is not the child's.
            std::process::exit(0)
        }
        _ => {
            drop(theirs);
            let mut answer = Vec::new();
            ours.read_to_end(&mut answer).map_err(cannot)?;
            match answer.split_first() {
                Some((&UP, _)) => Ok(0),
                // The child has said it as a failure says it.
                Some((_, text)) => Err(Failure::told(
                    String::from_utf8_lossy(text.trim_ascii_end()).into_owned(),
                )),
                None => Err(Failure::new("the server ended before the mount was up")),
            }
        }
    }
}

/// The child: leaves the terminal, serves.
fn child(ready: Ready, parent: io::PipeWriter) {
    let _ = rustix::process::setsid();
    // No directory is kept from being unmounted.
    let _ = rustix::process::chdir("/");
    let mut parent = Some(parent);
    let outcome = serve(ready, |ready| {
        detach(ready.messages.as_ref())?;
        ready.close_inherited();
        if let Some(mut parent) = parent.take() {
            // Who was killed meanwhile needs no answer.
            let _ = parent.write_all(&[UP]);
        }
        Ok(())
    });
    match (outcome, parent) {
        (Ok(_), _) => {}
        (Err(failure), Some(mut parent)) => {
            let _ = writeln!(parent, "-{failure}");
        }
        (Err(failure), None) => {
            let _ = writeln!(io::stderr(), "{failure}");
        }
    }
}

/// Standard input is nothing; output and messages go to `out`; without it output goes nowhere,
/// messages where they went.
fn detach(out: Option<&OwnedFd>) -> Result<(), Failure> {
    let nothing = Path::new("/dev/null");
    let input = File::open(nothing)
        .map_err(|error| Failure::new(format!("{}: {}", shown(nothing), reason(&error))))?;
    let failed = |error: rustix::io::Errno| Failure::new(io::Error::from(error).to_string());
    rustix::stdio::dup2_stdin(&input).map_err(failed)?;
    let Some(out) = out else {
        // Messages go to standard error alone.
        let nothing = super::log::append(nothing)?;
        return rustix::stdio::dup2_stdout(&nothing).map_err(failed);
    };
    rustix::stdio::dup2_stdout(out).map_err(failed)?;
    rustix::stdio::dup2_stderr(out).map_err(failed)
}

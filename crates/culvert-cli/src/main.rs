//! The `culvert` command: all but plain launches of programs, which its first stage does
//! (`culvert_launch`).
//!
//! There is no Rust `main`: the runtime's start-up would ignore SIGPIPE and open closed standard
//! descriptors, and the program that `run` becomes would inherit that.
#![cfg_attr(not(test), no_main)]

mod arguments;
mod base;
mod bindings;
mod branches;
mod completion;
mod config;
mod cover;
mod cruise;
mod doctor;
mod drivers;
mod elf;
mod extend;
mod extfs;
mod failure;
mod file_size_signal;
mod fork;
mod fuse;
mod host;
mod identifier;
mod inherited;
mod kernel_mount;
mod library_copy;
mod logs;
mod memory;
mod mounts;
mod oci;
mod own_path;
mod pager;
mod plfs;
mod prepare;
mod program;
mod recovery;
mod run;
mod run_again;
mod run_directory;
mod save;
mod served_by_kernel;
mod shared_object;
mod stored_images;
mod sync;
mod umask;
mod verdict;
mod words;

use arguments::Command;
use failure::Failure;
use std::{
    ffi::{c_char, c_int},
    io::Write,
};

/// The word with which culvert starts itself inside a run, to look for a program on a mount. Not
/// for users.
const INSIDE: &str = "run-inside";

/// The word with which culvert starts itself to write back what programs of a run that is over have
/// stored in mappings. Not for users.
const RECOVER: &str = "run-recover";

/// Called by the C library's start-up code.
#[cfg_attr(not(test), unsafe(export_name = "main"))]
#[cfg_attr(test, allow(dead_code))]
extern "C" fn start(_count: c_int, _arguments: *const *const c_char) -> c_int {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    if fuse::adapter::fusermount::is_called(&name) {
        return told(fuse::adapter::fusermount::run(words));
    }
    let asked = match arguments::mount_helper::is_called(&name) {
        true => arguments::mount_helper::parse(words),
        false => arguments::parse(words),
    };
    let outcome = check_rights().and(asked).and_then(execute);
    let outcome = match arguments::mount_helper::is_called(&name) {
        true => outcome.map_err(|failure| failure.status(arguments::mount_helper::FAILED)),
        false => outcome,
    };
    told(outcome)
}

/// The status of `outcome`, whose failure is told.
fn told(outcome: Result<u8, Failure>) -> c_int {
    c_int::from(outcome.unwrap_or_else(|failure| {
        // Nobody to tell is no reason for another failure.
        let _ = writeln!(std::io::stderr(), "{failure}");
        failure.status
    }))
}

/// Refuses to be a set-user-ID program: files, programs and the environment are taken as the
/// caller's own.
fn check_rights() -> Result<(), Failure> {
    match rustix::process::geteuid() == rustix::process::getuid() {
        true => Ok(()),
        false => {
            Err(Failure::new(culvert_launch::NOT_SET_USER)
                .advice(culvert_launch::NOT_SET_USER_ADVICE))
        }
    }
}

/// Carries out `command`; the exit status.
fn execute(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Print(text) => print(&text),
        Command::Run(run) => Err(run::run(run)),
        Command::RunInside(run) => Err(run::continue_inside(run)),
        Command::RunAgain(again) => Err(run_again::run(again)),
        Command::Recover(directory) => recovery::recover(&directory),
        Command::RunPager(directory) => pager::serve(&directory),
        Command::WriteLog(job) => logs::write(&job),
        Command::Host(place) => host::host(&place),
        Command::Adapt(place, command) => fuse::adapter::adapt(&place, &command),
        Command::Guard(job, lock) => fuse::guard(&job, lock),
        Command::Log(wanted) => logs::read(&wanted),
        Command::Memory(wanted) => memory::memory(&wanted),
        Command::Plfs(wanted) => plfs::plfs(&wanted),
        Command::Save(wanted) => save::save(&wanted),
        Command::SaveAfter(wanted) => save::after(&wanted),
        Command::Extend(wanted) => extend::serve(&wanted),
        Command::Sync(wanted) => sync::serve(&wanted),
        Command::SyncInBackground(socket, kind) => sync::serve_in_background(&socket, kind),
        Command::Drivers { name } => print(&drivers::describe(name.as_deref())?),
        Command::Config(asked) => print(&config::describe(&asked)?),
        Command::Program(words) => Err(shared_object::run(&words)),
        Command::Mount(mount) => match mount.request.driver.as_deref() {
            Some(name) if fuse::is_served(name) => served_by_kernel::mount(*mount),
            _ => {
                fuse::Place::refuse(&mount.request.options)?;
                kernel_mount::mount(*mount)
            }
        },
        Command::Remount(remount) => kernel_mount::remount::remount(&remount),
        Command::Unmount { targets, lazy } => kernel_mount::unmount(&targets, lazy),
        Command::List { json } => {
            let text = kernel_mount::registry::list(json, &fuse::listed());
            if text.is_empty() {
                let whose = match rustix::process::geteuid().is_root() {
                    true => "there are no mounts of culvert mount",
                    false => "you have no mounts of culvert mount",
                };
                eprintln!("culvert: {whose} (culvert run mounts nothing in the kernel)");
            }
            print(&text)
        }
        Command::Doctor { command, json } => doctor::doctor(&command, json),
    }
}

/// Writes `text` to standard output.
fn print(text: &str) -> Result<u8, Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::new(format!("cannot write: {}", failure::reason(&error))))?;
    Ok(0)
}

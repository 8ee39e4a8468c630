//! `culvert run-again`, by which a program of another user than its run's starts once more: in a
//! run directory of that user's own, with the same mounts, opened with that user's rights. The
//! program has found out by itself that it may not use the run
//! (`culvert_preload::start::other_user`); what is mounted it knows by a descriptor that it
//! inherited.

use crate::{
    failure::{Failure, shown},
    prepare, program, run,
    run_directory::{self, RunDirectory},
    verdict::{self, Kind},
};
use culvert::mount::Mount;
use culvert_drivers::OtherUser;
use culvert_preload::start::other_user::TheirRun;
use culvert_sys::{
    BorrowedFd,
    fd::{Command, fcntl},
    raw::general::FD_CLOEXEC,
};
use std::{
    ffi::OsString,
    os::fd::RawFd,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// What is started again.
#[derive(Debug)]
pub struct Again {
    /// The inherited descriptor that says what is mounted.
    pub descriptor: RawFd,
    /// The flags of `CULVERT_RUN`.
    pub flags: u8,
    /// The program, as execve gets it.
    pub program: PathBuf,
    /// Its arguments, with its name.
    pub arguments: Vec<OsString>,
}

/// Becomes the program; comes back only with the reason why not.
pub fn run(again: Again) -> Failure {
    let (environment, directory) = match joined(&again) {
        Ok((environment, directory)) => (environment, Some(directory)),
        Err(failure) => {
            const STRICT: u8 = culvert_run::STRICT;
            if again.flags & STRICT != 0 {
                return failure.status(crate::failure::NOT_EXECUTABLE);
            }
            tell(&again, &failure.to_string());
            (std::env::vars_os().collect(), None)
        }
    };
    let failure = program::execute(&again.program, &again.arguments, &environment);
    if let Some(directory) = directory {
        directory.discard();
    }
    failure
}

/// The environment of the program in a run of this user's.
fn joined(again: &Again) -> Result<(program::Environment, RunDirectory), Failure> {
    let mounts = inherited(again.descriptor)?;
    let library = run::library()?;
    let carrier = match verdict::of_program(&again.program) {
        Ok((_, Kind::Preloaded)) => run::Carrier::Preload,
        _ => run::Carrier::Audit,
    };
    let directory = run_directory::create()?;
    if is_in_a_mount(again.descriptor) {
        culvert_preload::notice::say_also(
            again.program.as_os_str().as_bytes(),
            "is not in its working directory, which is on a mount, for another user has started \
            it; let it go there by its path",
        );
    }
    let made = serve(again, &directory, mounts)
        .and_then(|()| run::environment(&directory, &library, again.flags, Some(carrier)));
    match made {
        Ok(environment) => Ok((environment, directory)),
        Err(failure) => {
            directory.discard();
            Err(failure)
        }
    }
}

/// What the run that this process inherited has mounted.
fn inherited(descriptor: RawFd) -> Result<Vec<Mount>, Failure> {
    let theirs = TheirRun::read(descriptor);
    // It stays open until exec.
    let _ = fcntl(
        BorrowedFd::number(descriptor),
        Command::SETFD,
        FD_CLOEXEC as usize,
    );
    theirs
        .ok()
        .and_then(|theirs| culvert::mount::decode(&theirs.mounts).ok())
        .ok_or_else(|| Failure::new("what is mounted cannot be read"))
}

/// Whether the working directory is what stands for one on a mount in the run whose lock is
/// `descriptor`.
fn is_in_a_mount(descriptor: RawFd) -> bool {
    let lock = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
    let here = std::fs::read_link("/proc/self/cwd");
    let (Ok(lock), Ok(here)) = (lock, here) else {
        return false;
    };
    lock.parent()
        .is_some_and(|run| here.starts_with(run.join("cwd")))
}

/// Makes the mounts ready for this user. What he may not open stays mounted: who looks there gets
/// EIO, and not what lies below.
fn serve(again: &Again, directory: &RunDirectory, mounts: Vec<Mount>) -> Result<(), Failure> {
    let mut refused = Vec::new();
    let all: Vec<Mount> = mounts
        .into_iter()
        .map(|mount| {
            for_this_user(&mount, &directory.path).unwrap_or_else(|failure| {
                refused.push(format!(
                    "{} ({})",
                    shown(crate::failure::path(&mount.target)),
                    failure.message()
                ));
                mount
            })
        })
        .collect();
    if !refused.is_empty() {
        tell(again, &format!("it may not open {}", refused.join(", ")));
    }
    directory.write_mounts(&all)
}

/// `mount`, each source of it as this user may have it, by what the source's driver declares.
fn for_this_user(mount: &Mount, run: &Path) -> Result<Mount, Failure> {
    let mut mount = mount.clone();
    for leaf in mount.leaves_mut() {
        match culvert_drivers::declared(leaf).map(|one| one.other_user) {
            Some(OtherUser::Refused(why)) => return Err(Failure::new(why)),
            Some(OtherUser::Prepares(adapt)) => {
                adapt(leaf);
                *leaf = prepare::prepare(leaf, run, false)?;
            }
            Some(OtherUser::Opens) | None => may_open(leaf)?,
        }
    }
    Ok(mount)
}

/// Whether this user may open `mount`.
fn may_open(mount: &Mount) -> Result<(), Failure> {
    let opened = culvert_drivers::open(mount, &culvert_drivers::Environment::default());
    opened
        .map(drop)
        .map_err(|error| Failure::new(error.to_string()))
}

fn tell(again: &Again, why: &str) {
    let uid = rustix::process::geteuid().as_raw();
    let why = why.replace('\n', " ");
    culvert_preload::notice::say(
        None,
        again.program.as_os_str().as_bytes(),
        &format!("it runs as user {uid}, and not as the user of the run: {why}"),
        "mounts for all users are made by `culvert mount`",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_source_of_a_mount_of_several_is_this_users_own() {
        let mount = |driver: &str, source: &[u8], branches: &[Mount]| Mount {
            driver: driver.into(),
            source: source.to_vec(),
            target: b"/mnt".to_vec(),
            options: Vec::new(),
            branches: branches.to_vec(),
        };
        let root = mount("passthrough", b"/", &[]);
        let run = std::env::temp_dir();
        let both = mount("last", b"/:/", &[root.clone(), root.clone()]);
        assert_eq!(for_this_user(&both, &run).unwrap(), both);
        let one = mount(
            "last",
            b"/:/nowhere",
            &[root, mount("passthrough", b"/nowhere", &[])],
        );
        let refused = for_this_user(&one, &run).unwrap_err();
        assert!(
            refused.message().contains("No such file"),
            "{}",
            refused.message()
        );
    }
}

//! A program that cannot join its run: why, whether it goes on without, and what its user is told.

use super::carried::Carried;
use crate::notice;
use alloc::{format, string::String};
use culvert::Errno;
use culvert_cache::State;
use culvert_run::{Refusal, Run, files::c_string, stat_path};
use culvert_sys::BorrowedFd;
use culvert_sys::raw::general::S_IFREG;
use culvert_sys::trust::{self, Why as Distrust};

/// Why a program does not join its run.
pub(super) struct Lost {
    /// In words.
    pub(super) reason: String,
    /// What the kernel says, where it is the kernel.
    pub(super) errno: Option<Errno>,
    /// That the run's directory is not to be believed, or not to be found.
    pub(super) distrust: Option<Distrust>,
}

impl From<Refusal> for Lost {
    fn from(refusal: Refusal) -> Self {
        let reason = format!("{refusal}");
        let (errno, distrust) = match refusal {
            Refusal::Directory(why) => (Some(why.errno()), Some(why)),
            Refusal::Mounts(Distrust::Failed(errno)) | Refusal::Mount(errno) => (Some(errno), None),
            Refusal::Mounts(why) => (None, Some(why)),
        };
        Self {
            reason,
            errno,
            distrust,
        }
    }
}

impl Lost {
    pub(super) fn because(what: &str, errno: Errno) -> Self {
        Self {
            reason: format!("{what}: {errno}"),
            errno: Some(errno),
            distrust: None,
        }
    }

    /// Whether the program was promised the mounts of `carried`, so that it must not run without
    /// them: unless the run is another user's, or its directory is there and not to be found from
    /// here, in a sandbox or below another root. The descriptor of its lock, which was inherited,
    /// tells.
    pub(super) fn is_promised(&self, carried: &Carried<'_>) -> bool {
        // It would take the machine's files for those below its root.
        let Some(why) = self.distrust.filter(|_| carried.root.is_none()) else {
            return true;
        };
        let lock = match culvert_run::stat_descriptor(carried.lock_descriptor) {
            Ok(lock) => lock,
            // A filter keeps us from looking.
            Err(errno) => return errno != Errno::EBADF,
        };
        // A filter may keep the user from us.
        let user = [lock.st_uid, u32::MAX].contains(&trust::user());
        let ours = lock.st_mode & 0o170000 == S_IFREG && user;
        let elsewhere = matches!(
            why,
            Distrust::Failed(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES)
        );
        ours && !(elsewhere && lock.st_nlink != 0 && !is_reachable(carried.lock_descriptor, &lock))
    }

    /// What the user can do.
    pub(super) fn remedy(&self) -> &'static str {
        match self.errno {
            Some(Errno::EMFILE) => "let it open more files (ulimit -n)",
            Some(Errno::ENFILE) => "let the system open more files (fs.file-max)",
            Some(Errno::ENOMEM) => "let it have more memory (ulimit -v, ulimit -d)",
            Some(Errno::ENOENT) => "start it again with `culvert run`",
            _ => "`culvert doctor` says what is needed",
        }
    }
}

/// Whether the file that is open in `fd`, with this `struct stat`, has a name here: so its
/// directory was moved.
fn is_reachable(fd: i32, found: &culvert_sys::raw::general::stat) -> bool {
    let named = culvert_run::descriptor_path(fd).and_then(|path| stat_path(&c_string(&path)));
    named.is_ok_and(|named| (named.st_dev, named.st_ino) == (found.st_dev, found.st_ino))
}

/// This program does not see the mounts of `carried`, for `reason`: its user is told, with a
/// `remedy`.
pub(super) fn lose_mounts(carried: Option<&Carried<'_>>, reason: &str, remedy: &str) {
    culvert_sys::log!("this program does not see the mounts: {reason}; {remedy}");
    let own = culvert_run::read_link(c"/proc/self/exe");
    let program = own.as_deref().unwrap_or(b"this program");
    let run = carried.map(|carried| carried.directory);
    // Nothing is made in a directory that is not ours.
    let run = run.filter(|run| Run::open(run).is_ok());
    if let Some(carried) = carried {
        refuse_to_read_nothing(carried.directory, reason);
    }
    notice::say(run, program, reason, remedy);
}

/// Ends the program with status 125 when it has inherited a file of a mount that it could only read
/// as an empty one: without the engine a shadow that was not filled says nothing, and a wrong
/// answer is worse than none.
fn refuse_to_read_nothing(run: &[u8], reason: &str) {
    let base = &run[..run.iter().rposition(|&byte| byte == b'/').unwrap_or(0)];
    let unreadable = |fd: &i32| {
        let below = |path: &[u8]| {
            path.strip_prefix(base)
                .is_some_and(|rest| rest.windows(9).any(|part| part == b"/shadows/"))
        };
        let shadow = culvert_run::descriptor_path(*fd).is_ok_and(|path| below(&path));
        shadow && culvert_run::stat_descriptor(*fd).is_ok_and(|found| !State::of(&found).has_all())
    };
    let Some(fd) = culvert_run::files::open_descriptors()
        .into_iter()
        .find(unreadable)
    else {
        return;
    };
    let message = format!(
        "culvert: descriptor {fd} is a file on a mount, which this program cannot read: {reason}\n"
    );
    let _ = culvert_sys::fs::write(BorrowedFd::number(2), message.as_bytes());
    culvert_sys::process::exit_group(125)
}

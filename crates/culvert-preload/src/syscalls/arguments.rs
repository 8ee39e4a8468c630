//! What a call's registers say: descriptors, paths, flags.

use crate::answer::{Answer, FORWARD};
use crate::description::{Held, Object};
use crate::process::Process;
use crate::vfs::native::AT_SYMLINK_NOFOLLOW;
use crate::vfs::node::On;
use crate::vfs::path::Given;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_mounts::resolver::{LastStep, Restrictions};
use culvert_run::memory::{self, Path};
use culvert_sys::raw::general::AT_FDCWD;

/// The description behind a descriptor argument, if it is ours. The kernel looks at the low 32 bits
/// only.
#[inline]
pub fn descriptor(process: &Process, argument: usize) -> Option<Held> {
    process.table.get(argument as i32)
}

/// The same for calls that concern a file's bytes: none when its descriptor is on the file itself,
/// so that the kernel does right.
#[inline]
pub fn driven(process: &Process, argument: usize) -> Option<Held> {
    descriptor(process, argument).filter(|held| !held.is_direct())
}

/// The same for calls that concern more than bytes: also where the bytes are the kernel's, but not
/// where all is.
#[inline]
pub fn metadata(process: &Process, argument: usize) -> Option<Held> {
    descriptor(process, argument).filter(|held| !held.is_direct() || held.is_backed())
}

/// Refuses a descriptor call on our files.
pub fn refuse(process: &Process, call: &mut Call, errno: Errno) -> Answer {
    if descriptor(process, call.args[0]).is_some() {
        Err(errno)
    } else {
        Err(FORWARD)
    }
}

/// Where a call has its path, and how it is to be read.
#[derive(Clone, Copy)]
pub struct At {
    /// Which argument is the directory's descriptor, if any.
    pub directory: Option<usize>,
    /// Which argument is the path.
    pub path: usize,
    /// What happens to the last component.
    pub last: LastStep,
    /// RESOLVE_* of openat2.
    pub restrictions: Restrictions,
    /// The argument and the bit in it that turn what happens to a link at the end.
    pub turn: Option<(usize, usize)>,
}

impl At {
    /// The path in argument `path`, relative ones below the working directory.
    pub const fn new(path: usize, last: LastStep) -> Self {
        Self {
            directory: None,
            path,
            last,
            restrictions: Restrictions(0),
            turn: None,
        }
    }

    /// The path in argument `directory + 1`, relative ones below the directory of argument
    /// `directory`.
    pub const fn below(directory: usize, last: LastStep) -> Self {
        Self {
            directory: Some(directory),
            path: directory + 1,
            last,
            restrictions: Restrictions(0),
            turn: None,
        }
    }

    /// [`At::below`] for a call with a directory, [`At::new`] for its older form without.
    pub const fn of(has_directory: bool, first: usize, last: LastStep) -> Self {
        match has_directory {
            true => Self::below(first, last),
            false => Self::new(first, last),
        }
    }

    /// The same, but a link at the end is followed where it would not be, or not where it would be,
    /// by a call with `bit` in argument `argument`.
    pub const fn turned_by(self, argument: usize, bit: usize) -> Self {
        Self {
            turn: Some((argument, bit)),
            ..self
        }
    }

    /// What the flags of `call` make of it.
    pub fn turned(self, call: &Call) -> Self {
        let last = match (self.turn, self.last) {
            (Some((argument, bit)), last) if call.args[argument] & bit == 0 => last,
            (Some(_), LastStep::Follow) => LastStep::NoFollow,
            (Some(_), LastStep::NoFollow) => LastStep::Follow,
            (_, last) => last,
        };
        Self { last, ..self }
    }

    /// The descriptor of the directory that a relative path starts from.
    pub fn directory_of(&self, call: &Call) -> i32 {
        self.directory
            .map_or(AT_FDCWD, |index| call.args[index] as i32)
    }

    /// The path argument that `call` has here: `path`, which was read from the program's memory.
    pub fn given<'p>(&self, call: &Call, path: Path<'p>) -> Given<'p> {
        Given {
            directory: self.directory_of(call),
            path,
            last: self.last,
            restrictions: self.restrictions,
        }
    }
}

/// The description behind a descriptor whose bytes only its driver can move; one whose back end is
/// a file of the kernel's is made the kernel's.
pub fn kernel_has_not(process: &Process, fd: usize) -> Option<Held> {
    let held = driven(process, fd)?;
    if let Object::File(file) = &held.object
        && file.descriptor().is_some()
        && process.table.promote(fd as i32).is_ok()
        && held.is_direct()
    {
        return None;
    }
    Some(held)
}

/// Whether a link at the end of a path is followed, by the flags of a call.
pub const fn last_step(flags: usize) -> LastStep {
    if flags & AT_SYMLINK_NOFOLLOW != 0 {
        LastStep::NoFollow
    } else {
        LastStep::Follow
    }
}

/// Whether the path argument is empty (or null, which AT_EMPTY_PATH allows since 6.11).
pub fn is_empty(address: usize) -> bool {
    address == 0 || memory::get::<u8>(address) == Ok(0)
}

/// Answers a call with an empty path by `answer`: it is about descriptor `fd`, or the working
/// directory. None: that is the kernel's.
pub fn on_empty_path(
    process: &Process,
    fd: usize,
    answer: impl FnOnce(On<'_>) -> Answer,
) -> Option<Answer> {
    if fd as i32 == AT_FDCWD {
        let (mount, node) = process.working_node()?;
        return Some(answer(On::Node(mount, node)));
    }
    let held = descriptor(process, fd)?;
    Some(answer(On::Held(&held)))
}

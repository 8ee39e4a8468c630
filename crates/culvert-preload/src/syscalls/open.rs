//! open and its relatives.

use super::arguments::At;
use super::path::outside;
use crate::answer::{Answer, FORWARD};
use crate::fuse_server;
use crate::process::Process;
use crate::vfs::backed::Backed;
use crate::vfs::backed_open::{self, Failure};
use crate::vfs::open::open_inside;
use crate::vfs::path::{Found, Given, find, find_by_walking, in_tree, is_kernels, is_link};
use crate::vfs::path::{look_again, tree_at};
use crate::vfs::targets::{adopt_target, parent_is_target, target_at};
use crate::vfs::{misses, proc_files};
use core::ffi::CStr;
use culvert::Errno;
use culvert_intercept::Call;
use culvert_mounts::resolver::{LastStep, Restrictions};
use culvert_run::memory::{self, PathBuffer};
use culvert_run::stat_descriptor;
use culvert_sys::fd::{BorrowedFd, CWD};
use culvert_sys::fs;
use culvert_sys::nr;
use culvert_sys::raw::general::O_PATH;
use culvert_sys::raw::general::open_how;
use culvert_sys::raw::general::{O_ACCMODE, O_DIRECT, O_DIRECTORY, O_NOFOLLOW, O_WRONLY};
pub(super) use culvert_sys::raw::general::{O_CLOEXEC, O_CREAT, O_EXCL, O_TMPFILE, O_TRUNC};

/// The size of `struct open_how`, which has had no other yet.
const OPEN_HOW: usize = 24;

/// `VALID_OPEN_FLAGS`: open and openat ignore the rest, openat2 refuses it.
const VALID: u32 = 0o37777703;

/// O_TMPFILE without O_DIRECTORY, which is a part of it.
const TMPFILE_ALONE: u32 = O_TMPFILE & !O_DIRECTORY;

/// What O_PATH leaves of the flags (`O_PATH_FLAGS`).
const PATH_FLAGS: u32 = O_DIRECTORY | O_NOFOLLOW | O_PATH | O_CLOEXEC;

/// open(2), openat(2), creat(2)
pub fn open(process: &Process, call: &mut Call) -> Answer {
    let at = At::of(call.number == nr::OPENAT, 0, LastStep::Follow);
    let (flags, mode) = match call.number {
        nr::CREAT => (O_CREAT | O_TRUNC | O_WRONLY, call.args[1]),
        _ => (call.args[at.path + 1] as u32, call.args[at.path + 2]),
    };
    open_at(process, call, at, flags & VALID, mode as u32)
}

/// openat2(2)
pub fn openat2(process: &Process, call: &mut Call) -> Answer {
    let [_, _, how, size, ..] = call.args;
    if memory::says_no_more(how, size, OPEN_HOW, OPEN_HOW).is_err() {
        return Err(FORWARD);
    }
    let (Ok(flags), Ok(mode), Ok(resolve)) = (
        memory::get::<u64>(how),
        memory::get::<u64>(how + 8),
        memory::get::<u64>(how + 16),
    ) else {
        return Err(FORWARD);
    };
    if refused_by_kernel(flags, mode, resolve) {
        return Err(FORWARD);
    }
    let path_only = flags & u64::from(O_PATH) != 0;
    let creates = flags & u64::from(O_CREAT | TMPFILE_ALONE) != 0;
    if (path_only && flags & !u64::from(PATH_FLAGS) != 0) || (mode != 0 && !creates) {
        return Err(FORWARD);
    }
    let at = At {
        restrictions: Restrictions(resolve),
        ..At::below(0, LastStep::Follow)
    };
    open_at(process, call, at, flags as u32, mode as u32)
}

/// Whether the kernel refuses an openat2 before it looks at the path (fs/open.c,
/// `build_open_flags`).
fn refused_by_kernel(flags: u64, mode: u64, resolve: u64) -> bool {
    let has = |flag: u32| flags & u64::from(flag) != 0;
    let creates = has(O_CREAT) || has(TMPFILE_ALONE);
    let scopes = Restrictions::BENEATH | Restrictions::IN_ROOT;
    flags & !u64::from(VALID | O_PATH) != 0
        || resolve & !0x3f != 0
        || resolve & scopes == scopes
        || mode & if creates { !0o7777 } else { !0 } != 0
        || (has(O_CREAT) && has(O_DIRECTORY))
        || (has(TMPFILE_ALONE) && (!has(O_DIRECTORY) || !has(O_ACCMODE)))
        || (has(O_PATH) && flags & !u64::from(PATH_FLAGS) != 0)
}

fn open_at(process: &Process, call: &mut Call, at: At, flags: u32, mode: u32) -> Answer {
    let flags = if flags & O_PATH != 0 {
        flags & PATH_FLAGS
    } else {
        flags
    };
    let creates = flags & O_CREAT != 0;
    // `build_open_flags`, fs/open.c; the first since Linux 6.3.
    if flags & (O_CREAT | O_DIRECTORY) == O_CREAT | O_DIRECTORY
        || (flags & TMPFILE_ALONE != 0
            && (flags & (O_DIRECTORY | O_CREAT) != O_DIRECTORY || flags & O_ACCMODE == 0))
    {
        return Err(Errno::EINVAL);
    }
    let last = match (creates, flags & O_NOFOLLOW != 0) {
        (true, _) if flags & O_EXCL != 0 => LastStep::CreateNew,
        (true, true) => LastStep::CreateNoFollow,
        (true, false) => LastStep::Create,
        (false, true) => LastStep::NoFollow,
        (false, false) => LastStep::Follow,
    };
    let at = At { last, ..at };
    let mut room = PathBuffer::new();
    let path = room.read(call.args[at.path])?;
    if let Some(answer) = fuse_server::open(path.bytes(), flags) {
        return answer;
    }
    let opening = Opening {
        process,
        call,
        at,
        given: at.given(call, path),
        flags,
        mode,
    };
    // What most opens are is known before anything else is asked.
    if at.restrictions == Restrictions(0) {
        if is_kernels(process, path) {
            return opening.by_kernel();
        }
        let tree = tree_at(process, opening.given);
        if let Some(place) = tree.and_then(|tree| in_tree(tree, opening.given)) {
            return opening.backed(&place);
        }
    }
    match opening.found(find(process, opening.given)?) {
        Some(answer) => answer,
        None => opening.by_kernel(),
    }
}

/// An open of what a path leads to.
struct Opening<'c> {
    process: &'c Process,
    call: &'c Call,
    at: At,
    given: Given<'c>,
    flags: u32,
    mode: u32,
}

impl Opening<'_> {
    /// The kernel opens it, with a second look where that may have led into a mount.
    fn by_kernel(&self) -> Answer {
        let Self {
            process,
            call,
            given,
            flags,
            ..
        } = *self;
        let (directory, path) = (given.directory, given.path.bytes());
        if let Some(answer) = proc_files::open(process, path, flags) {
            return answer;
        }
        if path.is_empty() {
            return Err(FORWARD);
        }
        if self.may_make_below_mount() {
            let found = look_again(process, given, true)?;
            if let Some(answer) = self.found(found) {
                return answer;
            }
        }
        let certain = flags & O_CREAT != 0
            && process.targets_open
            && parent_is_target(process, directory, path);
        let told = match given.restrictions {
            Restrictions(0) if !certain => misses::open(process, directory, given.path, flags),
            _ => None,
        };
        let answer = match told {
            Some(Err(errno)) => return Err(errno),
            Some(opened) => opened,
            None if certain => Err(Errno::ENOENT),
            // It may wait (a FIFO), and signals must end that.
            None => call.wait(),
        };
        match answer {
            Ok(fd) => keep_opened(process, fd as i32, path, flags),
            Err(Errno::ENOENT | Errno::ENOTDIR) => {
                let found = look_again(process, given, certain)?;
                self.found(found).unwrap_or_else(|| match certain {
                    true => Err(self.restricted().unwrap_or(Errno::ENOENT)),
                    false => answer,
                })
            }
            Err(_) => answer,
        }
    }

    /// What the kernel has against the path for its restrictions, though it may make nothing there.
    fn restricted(&self) -> Option<Errno> {
        let restrictions = self.given.restrictions;
        let directory = BorrowedFd::number(self.given.directory);
        let how = open_how {
            flags: (O_PATH | O_CLOEXEC).into(),
            mode: 0,
            resolve: restrictions.0,
        };
        (restrictions != Restrictions(0))
            .then(|| fs::open_how(directory, self.given.path.c_str(), &how).err())
            .flatten()
    }

    /// Whether the kernel would make a file where a link leads: in the empty directory under a
    /// mount, if it leads into one.
    fn may_make_below_mount(&self) -> bool {
        let (
            process,
            Given {
                directory, path, ..
            },
        ) = (self.process, self.given);
        match self.flags & TMPFILE_ALONE != 0 {
            true => process.targets_exist && target_at(process, directory, path).is_some(),
            false => {
                self.given.last == LastStep::Create
                    && process.targets_open
                    && is_link(directory, path)
            }
        }
    }

    /// Opens what the path was found to be; none: it is the kernel's.
    fn found(&self, found: Found<'_>) -> Option<Answer> {
        match found {
            Found::Inside(found) => Some(open_inside(self.process, found, self.flags, self.mode)),
            Found::Backed(place) => Some(self.backed(&place)),
            Found::Outside(path) => Some(self.outside(&path)),
            Found::MagicLink(_) | Found::Kernel => None,
        }
    }

    /// Opens something in the backing tree of a mount: the program gets the kernel's own
    /// descriptor.
    fn backed(&self, place: &Backed<'_>) -> Answer {
        let open = |place: &Backed<'_>| {
            let restrictions = self.given.restrictions;
            backed_open::open(self.process, place, restrictions, self.flags, self.mode)
        };
        let opened = match open(place) {
            Err(Failure::MustWalk) => match find_by_walking(self.process, self.given)? {
                Found::Backed(place) => open(&place),
                found => return self.found(found).unwrap_or(Err(FORWARD)),
            },
            opened => opened,
        };
        match opened {
            Ok(fd) => Ok(fd as usize),
            Err(Failure::Errno(errno)) => Err(errno),
            Err(Failure::MustWalk) => Err(Errno::ELOOP),
        }
    }

    /// The open with an absolute path that leaves the mounts.
    fn outside(&self, path: &CStr) -> Answer {
        if let Some(answer) = proc_files::open(self.process, path.to_bytes(), self.flags) {
            return answer;
        }
        if self.call.number != nr::OPENAT2 {
            return outside(self.call, self.at, path);
        }
        // BENEATH and IN_ROOT have been obeyed and would refuse the absolute path.
        let scopes = Restrictions::BENEATH | Restrictions::IN_ROOT;
        let how = open_how {
            flags: self.flags.into(),
            mode: self.mode.into(),
            resolve: self.given.restrictions.0 & !scopes,
        };
        fs::open_how(CWD, path, &how).map(|fd| fd.into_raw() as usize)
    }
}

/// What is known of a descriptor that the kernel has opened by `path`; the target of a mount
/// becomes its root.
fn keep_opened(process: &Process, fd: i32, path: &[u8], flags: u32) -> Answer {
    let table = &process.table;
    let fd = table.opened_by_kernel(fd, flags & O_CLOEXEC != 0);
    if flags & O_DIRECT != 0 {
        table.note_unbuffered(fd);
    }
    // Another process's descriptor may be a shadow.
    if path.starts_with(b"/proc/") && path.windows(4).any(|part| part == b"/fd/") {
        table.forget(fd);
    }
    if flags & (O_DIRECTORY | O_PATH) != 0
        && process.targets_exist
        && let Ok(found) = stat_descriptor(fd)
        && let Some(mount) = process.mounts.is_target(found.st_dev, found.st_ino)
    {
        adopt_target(process, fd, mount)?;
    }
    Ok(fd as usize)
}

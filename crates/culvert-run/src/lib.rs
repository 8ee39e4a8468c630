//! The run directory: what the processes of one `culvert run` have in common.
//!
//! ```text
//! <base>/sites/           site tables of programs and libraries, by build-id
//!                         (culvert_intercept::cache)
//! <base>/<id>/            0700, owned by the user; <base> is /dev/shm/culvert-<uid> or a fallback
//!     mounts              the mounts, culvert::mount::encode
//!     lock                held shared (flock) by every process of the run through an inherited
//!                         descriptor, by which it reads what it must know to join (state.rs);
//!                         another user's program, too (start/other_user.rs)
//!     shadows/M.N         one file for each node N (hexadecimal) of mount M that had to become a
//!                         kernel file
//!     shadows/M.N.path    a link that holds the path of node N, for drivers whose nodes another
//!                         process must find by their path
//!     cwd/M.N             one empty directory for each node that was made a working directory
//!     shown/M.N           a copy of the directory N with all that is below it, for programs that
//!                         are not intercepted (exec/copied_tree.rs)
//!     nowhere/M.N         a symbolic link whose target is D.I, the directory of the kernel's that
//!                         such a program got in place of N because N could not be shown
//!     directories/D.I     for each directory of the kernel's, inode I of device D, that such a
//!                         program got as its working directory: a symbolic link whose target
//!                         is the node's M.N and, where known, when the directory was made:
//!                         inode numbers come back (M.N@seconds.nanoseconds)
//!     fifos/M.I           FIFOs that stand for those on mounts, by their inode numbers
//!     fifos/M.I.path      links to where these are in the mount
//!     sockets/M.I         likewise sockets; M.I.name is a symbolic link whose target is the name
//!                         that the program gave
//!     gone/I              the shadow with the inode number I, which is a file itself since that
//!                         has no name; gone/I.attributes: what it cannot say of it; gone/M.N: a
//!                         link whose text is the number of the last one of node N
//!     strangers/M.N       an empty file for each node whose shadow was given to a program that is
//!                         not intercepted and may write to it
//!     descriptors/D.I     for each file of the kernel's, inode I of device D, of which a
//!                         description of a driver became shared: a symbolic link
//!                         whose target is the number of the mount
//!     owners              byte N is locked (fcntl) by the process whose slot is N (node_locks.rs)
//!     locks               lock words, and what else all processes must see at once (node_locks.rs)
//!     command             a link to the culvert command, which a program starts as the pager
//!     pager               the pager's socket; pager.lock is locked (flock) while there is one
//!     pid-namespace       a link whose text names the PID namespace of the run: a pager is made in
//!                         no other
//!     filters             under how many seccomp filters images can be made (filters.rs)
//!     told                empty: the user was told that a program does not see the mounts
//!                         (notice.rs)
//!     mappings            which processes map which nodes so that they can be written
//!                         (records.rs)
//!     watch/M.N/          the mirror of the watched node N (watch/mirror.rs)
//!     exe/<path>          programs started from a mount, under the path they have there
//!     interpreted/<path>  likewise copies of programs whose interpreter is on a mount
//!     copies/D.I...       those copies, by the program's device, inode, time and size
//! ```

#![no_std]
#![warn(missing_docs)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod adopted;
pub mod files;
pub mod filters;
pub mod holders;
pub mod internal;
mod joining;
pub mod library_copy;
pub mod lock_files;
pub mod mappings;
pub mod memory;
pub mod node_locks;
pub mod node_paths;
pub mod node_shares;
pub mod posix_locks;
pub mod records;
pub mod restarts;
pub mod state;
pub mod task;

use crate::files::c_string;
pub use crate::files::{
    O_PATH, descriptor_path, list, make_directory, positions, read_file, read_link,
    stat_descriptor, stat_path,
};
use crate::files::{kernel_flags, read_sized};
use alloc::{boxed::Box, ffi::CString, format, vec::Vec};
use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, Ordering::*};
use culvert::Node;
use culvert::mount::Mount;
use culvert_mounts::{MountId, MountTable};
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::raw::general::{AT_FDCWD, O_DIRECTORY, STATX_BTIME, stat};
use culvert_sys::sync::AtomicRef;
use culvert_sys::trust::{self, Opened, Why};
use culvert_sys::{BorrowedFd, Errno, fs};
pub use internal::INTERNAL;
use internal::Internal;
pub use joining::{Refusal, enter, outside};
use node_locks::NodeLocks;
use posix_locks::PosixLocks;

/// The environment variable that carries a run over exec: the run directory's path.
pub const VARIABLE: &[u8] = b"CULVERT_RUN";
/// Flag of `CULVERT_RUN`: programs that cannot be intercepted are refused.
pub const STRICT: u8 = 1;
/// Flag of `CULVERT_RUN`: no instruction is rewritten, so no mount is visible (for debuggers).
pub const NO_PATCH: u8 = 2;
/// Flag of `CULVERT_RUN`: the working directory was gone to by a path outside the mounts, also if
/// it lies in the source of one.
pub const OUTSIDE: u8 = 4;

/// Flag of `CULVERT_RUN`: the process is a FUSE server, whose requests come by slots in the run's
/// directory.
pub const FUSE_SERVER: u8 = 8;

/// Flag of `CULVERT_RUN`: `culvert run` is about to make a mount the root directory (`--root`),
/// whoever it is: nothing but its own paths changes with that.
pub const ROOT: u8 = 32;

/// Flag of `CULVERT_RUN`: this process had record locks on files of mounts before its exec.
pub const LOCKS: u8 = 16;

/// Flag of `CULVERT_RUN`: this process has descriptors since before its exec that are found by
/// paths, or may have.
pub const INHERITED: u8 = 64;

/// Flag of `CULVERT_RUN`: another process has this one's working directory and umask (`CLONE_FS`),
/// or may have.
pub const SHARED_DIRECTORY: u8 = 128;

/// A run directory, seen from a process of the run.
pub struct Run {
    /// Its absolute path.
    pub path: Vec<u8>,
    /// `st_dev` of the file system it lies on: one comparison tells most foreign descriptors from
    /// shadows.
    pub device: u64,
    /// Its owner, as this process saw him when it joined.
    pub owner: u32,
    /// The inherited descriptor that keeps the run directory alive, -1 when there is none.
    pub lock_descriptor: AtomicI32,
    /// The mounts.
    pub mounts: MountTable,
    /// The mounts as the user asked for them, in the order of the table.
    pub specifications: Vec<Mount>,
    /// What the run's state says of images ([`state::State::images`]).
    pub images_known: &'static [u8],
    /// Whether a signal waits for the calling thread, for drivers that are opened later.
    interrupted: Option<fn() -> bool>,
    /// The servers of some mounts are started again when they die.
    has_restarts: bool,
    /// Locks shared by the processes of the run.
    pub node_locks: NodeLocks,
    /// The descriptors that Culvert itself holds in this process.
    internal: Internal,
    /// The record locks of this process.
    pub posix_locks: PosixLocks,
}

static JOINED: AtomicRef<Run> = AtomicRef::new();

/// The run of this process, which is part of one at most. Only what exists after [`enter`] calls
/// this.
#[inline]
pub fn get() -> &'static Run {
    JOINED.get().expect("joined before the engine is installed")
}

/// This process is part of `run`, whose directory is kept by `lock_descriptor`, from here on.
fn join(
    run: Run,
    mounts: MountTable,
    specifications: Vec<Mount>,
    lock_descriptor: i32,
) -> &'static Run {
    let run = Box::leak(Box::new(Run {
        mounts,
        has_restarts: specifications.iter().any(restarts::is_restarted),
        specifications,
        lock_descriptor: AtomicI32::new(lock_descriptor),
        ..run
    }));
    JOINED.set(Some(run));
    run
}

/// Which node of which mount a shadow or working directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShadowName {
    /// Index of the mount in the run's list.
    pub mount: MountId,
    /// The node.
    pub node: Node,
}

/// As the log has it.
impl core::fmt::Display for ShadowName {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(to, "node {:x} of mount {}", self.node.0, self.mount.0)
    }
}

impl ShadowName {
    /// As file names in the run directory have it.
    pub fn text(self) -> alloc::string::String {
        format!("{:x}.{:x}", self.mount.0, self.node.0)
    }

    /// The way back.
    pub fn of_text(text: &[u8]) -> Option<Self> {
        let (mount, node) = core::str::from_utf8(text).ok()?.split_once('.')?;
        Some(Self {
            mount: MountId(u16::from_str_radix(mount, 16).ok()?),
            node: Node(u64::from_str_radix(node, 16).ok()?),
        })
    }
}

/// When what is open in `fd` (`AT_FDCWD`: the working directory) was made, where its file system
/// knows.
fn birth(fd: i32) -> Option<alloc::string::String> {
    let fd = BorrowedFd::number(fd);
    let found = fs::statx(fd, c"", AtFlags::EMPTY_PATH, STATX_BTIME).ok()?;
    let born = found.stx_btime;
    (found.stx_mask & STATX_BTIME != 0).then(|| format!("{:x}.{:x}", born.tv_sec, born.tv_nsec))
}

impl Run {
    /// The run directory at `path`, if it is trusted ([`trust::directory`]), and a descriptor of
    /// it.
    pub fn open(path: &[u8]) -> Result<(Self, Opened), Why> {
        let opened = trust::directory(&c_string(path), trust::user())?;
        let stat = opened.stat();
        Ok((Self::at(path.to_vec(), stat.st_dev, stat.st_uid), opened))
    }

    fn at(path: Vec<u8>, device: u64, owner: u32) -> Self {
        Self {
            path,
            device,
            owner,
            lock_descriptor: AtomicI32::new(-1),
            mounts: MountTable::new(),
            specifications: Vec::new(),
            images_known: &[],
            interrupted: None,
            has_restarts: false,
            node_locks: NodeLocks::new(),
            internal: Internal::new(),
            posix_locks: PosixLocks::new(),
        }
    }

    /// The content of the `mounts` file of the run whose directory `opened` is.
    pub fn mounts(opened: &Opened) -> Result<Vec<u8>, Why> {
        let mounts = trust::file(opened, c"mounts", OFlags::empty())?;
        let size = usize::try_from(mounts.stat().st_size).unwrap_or(0);
        read_sized(mounts.number(), size).map_err(Why::Failed)
    }

    /// Where the engine keeps what it knows of programs and libraries: beside the run directories,
    /// for all runs of the user.
    pub fn site_tables(&self) -> Vec<u8> {
        let base = &self.path[..self.path.iter().rposition(|&b| b == b'/').unwrap_or(0)];
        [base, b"/sites"].concat()
    }

    /// Where the engine keeps rewritten code: beside the run directories, for all runs of the user.
    pub fn images(&self) -> Vec<u8> {
        let base = &self.path[..self.path.iter().rposition(|&b| b == b'/').unwrap_or(0)];
        [base, b"/images"].concat()
    }

    /// The path of `name` in the run directory.
    pub fn file(&self, name: &str) -> CString {
        c_string([&self.path, &b"/"[..], name.as_bytes()].concat())
    }

    /// The path of a shadow file.
    pub fn shadow(&self, name: ShadowName) -> CString {
        self.file(&format!("shadows/{}", name.text()))
    }

    /// The path of a link beside a shadow that holds the node's path below its mount.
    pub fn node_path(&self, name: ShadowName) -> CString {
        self.file(&format!("shadows/{}.path", name.text()))
    }

    /// The path of a working directory.
    pub fn working_directory(&self, name: ShadowName) -> CString {
        self.file(&format!("cwd/{}", name.text()))
    }

    /// The path of the copy of a directory.
    pub fn shown(&self, name: ShadowName) -> CString {
        self.file(&format!("shown/{}", name.text()))
    }

    fn directory_mark(&self, found: &stat) -> CString {
        self.file(&format!(
            "directories/{:x}.{:x}",
            found.st_dev, found.st_ino
        ))
    }

    /// Notes that the directory that is open in `fd` stands for the node of `name`.
    pub fn mark_directory(&self, name: ShadowName, fd: i32) -> Result<(), Errno> {
        let path = self.directory_mark(&stat_descriptor(fd)?);
        let text = match birth(fd) {
            Some(born) => format!("{}@{born}", name.text()),
            None => name.text(),
        };
        if read_link(&path).is_ok_and(|old| old == text.as_bytes()) {
            return Ok(());
        }
        self.link(&self.file("directories"), &path, &text)
    }

    /// The node that the directory `found`, which is open in `fd` (`AT_FDCWD`: the working
    /// directory), was marked as.
    fn marked_directory(&self, found: &stat, fd: i32) -> Option<ShadowName> {
        let text = read_link(&self.directory_mark(found)).ok()?;
        let text = core::str::from_utf8(&text).ok()?;
        let (name, born) = text.split_once('@').unwrap_or((text, ""));
        let now = birth(fd);
        // Another one, which got the same number.
        let other = !born.is_empty() && now.is_some_and(|now| now != born);
        ShadowName::of_text(name.as_bytes()).filter(|_| !other)
    }

    /// Notes that the directory `found`, which cannot be listed, is the working directory of a
    /// program for which the node of `name` could not be shown. The last one of each node counts.
    pub fn note_nowhere(&self, name: ShadowName, found: &stat) -> Result<(), Errno> {
        let path = self.file(&format!("nowhere/{}", name.text()));
        let text = format!("{:x}.{:x}", found.st_dev, found.st_ino);
        self.link(&self.file("nowhere"), &path, &text)
    }

    /// A symbolic link `path` in `folder`, which is made if need be, to `text`.
    fn link(&self, folder: &CStr, path: &CStr, text: &str) -> Result<(), Errno> {
        let _ = make_directory(folder);
        let _ = fs::unlink(path);
        match fs::symlink(&c_string(text), path) {
            Err(Errno::EEXIST) => Ok(()),
            made => made,
        }
    }

    /// The node that the kernel's working directory stands for, where a program that was not
    /// intercepted had it.
    pub fn shown_working_directory(&self) -> Option<ShadowName> {
        let found = stat_path(c".").ok()?;
        if let Some(name) = self.marked_directory(&found, AT_FDCWD) {
            return Some(name);
        }
        let here = format!("{:x}.{:x}", found.st_dev, found.st_ino);
        let folder = crate::files::open(&self.file("nowhere"), O_DIRECTORY, 0).ok()?;
        list(&folder).iter().find_map(|name| {
            let name = ShadowName::of_text(name)?;
            let noted = read_link(&self.file(&format!("nowhere/{}", name.text()))).ok()?;
            (noted == here.as_bytes()).then_some(name)
        })
    }

    /// The path of a FIFO that stands for one on a mount.
    pub fn fifo(&self, name: ShadowName) -> CString {
        self.file(&format!("fifos/{}", name.text()))
    }

    fn mark_of(&self, found: &stat) -> CString {
        self.file(&format!(
            "descriptors/{:x}.{:x}",
            found.st_dev, found.st_ino
        ))
    }

    /// Tells all processes of the run that descriptors on the file `found` may belong to `mount`.
    pub fn mark(&self, mount: MountId, found: &stat) -> Result<(), Errno> {
        let (path, number) = (self.mark_of(found), c_string(format!("{:x}", mount.0)));
        let link = || fs::symlink(&number, &path);
        let made = match link() {
            Err(Errno::ENOENT) => {
                let _ = make_directory(&self.file("descriptors"));
                link()
            }
            made => made,
        };
        match made {
            Err(Errno::EEXIST) => Ok(()),
            made => made,
        }
    }

    /// The mount that a descriptor on the regular file `found` may belong to.
    pub fn marked(&self, found: &stat) -> Option<MountId> {
        if found.st_mode & 0o170000 != 0o100000 {
            return None;
        }
        let number = read_link(&self.mark_of(found)).ok()?;
        let number = u16::from_str_radix(core::str::from_utf8(&number).ok()?, 16);
        number.ok().map(MountId)
    }

    /// Which node the descriptor `fd`, of which the kernel says `found`, stands for, if it is of a
    /// shadow or a working directory.
    ///
    /// A path alone says nothing: another user's descriptor of a file of his, or of one that he may
    /// only name, has any path that he likes, made in a mount namespace of his own, where it is
    /// bound there. So it must be what is found at that path from here; or, where nothing is found
    /// because the shadow has lost its name or this process its way to it, be open for more than
    /// its path, and of a mode that lets only the run's user open it so.
    pub fn name_of(&self, fd: i32, found: &stat) -> Option<ShadowName> {
        const DELETED: &[u8] = b" (deleted)";
        if found.st_dev != self.device {
            return None;
        }
        let path = descriptor_path(fd).ok()?;
        let name = self.parse(&path)?;
        let there = match path.ends_with(DELETED) {
            true => Err(Errno::ENOENT),
            false => stat_path(&c_string(&path[..])),
        };
        let is_it = match there {
            Ok(there) => (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino),
            Err(_) => self.is_of_its_user(fd, found),
        };
        is_it.then_some(name)
    }

    /// Whether only the run's user can have opened `fd`: its owner and mode say so.
    fn is_of_its_user(&self, fd: i32, found: &stat) -> bool {
        /// What a mode must not give: of the group's rights only the first is a mark of ours
        /// (culvert-cache, state.rs: `FOLLOWS`).
        const OTHERS: u32 = 0o037;
        let opened = kernel_flags(fd).is_ok_and(|flags| flags & O_PATH == 0);
        // In a user namespace it has another number: that of the lock, which is the same user's.
        let lock = self.lock_descriptor.load(Relaxed);
        let owner = stat_descriptor(lock).map_or(self.owner, |lock| lock.st_uid);
        opened && found.st_uid == owner && found.st_mode & OTHERS == 0
    }

    /// Which node the path `path` (of a shadow or working directory, of this run or of one that it
    /// is nested in) stands for.
    pub fn parse(&self, path: &[u8]) -> Option<ShadowName> {
        let base = &self.path[..self.path.iter().rposition(|&b| b == b'/')? + 1];
        let rest = path.strip_prefix(base)?;
        let mut parts = rest.split(|&b| b == b'/');
        let (_id, folder, name) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || (folder != b"shadows" && folder != b"cwd") {
            return None;
        }
        ShadowName::of_text(name.strip_suffix(b" (deleted)").unwrap_or(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        Run::at(b"/dev/shm/culvert-0/abc".to_vec(), 1, 0)
    }

    #[test]
    fn shadow_names_survive_the_way_through_proc() {
        let name = ShadowName {
            mount: MountId(3),
            node: Node(0xdead_beef),
        };
        for path in [run().shadow(name), run().working_directory(name)] {
            assert_eq!(run().parse(path.to_bytes()), Some(name));
        }
        assert_eq!(
            run().parse(b"/dev/shm/culvert-0/outer/shadows/0.5"),
            Some(ShadowName {
                mount: MountId(0),
                node: Node(5)
            })
        );
    }

    #[test]
    fn a_mark_is_of_the_directory_that_was_there_then() {
        use std::os::fd::AsRawFd;
        let path = std::env::temp_dir().join(format!("culvert-marks-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let opened = std::fs::File::open(&path).unwrap();
        let run = Run::at(path.as_os_str().as_encoded_bytes().to_vec(), 1, 0);
        let name = ShadowName {
            mount: MountId(3),
            node: Node(0xbeef),
        };
        let fd = opened.as_raw_fd();
        let found = stat_descriptor(fd).unwrap();
        assert_eq!(run.marked_directory(&found, fd), None);
        run.mark_directory(name, fd).unwrap();
        assert_eq!(run.marked_directory(&found, fd), Some(name));
        // Where the file system does not know when it was made, the number alone counts.
        let mark = run.directory_mark(&found);
        for (born, counts) in [("", true), ("@1.0", birth(fd).is_none())] {
            run.link(
                &run.file("directories"),
                &mark,
                &format!("{}{born}", name.text()),
            )
            .unwrap();
            assert_eq!(run.marked_directory(&found, fd), counts.then_some(name));
        }
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn other_paths_are_no_shadows() {
        for path in [
            &b"/dev/shm/culvert-0/abc/lock"[..],
            b"/dev/shm/culvert-1/abc/shadows/0.5",
            b"/dev/shm/x",
            b"/dev/shm/culvert-0/abc/shadows/0.5/x",
            b"/dev/shm/culvert-0/abc/shadows/zz",
        ] {
            assert_eq!(run().parse(path), None);
        }
    }
}

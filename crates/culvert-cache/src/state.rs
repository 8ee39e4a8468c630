//! What a shadow holds of its file, and how its inode says so: nobody else reads or writes the bits
//! of its mode, or its times.
//!
//! The inode says it and no table beside it, because it is what everybody has who has the shadow:
//! below another root, as another user, by a descriptor that was inherited, and when its process
//! was killed. It costs no call, for who asks has just opened the shadow and looks at it anyway.
//! The run directory is the user's alone, so no bit lets anybody in.

use culvert::{Attributes, Errno, Timespec};
use culvert_run::{files::times, stat_descriptor, task};
use culvert_sys::flags::AtFlags;
use culvert_sys::raw::general::stat;
use culvert_sys::{BorrowedFd, fs};

/// It has all bytes of its file.
const FILLED: u32 = 0o1000;
/// Who changes the file changes it too.
const FOLLOWS: u32 = 0o040;
/// Its holes are bytes that nobody has read yet.
const PARTLY: u32 = 0o020;
/// It is the file.
const ORPHAN: u32 = 0o004;
/// The kernel may execute it. Whether the program may is not its matter.
const EXECUTABLE: u32 = 0o100;
const READ_WRITE: u32 = 0o600;
const REGULAR: u32 = 0o100_000;

/// What a shadow holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing that counts: reads go to the driver.
    Empty,
    /// What is no hole.
    Partly {
        /// Who changes the file changes the shadow too (follow.rs).
        follows: bool,
    },
    /// All bytes.
    Filled {
        /// As above.
        follows: bool,
    },
    /// All bytes, which no driver has any more: it is the file (orphan_file/).
    Orphan,
}

impl State {
    /// That of a shadow with this `struct stat`.
    pub fn of(found: &stat) -> Self {
        let has = |bit| found.st_mode & bit != 0;
        let follows = has(FOLLOWS);
        match () {
            () if has(ORPHAN) => Self::Orphan,
            () if has(PARTLY) => Self::Partly { follows },
            () if has(FILLED) => Self::Filled { follows },
            () => Self::Empty,
        }
    }

    /// Whether no byte of the file is missing.
    pub fn has_all(self) -> bool {
        matches!(self, Self::Filled { .. } | Self::Orphan)
    }

    /// Whether bytes may be missing that it promises.
    pub fn is_partly(self) -> bool {
        matches!(self, Self::Partly { .. })
    }

    /// Whether who changes the file changes it too.
    pub fn follows(self) -> bool {
        matches!(
            self,
            Self::Partly { follows: true } | Self::Filled { follows: true }
        )
    }

    /// What becomes of what: an orphan stays one, for it has the only copy of the file; what
    /// follows goes on as long as it holds anything, for it may be mapped; what is filled gets no
    /// holes that mean something.
    fn may_become(self, next: Self) -> bool {
        match (self, next) {
            (Self::Orphan, _) | (Self::Filled { .. }, Self::Partly { .. }) => false,
            (_, Self::Empty | Self::Orphan) => true,
            _ => next.follows() || !self.follows(),
        }
    }

    fn bits(self) -> u32 {
        let following = |follows| if follows { FOLLOWS } else { 0 };
        match self {
            Self::Empty => 0,
            Self::Partly { follows } => PARTLY | following(follows),
            Self::Filled { follows } => FILLED | following(follows),
            Self::Orphan => FILLED | ORPHAN,
        }
    }
}

/// Whether a regular file of the run directory's file system with this `struct stat` may be an
/// orphan, and nobody but the run's user can have made it: its record tells.
pub fn is_orphan(found: &stat) -> bool {
    const OTHERS: u32 = 0o077;
    found.st_mode & (REGULAR | FILLED | OTHERS) == REGULAR | State::Orphan.bits()
}

/// Whether nothing was ever written to it.
pub fn is_fresh(found: &stat) -> bool {
    State::of(found) == State::Empty && found.st_size == 0
}

/// Makes the shadow in `fd`, of which the caller has `found` this under its node's lock, one of the
/// state `next`; `file`: what its file is like. EIO: it is one already that cannot become that.
pub fn set(fd: i32, found: &stat, next: State, file: &Attributes) -> Result<(), Errno> {
    let executable = match file.permissions & 0o111 {
        0 => 0,
        _ => EXECUTABLE,
    };
    set_mode(fd, found, next, executable)
}

/// The same of one that was partly filled, and has no holes any more.
pub fn set_complete(fd: i32, found: &stat) -> Result<(), Errno> {
    let follows = State::of(found).follows();
    set_mode(
        fd,
        found,
        State::Filled { follows },
        found.st_mode & EXECUTABLE,
    )
}

/// The same of one that nobody else has: it is empty.
pub fn set_empty(fd: i32, found: &stat) -> Result<(), Errno> {
    set_mode(fd, found, State::Empty, 0)
}

fn set_mode(fd: i32, found: &stat, next: State, executable: u32) -> Result<(), Errno> {
    let now = State::of(found);
    if !now.may_become(next) {
        culvert_sys::log!("a shadow that is {now:?} cannot become {next:?}");
        return Err(Errno::EIO);
    }
    change_mode(fd, READ_WRITE | next.bits() | executable)
}

fn change_mode(fd: i32, mode: u32) -> Result<(), Errno> {
    fs::fchmod(BorrowedFd::number(fd), mode)
}

/// Lets the kernel execute the shadow in `fd`: it may have been filled when its file was not
/// executable yet, or was another one with the same number. `lock` gives its node's lock.
pub fn make_executable<L>(fd: i32, lock: impl FnOnce() -> L) -> Result<(), Errno> {
    if stat_descriptor(fd)?.st_mode & EXECUTABLE != 0 {
        return Ok(());
    }
    // The mode is read and written: others do that under the lock, too.
    let _lock = lock();
    change_mode(fd, stat_descriptor(fd)?.st_mode & 0o7777 | EXECUTABLE)
}

/// Its time of change is now. Under the node's lock.
pub fn touch(fd: i32) -> Result<(), Errno> {
    let found = stat_descriptor(fd)?;
    match change_mode(fd, found.st_mode & 0o7777) {
        // Another user by now (setuid(2)), who may still write it: its time of modification is now,
        // too, so that who looks next compares it.
        Err(Errno::EPERM) => task::limits::set_length(fd, found.st_size as u64),
        touched => touched,
    }
}

/// Gives the shadow in `fd` the times of a file with these attributes.
pub fn set_times(fd: i32, file: &Attributes) {
    let _ = set_both_times(fd, file.atime, file.mtime);
}

/// Gives it those back that it had.
pub fn keep_times(fd: i32, found: &stat) {
    let _ = set_both_times(fd, accessed(found), modified(found));
}

/// Says that nobody else has written the shadow in `fd` since it became equal to a file with these
/// attributes. Who compares the bytes asks for them before, so that what somebody outside of the
/// run changes meanwhile is seen the next time.
pub fn set_equal(fd: i32, file: &Attributes) -> Result<(), Errno> {
    set_both_times(fd, of_equal(file.mtime), file.mtime)
}

/// Whether somebody else may have written to a shadow that has all bytes since [`set_equal`].
pub fn is_written(found: &stat) -> bool {
    State::of(found).has_all() && accessed(found) != of_equal(modified(found))
}

/// The time of access by which [`set_equal`] says that: not the time of modification itself, which
/// is what the kernel sets when one who has just written it reads it (`relatime_need_update`,
/// fs/inode.c).
fn of_equal(modified: Timespec) -> Timespec {
    Timespec {
        nanoseconds: modified.nanoseconds ^ 1,
        ..modified
    }
}

/// Whether a shadow that was made equal has the bytes of a file with these attributes, also those
/// that were changed by somebody outside of the run: that was more than a second after the file's
/// last change.
pub fn is_equal(found: &stat, file: &Attributes) -> bool {
    file.size == found.st_size as u64
        && file.mtime == modified(found)
        && file.ctime.seconds + 1 < changed(found).seconds
}

fn accessed(found: &stat) -> Timespec {
    time(found.st_atime as i64, found.st_atime_nsec as u32)
}

fn modified(found: &stat) -> Timespec {
    time(found.st_mtime as i64, found.st_mtime_nsec as u32)
}

/// When the inode was changed last.
pub fn changed(found: &stat) -> Timespec {
    time(found.st_ctime as i64, found.st_ctime_nsec as u32)
}

fn time(seconds: i64, nanoseconds: u32) -> Timespec {
    Timespec {
        seconds,
        nanoseconds,
    }
}

fn set_both_times(fd: i32, accessed: Timespec, modified: Timespec) -> Result<(), Errno> {
    let times = times([accessed, modified].map(|it| (it.seconds, it.nanoseconds)));
    fs::utimensat(BorrowedFd::number(fd), None, Some(&times), AtFlags::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [State; 6] = [
        State::Empty,
        State::Partly { follows: false },
        State::Partly { follows: true },
        State::Filled { follows: false },
        State::Filled { follows: true },
        State::Orphan,
    ];

    fn found(mode: u32) -> stat {
        // SAFETY: plain data.
        let mut found: stat = unsafe { core::mem::zeroed() };
        found.st_mode = mode;
        found
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        for state in ALL {
            for executable in [0, EXECUTABLE] {
                let mode = REGULAR | READ_WRITE | state.bits() | executable;
                assert_eq!(State::of(&found(mode)), state);
                assert_eq!(is_orphan(&found(mode)), state == State::Orphan);
            }
        }
    }

    /// A row for each state, in the order of [`ALL`]: what it may become.
    #[test]
    fn what_was_promised_of_a_shadow_stays_true() {
        const MAY: [&str; 6] = ["yyyyyy", "yyyyyy", "y.y.yy", "y..yyy", "y...yy", "......"];
        for (from, row) in ALL.into_iter().zip(MAY) {
            let may = ALL.map(|to| if from.may_become(to) { 'y' } else { '.' });
            assert_eq!(may.iter().collect::<std::string::String>(), row, "{from:?}");
        }
    }

    #[test]
    fn nobody_elses_file_is_an_orphan() {
        for mode in [0o1644, 0o1604, 0o0604, 0o1606, 0o1600] {
            assert_eq!(is_orphan(&found(REGULAR | mode)), mode == 0o1604);
        }
        assert!(!is_orphan(&found(0o040_000 | 0o1604)));
    }

    #[test]
    fn who_reads_what_he_has_just_written_is_seen() {
        let mut written = found(REGULAR | READ_WRITE | FILLED | FOLLOWS);
        (written.st_mtime, written.st_mtime_nsec) = (7, 8);
        (written.st_atime, written.st_atime_nsec) = (7, 8);
        assert!(is_written(&written));
        let equal = of_equal(modified(&written));
        written.st_atime_nsec = equal.nanoseconds.into();
        assert!(!is_written(&written));
    }
}

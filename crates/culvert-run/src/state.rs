//! What a process looks up when it joins its run, in one file: `lock`, which each process of the
//! run has inherited open. So a join opens nothing but the run directory, which it looks at as
//! always ([`Run::open`]), and reads that descriptor.
//!
//! The file is believed if it is of the directory's owner, nobody else may open it, it still has
//! its one name, and it names that directory. Where anything differs (another version's, another
//! user's, what a program has opened under that number) the file `mounts` says what is mounted.

use crate::Run;
use alloc::{vec, vec::Vec};
use culvert_sys::plain::{Packed, Plain};
use culvert_sys::trust::{self, Opened};
use culvert_sys::{BorrowedFd, Errno, fs};

/// Changes with what the file says.
const MAGIC: [u8; 8] = *b"culvrun2";
/// More than mounts ever take.
const LARGEST: usize = 1 << 20;

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State<'a> {
    /// Device and inode of the run directory.
    pub directory: (u64, u64),
    /// The path of the command.
    pub command: &'a [u8],
    /// The mounts, [`culvert::mount::encode`].
    pub mounts: &'a [u8],
    /// What is known of files that many programs map ([`culvert_intercept::images::Excerpt`]), or
    /// nothing.
    pub images: &'a [u8],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    magic: [u8; 8],
    directory: [u64; 2],
    /// Bytes of command, mounts and images, which follow.
    lengths: [u64; 3],
}

// SAFETY: words and bytes.
unsafe impl Plain for Header {}
// SAFETY: eight bytes and words, and nothing between them.
unsafe impl Packed for Header {}

impl<'a> State<'a> {
    /// As it is written.
    pub fn encode(&self) -> Vec<u8> {
        let parts = [self.command, self.mounts, self.images];
        let header = Header {
            magic: MAGIC,
            directory: self.directory.into(),
            lengths: parts.map(|part| part.len() as u64),
        };
        [header.bytes(), &parts.concat()].concat()
    }

    /// Reads it; nothing that another version has written.
    pub fn decode(content: &'a [u8]) -> Option<Self> {
        let mut header = Header::zeroed();
        let (first, mut rest) = content.split_at_checked(size_of::<Header>())?;
        header.bytes_mut().copy_from_slice(first);
        let mut next = |length: u64| {
            let (part, behind) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            rest = behind;
            Some(part)
        };
        let [command, mounts, images] = header.lengths;
        let state = Self {
            directory: header.directory.into(),
            command: next(command)?,
            mounts: next(mounts)?,
            images: next(images)?,
        };
        (header.magic == MAGIC && rest.is_empty()).then_some(state)
    }

    /// Whether `content`, which is not read, is so for a moment only: while the run gets a further
    /// mount the first byte is another, and the size that was told may be the one of before.
    pub fn is_changing(content: &[u8]) -> bool {
        content.get(1..MAGIC.len()) == Some(&MAGIC[1..])
    }
}

/// All of the file that is open in `fd`, whose offset stays, and which has `size` bytes.
pub fn read(fd: i32, size: usize) -> Result<Vec<u8>, Errno> {
    if size > LARGEST {
        return Err(Errno::EFBIG);
    }
    let mut content = vec![0; size];
    let mut length = 0;
    while let Some(rest) = content.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match fs::pread(BorrowedFd::number(fd), rest, length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    content.truncate(length);
    Ok(content)
}

impl Run {
    /// What the state says that is open in `lock`, an inherited descriptor, if it is that of the
    /// run directory that is open in `opened`. None: what is mounted is to be found in that.
    pub(crate) fn inherited(opened: &Opened, lock: i32) -> Option<Vec<u8>> {
        if lock < 0 {
            return None;
        }
        let found = trust::kept(lock).ok()?;
        let directory = opened.stat();
        let is_its_own = found.st_uid == directory.st_uid && found.st_dev == directory.st_dev;
        if !is_its_own || found.st_mode & 0o077 != 0 || found.st_nlink != 1 {
            return None;
        }
        let content = read(lock, usize::try_from(found.st_size).ok()?).ok()?;
        let is_of_it = State::decode(&content)?.directory == (directory.st_dev, directory.st_ino);
        is_of_it.then_some(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::c_string;
    use std::format;
    use std::fs::{self as files, Permissions};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    const STATE: State<'static> = State {
        directory: (1, 2),
        command: b"/usr/bin/culvert-full",
        mounts: b"mounts",
        images: b"",
    };

    #[test]
    fn a_state_is_read_as_it_was_written_or_not_at_all() {
        let written = STATE.encode();
        assert_eq!(State::decode(&written), Some(STATE));
        for length in 0..written.len() {
            assert_eq!(State::decode(&written[..length]), None, "{length}");
        }
        assert_eq!(State::decode(&[&written[..], b"x"].concat()), None);
        let mut other = written;
        other[7] += 1;
        assert_eq!(State::decode(&other), None, "of another version");
        assert!(!State::is_changing(&other) && !State::is_changing(b"c"));
        let mut changing = STATE.encode();
        changing[0] = 0;
        assert_eq!(State::decode(&changing), None);
        assert!(State::is_changing(&changing) && State::is_changing(&STATE.encode()[..9]));
    }

    struct Place(PathBuf);

    impl Place {
        fn new() -> Self {
            let place = std::env::temp_dir().join(format!("culvert-state-{}", std::process::id()));
            let _ = files::remove_dir_all(&place);
            files::DirBuilder::new().mode(0o700).create(&place).unwrap();
            Self(place)
        }

        /// Writes the state of the directory `of` into the file.
        fn write(&self, of: &Path) {
            let found = files::metadata(of).unwrap();
            let directory = (found.dev(), found.ino());
            files::write(self.lock(), State { directory, ..STATE }.encode()).unwrap();
            self.close_to_others(0o600);
        }

        fn lock(&self) -> PathBuf {
            self.0.join("lock")
        }

        fn close_to_others(&self, mode: u32) {
            files::set_permissions(self.lock(), Permissions::from_mode(mode)).unwrap();
        }

        fn opened(&self) -> Opened {
            let path = self.0.as_os_str().as_encoded_bytes();
            trust::directory(&c_string(path), trust::user()).unwrap()
        }

        fn is_believed(&self) -> bool {
            let lock = files::File::open(self.lock()).unwrap();
            Run::inherited(&self.opened(), lock.as_raw_fd()).is_some()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = files::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_state_is_believed_that_only_its_user_can_have_written_for_this_run() {
        let place = Place::new();
        place.write(&place.0);
        assert!(place.is_believed());
        let other = place.0.join("other");
        files::create_dir(&other).unwrap();
        place.write(&other);
        assert!(!place.is_believed(), "another directory's");
        place.write(&place.0);
        place.close_to_others(0o604);
        assert!(!place.is_believed(), "others may read it");
        place.close_to_others(0o600);
        files::hard_link(place.lock(), place.0.join("again")).unwrap();
        assert!(!place.is_believed(), "it has two names");
        files::remove_file(place.0.join("again")).unwrap();
        assert!(place.is_believed());
        let lock = files::File::open(place.lock()).unwrap();
        let is_believed = |fd| Run::inherited(&place.opened(), fd).is_some();
        assert!(!is_believed(-1));
        files::write(place.lock(), b"").unwrap();
        assert!(!is_believed(lock.as_raw_fd()), "it was cut");
        place.write(&place.0);
        files::remove_file(place.lock()).unwrap();
        assert!(!is_believed(lock.as_raw_fd()), "it is gone");
    }
}

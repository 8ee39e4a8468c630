//! What a killed program had stored in mapped files and could not be written back: it is kept in
//! the directory of its run, and later runs try again.

use alloc::vec::Vec;
use core::ffi::CStr;
use culvert::mount::Mount;
use culvert_run::files::{c_string, read_sized};
use culvert_sys::fd::{AsFd, BorrowedFd, CWD};
use culvert_sys::flags::{AtFlags, OFlags};
use culvert_sys::fs::{self, Stat};
use culvert_sys::raw::general::{CLOCK_REALTIME, S_IFCHR, S_IFMT};
use culvert_sys::{Errno, process};

/// A file of the run directory: there since the first attempt that failed, and not empty once that
/// has been told.
pub const KEPT: &str = "kept";

/// How long it is kept, in seconds: a disk may come back.
pub const PATIENCE: i64 = 7 * 24 * 3600;

/// Whether the run in the directory `run` of `base` keeps what could not be written back, and
/// nothing has changed since: none of its sources is there. It is not looked at any further, for
/// each start would read all its records again.
pub fn rests(base: impl AsFd, run: &CStr) -> bool {
    let Some(kept) = kept(&base, run) else {
        return false;
    };
    // Who only sees the output of a program is not told of another one; the log says it in any
    // case.
    let is_told = kept.st_size != 0 || !may_be_terminal(BorrowedFd::number(2));
    is_told && !is_old(&kept) && sources(base, run).iter().all(|&there| !there)
}

/// Whether it could not be written back for so long that nobody will see to it.
pub fn is_given_up(base: impl AsFd, run: &CStr) -> bool {
    kept(base, run).is_some_and(|kept| is_old(&kept))
}

fn kept(base: impl AsFd, run: &CStr) -> Option<Stat> {
    let kept = c_string([run.to_bytes(), b"/", KEPT.as_bytes()].concat());
    fs::fstatat(base, &kept, AtFlags::empty()).ok()
}

fn is_old(kept: &Stat) -> bool {
    let now = process::clock_gettime(CLOCK_REALTIME);
    now.is_ok_and(|now| now.tv_sec - kept.st_mtime as i64 > PATIENCE)
}

/// Each terminal is a character device; /dev/null, the first one, tells nobody.
fn may_be_terminal(fd: BorrowedFd) -> bool {
    const NULL: u64 = (1 << 8) | 3;
    fs::fstat(fd).is_ok_and(|found| found.st_mode & S_IFMT == S_IFCHR && found.st_rdev != NULL)
}

/// Whether each source of the run is there. That of a FUSE server is where it was asked: another
/// server is asked elsewhere.
fn sources(base: impl AsFd, run: &CStr) -> Vec<bool> {
    let path = c_string([run.to_bytes(), b"/mounts"].concat());
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let content = fs::openat(base, &path, flags, 0).and_then(|file| {
        let size = fs::fstat(&file)?.st_size;
        read_sized(file.raw(), usize::try_from(size).unwrap_or(0))
    });
    let mounts = culvert::mount::decode(&content.unwrap_or_default()).unwrap_or_default();
    let there = |source: &[u8]| {
        let found = fs::fstatat(CWD, &c_string(source), AtFlags::empty());
        !matches!(found, Err(Errno::ENOENT))
    };
    let sources = mounts.iter().flat_map(Mount::leaves);
    sources
        .map(|one| there(one.option("slots").unwrap_or(&one.source)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec};
    use culvert::mount::encode;
    use std::os::unix::ffi::OsStrExt;
    use std::{fs, path::PathBuf, time};

    fn place(name: &str) -> PathBuf {
        let place = std::env::temp_dir().join(format!("culvert-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).unwrap();
        place
    }

    fn mount(source: &[u8], branches: &[Mount]) -> Mount {
        Mount {
            driver: "last".into(),
            source: source.to_vec(),
            target: b"/mnt".to_vec(),
            options: Vec::new(),
            branches: branches.to_vec(),
        }
    }

    #[test]
    fn what_is_kept_rests_until_a_source_is_there_again_or_time_is_over() {
        let directory = place("rests");
        let run = c_string(directory.as_os_str().as_bytes());
        let rests = || rests(CWD, &run);
        let source = directory.join("disk");
        let mounts = [mount(source.as_os_str().as_bytes(), &[])];
        fs::write(directory.join("mounts"), encode(&mounts)).unwrap();
        // Nobody has tried yet.
        assert!(!rests());
        fs::write(directory.join(KEPT), "x").unwrap();
        assert!(rests());
        fs::create_dir(&source).unwrap();
        assert!(!rests());
        fs::remove_dir(&source).unwrap();
        assert!(!is_given_up(CWD, &run));
        let kept = fs::File::options()
            .write(true)
            .open(directory.join(KEPT))
            .unwrap();
        let long = time::Duration::from_secs(2 * PATIENCE as u64);
        kept.set_modified(time::SystemTime::now() - long).unwrap();
        assert!(!rests());
        assert!(is_given_up(CWD, &run));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn who_is_at_a_terminal_is_told() {
        let open = |path: &CStr| fs_open(path);
        assert!(!may_be_terminal(open(c"/dev/null").as_fd()));
        assert!(may_be_terminal(open(c"/dev/ptmx").as_fd()));
        assert!(!may_be_terminal(open(c"/proc/self/stat").as_fd()));
    }

    fn fs_open(path: &CStr) -> culvert_sys::OwnedFd {
        culvert_sys::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, 0).unwrap()
    }

    #[test]
    fn each_source_of_a_mount_of_several_is_looked_for() {
        let directory = place("sources");
        let run = c_string(directory.as_os_str().as_bytes());
        let there = mount(b"/", &[]);
        let both = mount(b"/:/nowhere", &[there.clone(), mount(b"/nowhere", &[])]);
        fs::write(directory.join("mounts"), encode(&[both, there])).unwrap();
        assert_eq!(sources(CWD, &run), [true, false, true]);
        let mut server = mount(b"/", &[]);
        server.options = vec![("slots".into(), b"/nowhere".to_vec())];
        fs::write(directory.join("mounts"), encode(&[server])).unwrap();
        assert_eq!(sources(CWD, &run), [false]);
        fs::remove_dir_all(&directory).unwrap();
    }
}

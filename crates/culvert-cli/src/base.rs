//! Where run directories lie: in a *base* that belongs to their user and that nobody else can
//! enter.
//!
//! Everybody may make names in /dev/shm and /tmp, this user's among them. Who finds the usual name
//! taken by another user takes one with a random part, and finds it again by looking through the
//! names: what counts is the owner, never the name.

use crate::failure::{Failure, reason, shown};
use culvert_sys::trust::{self, Opened, Why};
use rustix::fs::{Mode, OFlags, open};
use std::{
    ffi::CString,
    fs, io,
    os::fd::AsRawFd,
    os::unix::ffi::OsStrExt,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A place where a base may lie.
struct BaseCandidate {
    parent: PathBuf,
    name: String,
    /// Everybody may make names there.
    shared: bool,
}

/// The number of user `uid` outside of the user namespace that this process is in: there all
/// ordinary users may be root, and meet each other's names (user_namespaces(7), "User and group ID
/// mappings").
fn outer(uid: u32) -> u32 {
    let map = read_short("/proc/self/uid_map").unwrap_or_default();
    let map = String::from_utf8_lossy(&map);
    let outer = map.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let mut next = || words.next()?.parse::<u32>().ok();
        let (inside, outside, length) = (next()?, next()?, next()?);
        let at = uid.checked_sub(inside).filter(|at| *at < length)?;
        outside.checked_add(at)
    });
    outer.unwrap_or(uid)
}

/// The file `path` of proc(5), most of which have no length, in as few calls as can be.
pub fn read_short(path: &str) -> io::Result<Vec<u8>> {
    use io::Read;
    let mut bytes = Vec::with_capacity(8192);
    let file = fs::File::open(path)?;
    file.take(u64::MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where bases of user `uid` may lie, best first: shared memory, so that shadows never reach a
/// disk.
fn places(uid: u32) -> Vec<BaseCandidate> {
    let mine = uid == trust::user();
    let number = if mine { outer(uid) } else { uid };
    let shared = |parent: &str| BaseCandidate {
        parent: parent.into(),
        name: format!("culvert-{number}"),
        shared: true,
    };
    let runtime = match mine {
        true => std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from),
        false => Some(format!("/run/user/{uid}").into()),
    };
    let runtime = runtime.filter(|runtime| runtime.is_absolute());
    let runtime = runtime.map(|parent| BaseCandidate {
        parent,
        name: "culvert".into(),
        shared: false,
    });
    let mut places = vec![shared("/dev/shm")];
    places.extend(runtime);
    places.push(shared("/tmp"));
    places
}

/// The bases of user `uid` that are there and trusted as that user's.
pub fn of_user(uid: u32) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for mut place in places(uid) {
        let Ok(parent) = fs::canonicalize(&place.parent) else {
            continue;
        };
        place.parent = parent;
        let usual = place.parent.join(&place.name);
        found.extend(trusted(&usual, uid).is_ok().then_some(usual));
        found.extend(others(&place, uid));
    }
    found
}

/// The base that runs use: the first that is this user's alone, one that programs may be started
/// from if there is one.
pub fn base() -> Result<PathBuf, Failure> {
    open_base().map(|(base, _)| base)
}

/// The same, open.
pub fn open_base() -> Result<(PathBuf, Opened), Failure> {
    let (mut refused, mut noexec) = (Vec::new(), None);
    for place in places(trust::user()) {
        let path = place.parent.join(&place.name);
        match usable(place) {
            Ok((base, opened, true)) => return Ok((base, opened)),
            Ok((base, opened, false)) => noexec = noexec.or(Some((base, opened))),
            Err(why) => refused.push(format!("{}: {why}", shown(&path))),
        }
    }
    noexec.ok_or_else(|| {
        Failure::new(format!(
            "no place for a run directory: {}",
            refused.join("; ")
        ))
        .advice(
            "one of them must be a directory of yours with mode 0700, on a file system with space",
        )
    })
}

/// The directory `path`, open, if it is trusted as one of user `uid`.
pub fn trusted(path: &Path, uid: u32) -> Result<Opened, Why> {
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Why::Failed(culvert_sys::Errno::EINVAL))?;
    trust::directory(&path, uid)
}

/// The base in `place`, made if need be; true when programs may be started from it.
fn usable(mut place: BaseCandidate) -> Result<(PathBuf, Opened, bool), String> {
    let failed = |error: io::Error| reason(&error);
    place.parent = fs::canonicalize(&place.parent).map_err(failed)?;
    // CULVERT_RUN is a list separated by colons.
    if place.parent.as_os_str().as_bytes().contains(&b':') {
        return Err("its name has a colon".into());
    }
    if !place.shared {
        is_safe(&place.parent)?;
    }
    let (base, opened) = find(&place)?;
    let system = rustix::fs::fstatvfs(borrowed(&opened)).map_err(|error| reason(&error.into()))?;
    let flags = system.f_flag;
    if flags.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        return Err("on a read-only file system".into());
    }
    let starts = !flags.contains(rustix::fs::StatVfsMountFlags::NOEXEC);
    Ok((base, opened, starts))
}

/// It, for std and rustix.
pub fn borrowed(opened: &Opened) -> std::os::fd::BorrowedFd<'_> {
    // SAFETY: it is open as long as `opened` lives.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(opened.number()) }
}

/// The base in `place`: the usual name, or one with a random part where somebody else has that.
fn find(place: &BaseCandidate) -> Result<(PathBuf, Opened), String> {
    let uid = trust::user();
    let usual = place.parent.join(&place.name);
    let why = match trusted(&usual, uid) {
        Ok(opened) => return Ok((usual, opened)),
        Err(why) => why,
    };
    // What is ours, but open to others, is for its owner to see to.
    let missing = why == Why::Failed(culvert_sys::Errno::ENOENT);
    let taken = matches!(why, Why::Link | Why::Kind | Why::Owner(..));
    if !(missing || taken && place.shared) {
        return Err(why.to_string());
    }
    if place.shared
        && let Some(other) = others(place, uid).into_iter().next()
    {
        let opened = trusted(&other, uid).map_err(|why| why.to_string())?;
        return Ok((other, opened));
    }
    let name = match missing {
        true => place.name.clone(),
        false => format!(
            "{}.{}",
            place.name,
            crate::identifier::identifier().map_err(|failure| failure.to_string())?
        ),
    };
    let parent = open(
        &place.parent,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .map_err(|error| reason(&error.into()))?;
    let c_name = CString::new(name.as_str()).map_err(|error| error.to_string())?;
    let made = trust::make_directory(parent.as_raw_fd(), &c_name);
    made.map(|opened| (place.parent.join(name), opened))
        .map_err(|why| match why {
            Why::Failed(errno) => reason(&io::Error::from_raw_os_error(errno.raw())),
            why => why.to_string(),
        })
}

/// Bases of user `uid` in `place` whose names have a random part, in a fixed order.
fn others(place: &BaseCandidate, uid: u32) -> Vec<PathBuf> {
    if !place.shared {
        return Vec::new();
    }
    let entries = fs::read_dir(&place.parent).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let rest = name.as_bytes().strip_prefix(place.name.as_bytes());
            rest.and_then(|rest| rest.strip_prefix(b"."))
                .is_some_and(crate::identifier::is_identifier)
        })
        .map(|entry| entry.path())
        .filter(|path| trusted(path, uid).is_ok())
        .collect();
    found.sort();
    found
}

/// Whether nobody but this user and root can put something else in the place of `directory`, which
/// no link leads to, or of one above it.
fn is_safe(directory: &Path) -> Result<(), String> {
    let uid = trust::user();
    for one in directory.ancestors() {
        let found = fs::symlink_metadata(one).map_err(|error| reason(&error))?;
        // O_NOATIME: the kernel compares the owner, whatever number this namespace shows
        // (culvert_sys::trust).
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOATIME;
        let ours = || found.uid() == uid && open(one, flags, Mode::empty()).is_ok();
        if found.uid() != 0 && !ours() {
            return Err(format!(
                "{} belongs to user {}, not to {uid}",
                shown(one),
                found.uid()
            ));
        }
        if found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0 {
            return Err(format!(
                "{} may be written by others (mode {:04o})",
                shown(one),
                found.mode() & 0o7777
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown, symlink};

    fn place(name: &str, shared: bool) -> BaseCandidate {
        let parent =
            std::env::temp_dir().join(format!("culvert-base-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&parent);
        fs::DirBuilder::new().mode(0o700).create(&parent).unwrap();
        BaseCandidate {
            parent,
            name: "base".into(),
            shared,
        }
    }

    fn again(place: &BaseCandidate) -> BaseCandidate {
        BaseCandidate {
            parent: place.parent.clone(),
            name: place.name.clone(),
            shared: place.shared,
        }
    }

    #[test]
    fn a_base_that_others_may_enter_is_refused() {
        let place = place("mode", true);
        let (base, ..) = usable(again(&place)).unwrap();
        assert_eq!(base, place.parent.join("base"));
        assert_eq!(fs::metadata(&base).unwrap().mode() & 0o7777, 0o700);
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(usable(again(&place)).unwrap_err().contains("0755"));
        fs::remove_dir_all(&place.parent).unwrap();
    }

    /// A link, a file and, where the test may make one, another user's directory: another name is
    /// chosen, and found again.
    #[test]
    fn a_name_that_somebody_else_has_taken_is_left_to_them() {
        let root = rustix::process::geteuid().is_root();
        for taken in ["link", "file", "owner"] {
            if taken == "owner" && !root {
                continue;
            }
            let place = place(taken, true);
            let usual = place.parent.join("base");
            match taken {
                "link" => symlink("/etc", &usual).unwrap(),
                "file" => fs::write(&usual, "").unwrap(),
                _ => {
                    fs::DirBuilder::new().mode(0o700).create(&usual).unwrap();
                    chown(&usual, Some(65534), None).unwrap();
                    // Theirs, with a name like ours.
                    let other = place.parent.join("base.0000000000000000");
                    fs::DirBuilder::new().mode(0o700).create(&other).unwrap();
                    chown(&other, Some(65533), None).unwrap();
                }
            }
            let (first, ..) = usable(again(&place)).unwrap();
            assert_ne!(first, usual, "{taken}");
            assert_eq!(usable(again(&place)).unwrap().0, first, "{taken}");
            // The same where only its owner may make names.
            let alone = BaseCandidate {
                shared: false,
                ..again(&place)
            };
            assert!(usable(alone).is_err(), "{taken}");
            fs::remove_dir_all(&place.parent).unwrap();
        }
    }

    #[test]
    fn a_place_below_one_that_others_may_write_is_refused() {
        let place = place("way", false);
        assert!(usable(again(&place)).is_ok());
        fs::set_permissions(&place.parent, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(
            usable(again(&place))
                .unwrap_err()
                .contains("written by others")
        );
        fs::remove_dir_all(&place.parent).unwrap();
    }
}

//! Mounts that several runs use: one server for all runs of a user on the same mount.
//!
//! ```text
//! <base>/mounts/      0700, the user's
//!     HASH            an *entry*: the name of the mount's directory, and what the mount is.
//!                     Who joins, starts or ends it has a lock on this file
//! <base>/<id>/        the mount's directory, which is the server's run
//!     guardian        locked by the guardian as long as it is there
//!     users/ID        links to the directories of the runs that use the mount
//! ```
//!
//! Whoever finds an entry whose guardian or server is gone starts the mount anew, in another
//! directory.

use super::{
    ending::end,
    is_served,
    surroundings::{environment, hash, surroundings},
};
use crate::{
    base::{open_base, trusted},
    failure::{Failure, path, reason, shown},
    identifier::is_identifier,
    inherited::Inherited,
    logs::until_over,
    umask::OwnerRights,
};
use culvert::mount::{Mount, encode, is_library};
use culvert_run::files::c_string;
use culvert_slots::{Area, GUARD, Session, open_fifo};
use culvert_sys::flags::OFlags as Flags;
use culvert_sys::trust::{self, Opened};
use rustix::fs::{FlockOperation, flock};
use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::{self, Read, Seek, Write},
    os::unix::{ffi::OsStrExt, fs::MetadataExt, fs::symlink},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, Sender},
    },
    thread,
};

/// The directory of the entries, in a base.
pub const ENTRIES: &str = "mounts";
const GUARDIAN: &str = "guardian";
pub const USERS: &str = "users";
/// Characters of a mount directory's name.
pub const NAME: usize = 16;

/// What makes two mounts one: all that decides what their servers would show.
pub struct Identity(Vec<u8>);

impl Identity {
    /// Of the mount whose server is started by `command`. None: it has neither source nor name, so
    /// that nothing says that another one is the same.
    pub fn of(
        mount: &Mount,
        name: Option<&[u8]>,
        command: &[OsString],
        inherited: &Inherited,
    ) -> Option<Self> {
        // One without a source is named after its type.
        let nameless = mount.source.is_empty() || mount.source == mount.driver.as_bytes();
        if nameless && name.is_none() {
            return None;
        }
        let mut parts = vec![
            mount.driver.as_bytes().to_vec(),
            name.unwrap_or_default().to_vec(),
            // The command of a host of ours does not say what it serves.
            mount.source.clone(),
            encode(&mount.branches),
        ];
        parts.extend(command.iter().map(|word| word.as_bytes().to_vec()));
        // The order of options, too: servers take the last of two.
        for (name, value) in &mount.options {
            parts.push(name.clone().into_bytes());
            parts.push(value.clone());
        }
        if parts.iter().any(|part| names_something_here(part)) {
            let here = std::env::current_dir();
            parts.extend(here.map(|here| here.into_os_string().into_encoded_bytes()));
        }
        // Drivers of ours go by nothing of it.
        if is_served(&mount.driver) || is_library(&mount.driver) {
            let environment = environment(std::env::vars_os(), &parts);
            parts.push(environment.to_le_bytes().to_vec());
        }
        parts.push(encode(&inherited.mounts));
        parts.push(surroundings());
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(&part);
        }
        Some(Self(bytes))
    }

    /// The entry's name.
    fn hash(&self) -> String {
        format!("{:016x}", hash(&self.0))
    }
}

/// Whether a word of `text` is a path from the working directory.
fn names_something_here(text: &[u8]) -> bool {
    let words = text.split(|byte| b" \t\n\"'=:,".contains(byte));
    words
        .filter(|word| !word.is_empty() && !word.starts_with(b"/"))
        .chain([text].into_iter().filter(|text| !text.starts_with(b"/")))
        .any(|word| !word.is_empty() && fs::symlink_metadata(path(word)).is_ok())
}

/// The entry of a mount, locked as long as this lives.
pub struct Entry {
    file: File,
    /// Its path, for the guardian.
    pub path: PathBuf,
    base: PathBuf,
}

impl Entry {
    /// The entry of the mount that `identity` says; waits for who starts or ends it.
    pub fn of(identity: &Identity) -> Result<Self, Failure> {
        let (base, gate) = open_base()?;
        let _rights = OwnerRights::new();
        let folder = base.join(ENTRIES);
        let made = trust::make_directory(gate.number(), &c_string(ENTRIES));
        let opened = made.map_err(|why| {
            Failure::new(format!("{} cannot be used: {why}", shown(&folder)))
                .advice("the mounts that several runs use are noted there")
        })?;
        Self::locked(&opened, base, &folder.join(identity.hash()), true)
    }

    /// The entry at `path`, if it is there still.
    pub fn at(path: &Path) -> Option<Self> {
        let folder = path.parent()?;
        let opened = trusted(folder, trust::user()).ok()?;
        Self::locked(&opened, folder.parent()?.into(), path, false).ok()
    }

    fn locked(folder: &Opened, base: PathBuf, at: &Path, make: bool) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::new(format!("{} cannot be used: {}", shown(at), reason(&error)))
        };
        let name = c_string(at.file_name().unwrap_or_default().as_bytes());
        loop {
            if make {
                let flags = Flags::RDWR | Flags::CREAT | Flags::NOFOLLOW | Flags::CLOEXEC;
                let flags = flags | Flags::NONBLOCK;
                let _ = culvert_sys::fs::openat(folder, &name, flags, 0o600);
            }
            let file = match trust::file(folder, &name, Flags::RDWR) {
                // Its end came in between.
                Err(trust::Why::Failed(culvert_sys::Errno::ENOENT)) if make => continue,
                Err(why) => return Err(failed(io::Error::other(why.to_string()))),
                Ok(file) => File::from(crate::run_directory::owned(file)),
            };
            match flock(&file, FlockOperation::LockExclusive) {
                Err(rustix::io::Errno::INTR) => continue,
                locked => locked.map_err(|errno| failed(errno.into()))?,
            }
            let own = file.metadata().map_err(failed)?;
            // Who has ended the mount meanwhile has removed it.
            let is_there =
                |found: fs::Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
            if fs::symlink_metadata(at).is_ok_and(is_there) {
                let path = at.into();
                return Ok(Self { file, path, base });
            }
            if !make {
                return Err(failed(io::ErrorKind::NotFound.into()));
            }
        }
    }

    /// The directory that it names, and the identity of the mount.
    fn content(&self) -> Option<(PathBuf, Vec<u8>)> {
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.rewind().ok()?;
        file.read_to_end(&mut bytes).ok()?;
        let (name, identity) = bytes.split_at_checked(NAME)?;
        let name = OsStr::from_bytes(name);
        is_identifier(name.as_bytes()).then(|| (self.base.join(name), identity.to_vec()))
    }

    /// The directory of the mount, if it is `identity` and serves.
    pub fn serving(&self, identity: &Identity) -> Option<PathBuf> {
        let (_, of) = self.content()?;
        self.served().filter(|_| of == identity.0)
    }

    /// The directory of the mount, if it serves.
    pub fn served(&self) -> Option<PathBuf> {
        let (directory, _) = self.content()?;
        let opened = trusted(&directory, trust::user()).ok()?;
        (is_guarded(&opened) && serves(&opened)).then_some(directory)
    }

    /// Whether it names `directory`.
    pub fn names(&self, directory: &Path) -> bool {
        self.content().is_some_and(|(named, _)| named == directory)
    }

    /// Ends the server of the mount, if its guardian was killed: of two, one would not know what
    /// the other writes.
    pub fn end_abandoned(&self, identity: &Identity) -> Result<(), Failure> {
        let server = self.content().and_then(|(directory, of)| {
            let opened = trusted(&directory, trust::user()).ok()?;
            let is_abandoned = of == identity.0 && !is_guarded(&opened);
            let area = is_abandoned.then(|| Area::open(&opened).ok())??;
            Some((area.server(), area.open_server()?))
        });
        match server {
            Some((number, server)) if !end(&server) => Err(Failure::new(format!(
                "process {number}, which serves the mount already, does not end"
            ))
            .advice("its guardian was killed; end it, so that another may be started")),
            _ => Ok(()),
        }
    }

    /// The mount is served from `directory` from here on.
    pub fn put(&self, directory: &Path, identity: &Identity) -> io::Result<()> {
        let name = directory.file_name().unwrap_or_default();
        let mut file = &self.file;
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&[name.as_bytes(), &identity.0].concat())
    }

    /// The same for a mount that was served from `old`, if it still is.
    pub fn move_on(&self, old: &Path, directory: &Path) -> io::Result<()> {
        match self.content() {
            Some((named, identity)) if named == old => self.put(directory, &Identity(identity)),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// The mount that is served from `directory` ends.
    fn forget(&self, directory: &Path) {
        // It may have been started anew since.
        if self.content().is_none_or(|(named, _)| named == directory) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether the mount whose directory is open has its guardian.
pub fn is_guarded(directory: &Opened) -> bool {
    let Ok(lock) = trust::file(directory, &c_string(GUARDIAN), Flags::RDWR) else {
        return false;
    };
    let lock = File::from(crate::run_directory::owned(lock));
    flock(&lock, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
}

/// Whether it has its server.
fn serves(directory: &Opened) -> bool {
    Area::open(directory)
        .is_ok_and(|area| area.session() == Session::Ready && area.open_server().is_some())
}

/// This process is the guardian of the mount in `directory` as long as what is returned is open.
pub fn guards(directory: &Path) -> io::Result<File> {
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true);
    let lock = options.open(directory.join(GUARDIAN))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
    Ok(lock)
}

/// The run in directory `run` uses the mount in `directory`, whose end waits for its own. The
/// guardian hears of it.
pub fn uses(directory: &Path, run: &Path) -> io::Result<()> {
    let users = directory.join(USERS);
    match fs::create_dir(&users) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    match symlink(run, users.join(run.file_name().unwrap_or_default())) {
        // By another mount of the run.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    // Where there is no guardian yet, it looks when it begins.
    if let Ok(opened) = trusted(directory, trust::user())
        && let Ok(guard) = open_fifo(&opened, GUARD)
    {
        let _ = culvert_sys::fs::write(&guard, &JOINED.to_ne_bytes());
    }
    Ok(())
}

/// The run in directory `run` was started in one that has `mount`: the server does not end before
/// it, and where it is started again this run hears of that, too.
pub fn inherits(mount: &Mount, run: &Path) {
    if mount.driver == culvert_drivers::fuse::NAME
        && let Some(slots) = mount.option("slots")
    {
        // A server that was started again has left its directory; one may be another user's.
        let _ = uses(path(slots), run);
    }
}

/// What a run that joins writes to the guardian, where a program writes its identity.
pub const JOINED: u64 = 0;

/// What happens to the runs of a mount.
#[derive(Debug)]
pub enum User {
    /// One more uses it.
    Joined,
    /// The one of this link has ended.
    Ended(PathBuf),
}

/// The directories of the runs that use the mount in `directory`.
pub fn users(directory: &Path) -> Vec<PathBuf> {
    let links = fs::read_dir(directory.join(USERS)).into_iter().flatten();
    let run = |user: fs::DirEntry| fs::read_link(user.path()).ok();
    links.flatten().filter_map(run).collect()
}

/// Returns when the mount in `directory`, of which `entry` tells, is over: when no run uses it any
/// more, each of which `ended` hears of, in a thread of its own. Nobody finds it from then on.
/// `news` says that there are others.
pub fn until_unused(
    directory: &Path,
    entry: Option<&Path>,
    (tell, news): &(Sender<User>, Receiver<User>),
    ended: &Arc<impl Fn(&Path) + Send + Sync + 'static>,
) {
    let links = || -> Vec<PathBuf> {
        let all = fs::read_dir(directory.join(USERS)).into_iter().flatten();
        all.flatten().map(|user| user.path()).collect()
    };
    let mut known = HashSet::new();
    loop {
        let now = links();
        known.retain(|user| now.contains(user));
        let mut changed = now.is_empty();
        for user in now {
            if known.contains(&user) {
                continue;
            }
            let Ok(run) = fs::read_link(&user) else {
                let _ = fs::remove_file(&user);
                changed = true;
                continue;
            };
            let (at, gone, see) = (user.clone(), user.clone(), ended.clone());
            let see_to = move || {
                until_over(&run);
                see(&run);
                let _ = fs::remove_file(&at);
            };
            let (tell, waits) = (tell.clone(), see_to.clone());
            let wait = move || {
                waits();
                let _ = tell.send(User::Ended(gone));
            };
            match thread::Builder::new().spawn(wait) {
                Ok(_) => drop(known.insert(user)),
                Err(_) => {
                    see_to();
                    changed = true;
                }
            }
        }
        if !changed {
            if let Ok(User::Ended(user)) = news.recv() {
                known.remove(&user);
            }
            continue;
        }
        // A run may join as long as the entry is not locked.
        let entry = entry.and_then(Entry::at);
        if links().is_empty() {
            if let Some(entry) = entry {
                entry.forget(directory);
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn mount(source: &str, options: &[(&str, &str)]) -> Mount {
        let option = |(name, value): &(&str, &str)| (name.to_string(), value.as_bytes().to_vec());
        Mount {
            driver: "fuse.x".into(),
            source: source.into(),
            target: b"/mnt".to_vec(),
            options: options.iter().map(option).collect(),
            branches: Vec::new(),
        }
    }

    fn identity(mount: &Mount, name: Option<&[u8]>) -> Option<Vec<u8>> {
        // As of a host of ours, which does not name the source.
        let command = ["/bin/x", "run-host"].map(OsString::from);
        Identity::of(mount, name, &command, &Inherited::default()).map(|identity| identity.0)
    }

    #[test]
    fn mounts_of_the_same_type_source_and_options_are_one() {
        let one = mount("host:/data", &[("a", "b")]);
        let elsewhere = Mount {
            target: b"/other".to_vec(),
            ..one.clone()
        };
        assert_eq!(identity(&one, None), identity(&elsewhere, None));
        for other in [
            mount("host:/date", &[("a", "b")]),
            mount("host:/data", &[("a", "c")]),
            mount("host:/data", &[("ab", "")]),
            mount("host:/data", &[]),
        ] {
            assert_ne!(identity(&one, None), identity(&other, None), "{other:?}");
        }
        let branched = |source| Mount {
            branches: vec![mount(source, &[])],
            ..one.clone()
        };
        let other = branched("/two");
        assert_ne!(identity(&branched("/one"), None), identity(&other, None));
        assert_ne!(identity(&one, None), identity(&one, Some(b"name")));
        assert!(identity(&mount("", &[]), None).is_none());
        assert!(identity(&mount("", &[]), Some(b"name")).is_some());
        assert!(names_something_here(b"-o x=src") && !names_something_here(b"/etc nothing-here"));
    }

    /// An entry in a base of the test's own.
    fn entry(base: &Path) -> Entry {
        let opened = trusted(&base.join(ENTRIES), trust::user()).unwrap();
        Entry::locked(&opened, base.into(), &base.join("mounts/entry"), true).unwrap()
    }

    fn base(name: &str) -> PathBuf {
        use std::os::unix::fs::DirBuilderExt;
        let base =
            std::env::temp_dir().join(format!("culvert-shared-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        let mut made = fs::DirBuilder::new();
        made.mode(0o700).recursive(true);
        made.create(base.join(ENTRIES)).unwrap();
        made.create(base.join("0123456789abcdef")).unwrap();
        base.canonicalize().unwrap()
    }

    #[test]
    fn a_mount_without_guardian_is_not_joined() {
        let base = base("stale");
        let (place, identity) = (base.join("0123456789abcdef"), Identity(b"it".to_vec()));
        let found = entry(&base);
        assert_eq!(found.serving(&identity), None);
        let opened = trusted(&place, trust::user()).unwrap();
        Area::create(&opened).unwrap().begin(&[0; 64]);
        found.put(&place, &identity).unwrap();
        assert_eq!(found.content().unwrap(), (place.clone(), b"it".to_vec()));
        assert_eq!(found.serving(&identity), None);
        let lock = guards(&place).unwrap();
        assert!(is_guarded(&opened));
        // There was never a server.
        assert_eq!(found.serving(&identity), None);
        drop(lock);
        assert!(!is_guarded(&opened));
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn the_end_waits_for_all_users_and_leaves_what_is_started_anew() {
        let base = base("users");
        let place = base.join("0123456789abcdef");
        let run = base.join("run");
        fs::create_dir(&run).unwrap();
        let lock = File::create(run.join("lock")).unwrap();
        flock(&lock, FlockOperation::LockShared).unwrap();
        uses(&place, &run).unwrap();
        uses(&place, &run).unwrap();
        uses(&place, &base.join("gone")).unwrap();
        let at = base.join("mounts/entry");
        entry(&base).put(&place, &Identity(Vec::new())).unwrap();
        let waiting = std::thread::spawn({
            let (place, at) = (place.clone(), at.clone());
            move || {
                until_unused(
                    &place,
                    Some(&at),
                    &mpsc::channel(),
                    &Arc::new(|_: &Path| {}),
                )
            }
        });
        // The first to hold the entry keeps the end waiting, and may join.
        let held = entry(&base);
        drop(lock);
        while fs::read_dir(place.join(USERS)).unwrap().next().is_some() {
            std::thread::yield_now();
        }
        let again = File::create(run.join("lock")).unwrap();
        flock(&again, FlockOperation::LockShared).unwrap();
        uses(&place, &run).unwrap();
        drop(held);
        assert!(!waiting.is_finished() && at.exists());
        drop(again);
        waiting.join().unwrap();
        assert!(!at.exists());
        let other = entry(&base);
        other
            .put(&base.join("fedcba9876543210"), &Identity(Vec::new()))
            .unwrap();
        drop(other);
        until_unused(
            &place,
            Some(&at),
            &mpsc::channel(),
            &Arc::new(|_: &Path| {}),
        );
        assert!(at.exists());
        fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn what_is_no_entry_of_ours_is_refused() {
        let base = base("foreign");
        let opened = trusted(&base.join(ENTRIES), trust::user()).unwrap();
        let at = base.join("mounts/entry");
        let tried = || Entry::locked(&opened, base.clone(), &at, true).map(|_| ());
        symlink("/etc/passwd", &at).unwrap();
        assert!(tried().is_err());
        fs::remove_file(&at).unwrap();
        fs::create_dir(&at).unwrap();
        assert!(tried().is_err());
        fs::remove_dir(&at).unwrap();
        if rustix::process::geteuid().is_root() {
            fs::write(&at, "0123456789abcdef").unwrap();
            std::os::unix::fs::chown(&at, Some(65534), None).unwrap();
            assert!(tried().is_err());
            // A directory of somebody else.
            fs::remove_file(&at).unwrap();
            let (place, identity) = (base.join("0123456789abcdef"), Identity(Vec::new()));
            let found = entry(&base);
            found.put(&place, &identity).unwrap();
            std::os::unix::fs::chown(&place, Some(65534), None).unwrap();
            assert_eq!(found.serving(&identity), None);
        }
        fs::remove_dir_all(&base).unwrap();
    }
}

//! Starting a server again that has died (option `restart`).
//!
//! The new one has a mount directory and a guardian of its own, so nothing of the old session can
//! be taken for the new one's: neither slots nor what is remembered, nodes or handles. The runs get
//! a further mount at the same target, behind those that they have: a program that starts from then
//! on sees that one, and what it inherits (open files, the working directory, cache files) is still
//! the dead one's, by the number of its mount.

use super::{
    GUARDIAN,
    shared::{self, Entry},
    start::{Job, Restarts},
    watching::keep_limit,
};
use crate::{
    failure::{reason, shown},
    own_path::own_path,
    run_directory::{self, RunDirectory},
};
use culvert::mount::{Mount, decode, encode};
use culvert_preload::fuse_server::TARGET;
use culvert_run::{files::c_string, state::State};
use culvert_slots::{Area, Session};
use culvert_sys::{OwnedFd, trust};
use rustix::fs::{FlockOperation, flock};
use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    io::{self, Read},
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    },
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// The file of a run that says what is mounted where.
const MOUNTS: &str = "mounts";
/// The file that says the same to who has inherited it.
const LOCK: &str = "lock";
/// Who reads that in one piece has done so within this time.
const READ: Duration = Duration::from_millis(200);
/// Where the environment of a guardian says how its server becomes one.
const SERVER: &str = "CULVERT_SERVER";

/// Starts the server of `job` again, by a guardian that knows of these `restarts`; the reason why
/// not.
pub fn start(job: &Job, restarts: Restarts) -> Result<(), String> {
    let failed = |error: io::Error| reason(&error);
    // Nobody joins or ends it meanwhile.
    let entry = match job.entry.as_deref() {
        None => None,
        Some(path) => Some(Entry::at(path).ok_or("no run uses it any more")?),
    };
    if let Some(entry) = &entry
        && !entry.names(&job.mount)
    {
        // A run that has begun since has found the server gone.
        let other = entry.served();
        let other = other.ok_or("another run has started it, and it does not serve any more")?;
        return move_runs(&job.mount, &other);
    }
    let place = run_directory::create().map_err(|failure| failure.to_string())?;
    let again = Job {
        mount: place.path.clone(),
        restart: Some(restarts),
        ..job.clone()
    };
    let started = prepare(job, &place)
        .map_err(failed)
        .and_then(|()| launch(job, &again, &place));
    // The guardian has it from here on.
    drop(OwnedFd::from_raw(place.lock));
    started.inspect_err(|_| {
        let directory = c_string(place.path.as_os_str().as_bytes());
        culvert_launch::run_directory::remove(culvert_sys::fd::CWD, &directory);
    })?;
    if let Some(entry) = &entry {
        entry.move_on(&job.mount, &place.path).map_err(failed)?;
    }
    move_runs(&job.mount, &place.path)
}

/// The runs that use the mount in `old` use the one in `new`, too: as many as can be.
fn move_runs(old: &Path, new: &Path) -> Result<(), String> {
    let (mut moved, mut seen) = (Ok(()), Vec::new());
    // A run that was started meanwhile in one that had not moved yet is one more.
    while let Some(run) = shared::users(old)
        .into_iter()
        .find(|run| !seen.contains(run))
    {
        let added = shared::uses(new, &run).and_then(|()| add_mount(&run, old, new));
        if let Err(error) = added {
            moved = Err(format!("{}: {}", shown(&run), reason(&error)));
        }
        seen.push(run);
    }
    moved
}

/// Makes what the server needs in its directory, as the last one had it.
fn prepare(job: &Job, place: &RunDirectory) -> io::Result<()> {
    fs::write(place.path.join(MOUNTS), fs::read(job.mount.join(MOUNTS))?)?;
    let found = fs::metadata(&place.path)?;
    let content = fs::read(job.mount.join(LOCK))?;
    if let Some(state) = State::decode(&content) {
        let directory = (found.dev(), found.ino());
        let state = State { directory, ..state };
        fs::write(place.path.join(LOCK), state.encode())?;
    }
    symlink(
        fs::read_link(job.mount.join(TARGET))?,
        place.path.join(TARGET),
    )?;
    for run in shared::users(&job.mount) {
        shared::uses(&place.path, &run)?;
    }
    let directory = c_string(place.path.as_os_str().as_bytes());
    let opened = trust::directory(&directory, trust::user());
    let opened = opened.map_err(|why| io::Error::other(why.to_string()))?;
    let made = Area::create(&opened);
    made.map(drop)
        .map_err(|errno| io::Error::from_raw_os_error(errno.raw()))
}

/// Starts the guardian of `again`, which was `job`, and returns when its server is ready.
fn launch(job: &Job, again: &Job, place: &RunDirectory) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot start its guardian: {}", reason(&error));
    let mut command = Command::new(own_path().map_err(failed)?);
    command
        .arg(GUARDIAN)
        .arg(place.lock.to_string())
        .args(again.words())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if let Some(server) = std::env::var_os(SERVER) {
        let server = in_directory(server, &job.mount, place).ok_or("its run cannot be told")?;
        command.env(SERVER, server);
    }
    keep_limit(&mut command);
    let mut child = command.spawn().map_err(failed)?;
    let mut told = String::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_string(&mut told).map_err(failed)?;
    }
    // Whoever waits for all children may have had it.
    thread::spawn(move || child.wait());
    let directory = c_string(place.path.as_os_str().as_bytes());
    let opened = trust::directory(&directory, trust::user()).ok();
    let area = opened.and_then(|opened| Area::open(&opened).ok());
    match told.trim_end() {
        // It may have died since, which its guardian sees to.
        "" if area.is_some_and(|area| area.session() != Session::Starting) => Ok(()),
        "" => Err("its guardian was killed".into()),
        why => Err(why.to_owned()),
    }
}

/// `variable`, which names the directory `old` and the descriptor of its lock, with those of
/// `place`.
fn in_directory(variable: OsString, old: &Path, place: &RunDirectory) -> Option<OsString> {
    let bytes = variable.into_vec();
    let rest = bytes.strip_prefix(old.as_os_str().as_bytes())?;
    let rest = rest.strip_prefix(b":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut new = place.path.as_os_str().as_bytes().to_vec();
    new.extend_from_slice(format!(":{}", place.lock).as_bytes());
    new.extend_from_slice(&rest[digits..]);
    Some(OsString::from_vec(new))
}

/// The right to change what the run in directory `run` says of its mounts, until it is dropped.
pub fn turn_of(run: &Path) -> io::Result<File> {
    let directory = File::open(run)?;
    flock(&directory, FlockOperation::LockExclusive)?;
    Ok(directory)
}

/// The run in directory `run` has further mounts: those whose slots lie in `old`, at whatever
/// targets, from `new`.
fn add_mount(run: &Path, old: &Path, new: &Path) -> io::Result<()> {
    let _turn = match turn_of(run) {
        // It has ended meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        turn => turn?,
    };
    let (at, made) = (run.join(MOUNTS), run.join("mounts.new"));
    let mut mounts =
        decode(&fs::read(&at)?).map_err(|error| io::Error::other(error.to_string()))?;
    let slots = |path: &Path| ("slots".to_owned(), path.as_os_str().as_bytes().to_vec());
    let is_of_old = |mount: &Mount| mount.options.contains(&slots(old));
    if !mounts.iter().any(is_of_old) {
        return Err(io::ErrorKind::NotFound.into());
    }
    // What a later mount at the same target hides it hides for good: the new one would come before
    // that. At any other target the deepest is found first, whichever came last.
    let is_shown = |at: usize, mount: &Mount| {
        let mut later = mounts.iter().skip(at + 1);
        !later.any(|other| other.target == mount.target)
    };
    let of_old = mounts.iter().enumerate();
    let of_old = of_old.filter(|(at, mount)| is_of_old(mount) && is_shown(*at, mount));
    let mut further: Vec<Mount> = of_old.map(|(_, mount)| mount.clone()).collect();
    if further.is_empty() {
        return Ok(());
    }
    for option in further.iter_mut().flat_map(|mount| &mut mount.options) {
        if option.0 == "slots" {
            *option = slots(new);
        }
    }
    mounts.append(&mut further);
    let mounts = encode(&mounts);
    fs::write(&made, &mounts)?;
    fs::set_permissions(&made, Permissions::from_mode(fs::metadata(&at)?.mode()))?;
    let rename = || fs::rename(&made, &at);
    inherited(&run.join(LOCK), &mounts, rename)
}

/// Who has inherited the file `lock` reads there that these are the `mounts`. Until it is whole it
/// says nothing, by its first byte, and the other file is read, which `rename` puts there: nobody
/// reads the old ones here once others may know of the new ones.
fn inherited(
    lock: &Path,
    mounts: &[u8],
    rename: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let content = fs::read(lock)?;
    let Some(state) = State::decode(&content) else {
        return rename();
    };
    let new = State { mounts, ..state }.encode();
    let file = File::options().write(true).open(lock)?;
    file.write_all_at(&[0], 0)?;
    rename()?;
    thread::sleep(READ);
    file.write_all_at(&new[1..], 1)?;
    file.set_len(new.len() as u64)?;
    file.write_all_at(&new[..1], 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_of_a_server_is_that_of_the_next_one() {
        let place = RunDirectory {
            path: "/b/new".into(),
            lock: 17,
        };
        let next = |text: &str| in_directory(text.into(), Path::new("/b/old"), &place);
        assert_eq!(next("/b/old:1001:6:2").unwrap(), "/b/new:17:6:2");
        assert_eq!(next("/b/old:1001,5.0,s7:6").unwrap(), "/b/new:17,5.0,s7:6");
        assert!(next("/b/other:1001:6").is_none());
    }

    #[test]
    fn a_run_gets_a_further_mount_at_the_same_target() {
        let run = std::env::temp_dir().join(format!("culvert-again-{}", std::process::id()));
        fs::create_dir_all(&run).unwrap();
        let at = |target: &str, slots: &str| Mount {
            driver: "fuse".into(),
            source: b"x".to_vec(),
            target: target.into(),
            options: vec![
                ("slots".into(), slots.as_bytes().to_vec()),
                ("ro".into(), Vec::new()),
            ],
            branches: Vec::new(),
        };
        let mount = |slots: &str| at("/mnt", slots);
        let before = [mount("/other"), mount("/old"), at("/second", "/old")];
        let mounts = encode(&before);
        fs::write(run.join(MOUNTS), &mounts).unwrap();
        let state = State {
            directory: (1, 2),
            command: b"/c",
            mounts: &mounts,
            images: b"known",
        };
        fs::write(run.join(LOCK), state.encode()).unwrap();
        add_mount(&run, Path::new("/old"), Path::new("/new")).unwrap();
        let found = decode(&fs::read(run.join(MOUNTS)).unwrap()).unwrap();
        assert_eq!(found[..3], before);
        assert_eq!(found[3..], [mount("/new"), at("/second", "/new")]);
        let content = fs::read(run.join(LOCK)).unwrap();
        let mounts = &encode(&found)[..];
        assert_eq!(State::decode(&content), Some(State { mounts, ..state }));
        assert!(add_mount(&run, Path::new("/gone"), Path::new("/new")).is_err());
        // One above hides nothing.
        let below = [at("/m/n", "/old"), at("/m", "/other")];
        fs::write(run.join(MOUNTS), encode(&below)).unwrap();
        add_mount(&run, Path::new("/old"), Path::new("/new")).unwrap();
        let found = decode(&fs::read(run.join(MOUNTS)).unwrap()).unwrap();
        assert_eq!(found[..2], below);
        assert_eq!(found[2..], [at("/m/n", "/new")]);
        // One that another hides stays hidden.
        let hidden = encode(&[at("/mnt", "/old"), at("/mnt", "/other")]);
        fs::write(run.join(MOUNTS), &hidden).unwrap();
        add_mount(&run, Path::new("/old"), Path::new("/new")).unwrap();
        assert_eq!(fs::read(run.join(MOUNTS)).unwrap(), hidden);
        fs::remove_dir_all(&run).unwrap();
        add_mount(&run, Path::new("/old"), Path::new("/new")).unwrap();
    }
}

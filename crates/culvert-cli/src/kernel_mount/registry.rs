//! Which mounts there are: what the kernel's table says, with what their servers have left in their
//! run directories.
//!
//! A server writes `served` (what it serves) and `counters` (what it has done, as it goes) there.
//! Nobody is asked and nobody woken. Run directories are in a base that belongs to the user it is
//! named after and that nobody else can enter; others are not believed.

use super::Ready;
use crate::{
    base,
    doctor::json::Value,
    failure::{Failure, path, reason, shown},
    fuse::Listed,
    run_directory,
};
use culvert_server::{
    counters::{Counted, Counters},
    mounting::{MountIdentity, table},
};
use culvert_sys::flags::OFlags;
use culvert_sys::trust::{self, Opened};
use std::{
    collections::BTreeSet,
    ffi::{CStr, OsStr, OsString},
    fs::{self, File},
    io::Read,
    os::unix::ffi::OsStringExt,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A mount of ours in the kernel's table.
pub struct Mounted {
    /// Where.
    pub target: OsString,
    /// What the table shows as the source.
    source: OsString,
    /// Which mount it is.
    pub which: MountIdentity,
    /// Whose it is.
    uid: u32,
}

/// What its server says.
struct Served {
    driver: String,
    started: u64,
    keeper: Option<u64>,
    counted: Counted,
}

/// What the server of `ready` has to say of itself, now that it is mounted; the counters it is to
/// keep.
pub(super) fn register(
    ready: &Ready,
    which: &MountIdentity,
    keeper: Option<u32>,
) -> Result<(), Failure> {
    let started = now();
    let keeper = keeper.map_or_else(String::new, |keeper| format!("keeper {keeper}\n"));
    let driver = &ready.mount.driver;
    let text = format!("device {which}\ndriver {driver}\nstarted {started}\n{keeper}");
    let file = ready.directory.path.join("served");
    let new = file.with_extension("new");
    // A server after the first says it again, while others may be reading: they find the old text
    // or the new.
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, &file))
        .map_err(|error| Failure::new(format!("{}: {}", shown(&file), reason(&error))))
}

/// The counters of `ready`'s server.
pub(super) fn counters(ready: &Ready) -> Result<&'static Counters, Failure> {
    let file = ready.directory.path.join("counters");
    let failed = |error| Failure::new(format!("{}: {}", shown(&file), reason(&error)));
    let opened = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file)
        .map_err(failed)?;
    Counters::new(&opened).map_err(failed)
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// The mounts of this user, of root all, in the order in which they were made.
pub fn mounted() -> Vec<Mounted> {
    let uid = rustix::process::geteuid();
    let all = table::lines().into_iter().filter(table::Line::is_ours);
    all.map(|line| Mounted {
        target: OsString::from_vec(line.target),
        source: OsString::from_vec(line.source),
        which: line.which,
        uid: line.uid,
    })
    .filter(|one| uid.is_root() || uid.as_raw() == one.uid)
    .collect()
}

/// What the server of `mount` says, if it lives.
///
/// Numbers of devices are used again at once, while the server of the mount that had this one
/// before may not have ended yet: the newest is the mount's.
fn served(mount: &Mounted) -> Option<Served> {
    let all = base::of_user(mount.uid).into_iter();
    let all = all.filter_map(|base| fs::read_dir(base).ok());
    newest(
        all.flat_map(|base| base.flatten().map(|run| run.path())),
        mount.uid,
        &mount.which.to_string(),
    )
}

/// Of those among the run directories `runs` of user `uid` that say that they serve `device`, what
/// the newest one says.
fn newest(runs: impl Iterator<Item = PathBuf>, uid: u32, device: &str) -> Option<Served> {
    let living = runs.filter_map(|run| read(&base::trusted(&run, uid).ok()?, device));
    living
        .max_by_key(|(written, _)| *written)
        .map(|(_, served)| served)
}

/// What stands in `run`, if it is of the mount with `device` and its server lives, and when it was
/// written.
fn read(run: &Opened, device: &str) -> Option<((i64, i64), Served)> {
    let (text, written) = read_some(run, c"served")?;
    let text = String::from_utf8(text).ok()?;
    let word = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
    };
    if word("device")? != device {
        return None;
    }
    let counted = Counters::read(&read_some(run, c"counters")?.0)?;
    let keeper = word("keeper").and_then(|keeper| keeper.parse().ok());
    // Numbers of processes are used again, and a dead one that nobody waits for keeps its own: the
    // lock is gone with the last of them. Who asks as we do has it for a moment only.
    let lives = (0..3).all(|times| {
        thread::sleep(Duration::from_millis(2 * times));
        culvert_launch::run_directory::is_held(run, c"lock")
    });
    let served = || Served {
        driver: word("driver").map(shown).unwrap_or_default(),
        started: word("started")
            .and_then(|word| word.parse().ok())
            .unwrap_or(0),
        keeper,
        counted,
    };
    lives.then(|| (written, served()))
}

/// The first bytes of a file of a run directory, which may be another user's, and when it was
/// written.
fn read_some(run: &Opened, name: &CStr) -> Option<(Vec<u8>, (i64, i64))> {
    let file = trust::file(run, name, OFlags::empty()).ok()?;
    let found = file.stat();
    let written = (found.st_mtime as i64, found.st_mtime_nsec as i64);
    let file = File::from(run_directory::owned(file));
    let mut bytes = Vec::new();
    file.take(1 << 16).read_to_end(&mut bytes).ok()?;
    Some((bytes, written))
}

/// The list, for people or as JSON, with the mounts `of_runs`, which the kernel does not know.
pub fn list(json: bool, of_runs: &[Listed]) -> String {
    let mounts: Vec<(Mounted, Option<Served>)> = mounted()
        .into_iter()
        .map(|mount| {
            let served = served(&mount);
            (mount, served)
        })
        .collect();
    if json {
        let objects = mounts
            .iter()
            .map(|(mount, served)| object(mount, served.as_ref()))
            .chain(of_runs.iter().map(object_of_run));
        return format!("{}\n", Value::List(objects.collect()));
    }
    let mut text = String::new();
    for (mount, served) in &mounts {
        text += &format!("{} on {}", shown(&mount.source), shown(&mount.target));
        match served {
            None => text += "\n  no server answers; end it: culvert umount --lazy TARGET\n",
            Some(served) => text += &lines(served),
        }
    }
    text.extend(of_runs.iter().map(Listed::lines));
    text
}

fn lines(served: &Served) -> String {
    let counted = &served.counted;
    let process = Process::of(counted.server);
    let mut text = format!(
        " type {}\n  server {}, up {} s",
        served.driver,
        counted.server,
        now().saturating_sub(served.started)
    );
    let restarts = counted.servers.saturating_sub(1);
    match served.keeper {
        Some(keeper) if lives(keeper) => {
            text += &format!(", kept by {keeper}, {restarts} restarts");
        }
        Some(keeper) => {
            text += &format!(", {restarts} restarts; its keeper {keeper} is gone: it is the last")
        }
        None => {}
    }
    text += &format!(
        "\n  {} files and {} directories open, {} descriptors, {} KiB of memory\n",
        counted.files, counted.directories, process.descriptors, process.memory
    );
    if counted.extension > 0 {
        let memory = counted.extension >> 10;
        text += &format!("  extension: {memory} KiB of the kernel's memory\n");
    }
    let asked: u64 = counted.operations.iter().map(|(_, count)| count).sum();
    text += &format!(
        "  {asked} requests, {} answered with an error\n",
        counted.failures
    );
    for (name, count) in &counted.operations {
        text += &format!("  {count:>12} {name}\n");
    }
    text
}

/// A name as it is; one that is no UTF-8, which JSON cannot say, as it is shown to people.
fn exact(name: &OsStr) -> Value {
    Value::from(name.to_str().map_or_else(|| shown(name), str::to_owned))
}

fn object(mount: &Mounted, served: Option<&Served>) -> Value {
    let mut members = vec![
        ("source", exact(&mount.source)),
        ("target", exact(&mount.target)),
        ("user", Value::Number(mount.uid.into())),
        ("served", Value::from(served.is_some())),
    ];
    if let Some(served) = served {
        let counted = &served.counted;
        let process = Process::of(counted.server);
        let operations = counted.operations.iter();
        let requests = operations.map(|(name, count)| (*name, Value::from(*count)));
        let uptime = now().saturating_sub(served.started);
        members.extend([
            ("type", Value::from(served.driver.clone())),
            ("server", counted.server.into()),
            ("uptime", uptime.into()),
            ("restarts", counted.servers.saturating_sub(1).into()),
            ("files", counted.files.into()),
            ("directories", counted.directories.into()),
            ("descriptors", process.descriptors.into()),
            ("memory", (process.memory << 10).into()),
            ("extension", counted.extension.into()),
            ("failures", counted.failures.into()),
            ("requests", Value::Object(requests.collect())),
        ]);
        if let Some(keeper) = served.keeper.filter(|keeper| lives(*keeper)) {
            members.push(("keeper", Value::Number(keeper)));
        }
    }
    Value::Object(members)
}

fn object_of_run(mount: &Listed) -> Value {
    let texts = mount.texts();
    let texts = texts.map(|(name, text)| (name, Value::from(text.to_owned())));
    let requests = Value::Object(vec![("all", mount.requests().into())]);
    let numbers = mount.numbers().map(|(name, count)| (name, count.into()));
    let all = texts.into_iter().chain([("requests", requests)]);
    Value::Object(all.chain(numbers).collect())
}

/// Whether `process` is there, and not dead but for its parent, which has not asked yet.
fn lives(process: u64) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, may have some itself.
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !"ZX".contains(state))
}

/// What /proc says of a server.
struct Process {
    /// Open descriptors: of a directory that is passed through, one for each node and one for each
    /// file.
    descriptors: u64,
    /// Resident, KiB.
    memory: u64,
}

impl Process {
    fn of(number: u64) -> Self {
        let listed = fs::read_dir(format!("/proc/{number}/fd"));
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|words| words.trim().split(' ').next()?.parse().ok());
        Self {
            descriptors: listed.map_or(0, |listed| listed.count() as u64),
            memory: memory.unwrap_or(0),
        }
    }
}

/// Who uses the mount at `target`, as far as it may be seen: by working directory, root, program or
/// open file. Empty when nobody is found.
pub fn users(target: &Path) -> String {
    const MOST: usize = 5;
    let mut found = BTreeSet::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(number) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        // Who asks has looked into it, too.
        if number == std::process::id() {
            continue;
        }
        let place = process.path();
        let files = fs::read_dir(place.join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let links = ["cwd", "root", "exe"].map(|link| place.join(link));
        let mut all = links.into_iter().chain(files.map(|file| file.path()));
        if all.any(|link| fs::read_link(link).is_ok_and(|to| to.starts_with(target))) {
            found.insert(number);
        }
    }
    let name = |number: &u32| {
        let name = fs::read(format!("/proc/{number}/comm")).unwrap_or_default();
        format!("{} ({number})", shown(path(name.trim_ascii())))
    };
    let names: Vec<String> = found.iter().take(MOST).map(name).collect();
    let more = match found.len() > MOST {
        true => format!(" and {} more", found.len() - MOST),
        false => String::new(),
    };
    names.join(", ") + &more
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::DirBuilderExt;
    use std::time::Duration;

    #[test]
    fn the_newest_server_of_a_device_is_its_mounts() {
        let base = std::env::temp_dir().join(format!("culvert-registry-{}", std::process::id()));
        let me = std::process::id();
        let uid = trust::user();
        let run = |name: &str, driver: &str, age: u64| {
            let run = base.join(name);
            fs::create_dir_all(&base).unwrap();
            fs::DirBuilder::new().mode(0o700).create(&run).unwrap();
            let lock = File::create(run.join("lock")).unwrap();
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
            let counters = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .open(run.join("counters"))
                .unwrap();
            Counters::new(&counters).unwrap().begin();
            let text = format!("device 0:77\ndriver {driver}\nstarted 1\nkeeper {me}\n");
            fs::write(run.join("served"), text).unwrap();
            let served = File::options().write(true).open(run.join("served"));
            let written = SystemTime::now() - Duration::from_secs(age);
            served.unwrap().set_modified(written).unwrap();
            (run, lock)
        };
        let (ending, _held) = run("a", "ending", 2);
        let (new, held) = run("b", "new", 1);
        let (other, _held) = run("c", "newer", 0);
        fs::write(other.join("served"), "device 0:78\ndriver other\n").unwrap();
        for runs in [[&ending, &new, &other], [&other, &new, &ending]] {
            let found = newest(runs.into_iter().cloned(), uid, "0:77").unwrap();
            assert_eq!((&*found.driver, found.keeper), ("new", Some(me.into())));
        }
        assert!(newest([other].into_iter(), uid, "0:77").is_none());
        // The processes are there; what is gone is their lock.
        drop(held);
        assert!(newest([new].into_iter(), uid, "0:77").is_none());
        fs::remove_dir_all(base).unwrap();
    }
}

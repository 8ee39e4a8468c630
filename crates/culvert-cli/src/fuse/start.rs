//! From a mount to a server that has answered INIT: that of its type `fuse.NAME`, or a host.

use super::{
    DEVICE_PATH, GUARDIAN, HOST, command, is_served,
    shared::{self, Entry, Identity},
    way::{Asked, WAY, Way},
};
use crate::{
    failure::{Failure, path, reason, shown},
    inherited::Inherited,
    logs,
    own_path::own_path,
    prepare,
    program::{self, Environment},
    run_directory::{self, RunDirectory},
    verdict::Kind,
};
use culvert::mount::{Mount, Options, parse_options};
use culvert_drivers::fuse as driver;
use culvert_preload::fuse_server;
use culvert_run::{FUSE_SERVER, OUTSIDE};
use culvert_slots::Area;
use culvert_sys::{OwnedFd, trust};
use std::{
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

/// How long a server may take to answer INIT, in seconds, unless the mount says otherwise.
const START_TIMEOUT: u64 = 30;
/// What a server has said of its mount that its clients must know.
const OF_CLIENTS: [&str; 4] = ["default_permissions", "max_read", "ro", "rw"];

/// How often a server was started again.
#[derive(Clone, Copy, Debug, Default)]
pub struct Restarts {
    /// In a row, each time soon after its start.
    pub hasty: u32,
    /// In all.
    pub all: u32,
}

/// What a guardian is told on its command line.
#[derive(Clone, Debug)]
pub struct Job {
    /// The directory of the run that has asked for it first.
    pub run: PathBuf,
    /// The entry of a mount that other runs may join.
    pub entry: Option<PathBuf>,
    /// The directory of the mount, which is the server's run.
    pub mount: PathBuf,
    /// Where programs see the mount.
    pub target: OsString,
    /// How long the server may take to answer INIT.
    pub start_timeout: Duration,
    /// It is started again when it dies: how often it was before.
    pub restart: Option<Restarts>,
    /// How the server comes to its requests.
    pub way: Way,
    /// The server and its arguments.
    pub command: Vec<OsString>,
}

impl Job {
    /// What [`Job::parse`] reads.
    pub fn words(&self) -> Vec<OsString> {
        let own = [
            self.run.clone().into(),
            self.entry.clone().unwrap_or_default().into(),
            self.mount.clone().into(),
            self.target.clone(),
            self.start_timeout.as_millis().to_string().into(),
            self.restart
                .map_or_else(String::new, |Restarts { hasty, all }| {
                    format!("{hasty} {all}")
                })
                .into(),
            self.way.word().into(),
        ];
        own.into_iter().chain(self.command.clone()).collect()
    }

    /// The job that `words` tell.
    pub fn parse(mut words: Vec<OsString>) -> Option<Self> {
        if words.len() < 8 {
            return None;
        }
        let command = words.split_off(7);
        let [run, entry, mount, target, time, restart, way] = words.try_into().ok()?;
        Some(Self {
            run: run.into(),
            entry: (!entry.is_empty()).then(|| entry.into()),
            mount: mount.into(),
            target,
            start_timeout: Duration::from_millis(time.to_str()?.parse().ok()?),
            restart: restart.to_str()?.split_once(' ').and_then(|(hasty, all)| {
                let (hasty, all) = (hasty.parse().ok()?, all.parse().ok()?);
                Some(Restarts { hasty, all })
            }),
            way: Way::parse(way.to_str()?)?,
            command,
        })
    }
}

/// The environment of a program that starts in a run of its own, with these flags, where the
/// library is preloaded if the last says so.
pub type Enter<'a> = &'a dyn Fn(&RunDirectory, u8, bool) -> Result<Environment, Failure>;

/// Starts the server of `mount`, for the run in `directory`, or finds it running for another run of
/// the same mount: the mount as it travels.
pub fn start(
    mount: &Mount,
    directory: &RunDirectory,
    inherited: &Inherited,
    enter: Enter<'_>,
) -> Result<Mount, Failure> {
    let name = shown(path(&mount.target));
    let started = start_or_join(mount, directory, inherited, enter);
    started.map_err(|failure| failure.within(&format!("the mount {name}")))
}

fn start_or_join(
    mount: &Mount,
    directory: &RunDirectory,
    inherited: &Inherited,
    enter: Enter<'_>,
) -> Result<Mount, Failure> {
    culvert_drivers::find(driver::NAME).map_err(|error| Failure::new(error.to_string()))?;
    let (own, options) = split(mount)?;
    // Whatever its target is.
    let words = command(mount, &own, &options, Path::new("%m"))?;
    let (way, kind) = way(mount, &own, &words)?;
    let identity = Identity::of(mount, own.name.as_deref(), &words, inherited);
    // Until it is ready others wait here.
    let entry = identity.as_ref().map(Entry::of).transpose()?;
    let both = entry.as_ref().zip(identity.as_ref());
    if let Some(place) = both.and_then(|(entry, identity)| entry.serving(identity)) {
        shared::uses(&place, &directory.path).map_err(unused)?;
        return Ok(travelling(mount, &place));
    }
    if let Some((entry, identity)) = both {
        entry.end_abandoned(identity)?;
    }
    let place = run_directory::create()?;
    let entry_path = entry.as_ref().map(|entry| entry.path.clone());
    let job = prepare(&place, mount, directory, inherited, (&own, &options)).map(|job| Job {
        entry: entry_path,
        way,
        ..job
    });
    let started = job.and_then(|job| {
        let environment = match is_served(&mount.driver) && way != Way::Adapter {
            true => enter(&place, FUSE_SERVER | OUTSIDE, kind == Kind::Preloaded)?,
            // A host is in no run, nor is who is not intercepted.
            false => std::env::vars_os()
                .filter(|(name, _)| name != "CULVERT_RUN")
                .collect(),
        };
        launch(&job, &place, environment)
    });
    // The guardian has it from here on.
    drop(OwnedFd::from_raw(place.lock));
    started.inspect_err(|_| {
        culvert_launch::run_directory::remove(
            culvert_sys::fd::CWD,
            &culvert_run::files::c_string(place.path.as_os_str().as_bytes()),
        );
    })?;
    if let Some((entry, identity)) = both {
        entry.put(&place.path, identity).map_err(unused)?;
    }
    Ok(travelling(mount, &place.path))
}

fn unused(error: io::Error) -> Failure {
    let why = reason(&error);
    Failure::new(format!("cannot note that the run uses it: {why}"))
}

/// Makes what the server of `mount` needs in its directory `place`: what its guardian is to do.
fn prepare(
    place: &RunDirectory,
    mount: &Mount,
    directory: &RunDirectory,
    inherited: &Inherited,
    (own, options): (&Own, &Options),
) -> Result<Job, Failure> {
    match is_served(&mount.driver) {
        true => place.write_mounts(&inherited.mounts)?,
        false => place.write_mounts(&[hosted(mount, options, &place.path)?])?,
    }
    let cannot = |what: &str, error: io::Error| {
        Failure::new(format!("cannot make {what}: {}", reason(&error)))
    };
    let target = target(mount, &place.path).map_err(|error| cannot("a target", error))?;
    std::os::unix::fs::symlink(&target, place.path.join(fuse_server::TARGET))
        .map_err(|error| cannot("a link", error))?;
    shared::uses(&place.path, &directory.path).map_err(unused)?;
    let opened = trust::directory(
        &culvert_run::files::c_string(place.path.as_os_str().as_bytes()),
        trust::user(),
    );
    let opened = opened.map_err(|why| Failure::new(why.to_string()))?;
    Area::create(&opened)
        .map_err(|errno| Failure::new(format!("cannot make the slots: {}", errno.text())))?;
    let mut words = command(mount, own, options, &target)?;
    if !is_served(&mount.driver) {
        words.push(place.path.clone().into());
    }
    Ok(Job {
        run: directory.path.clone(),
        entry: None,
        mount: place.path.clone(),
        target: path(&mount.target).into(),
        start_timeout: own.start_timeout,
        restart: own.restart.then(Restarts::default),
        way: Way::Slots,
        command: words,
    })
}

/// The mount with these options as its host opens it, ready.
fn hosted(mount: &Mount, options: &Options, place: &Path) -> Result<Mount, Failure> {
    let mut mount = Mount {
        options: options.clone(),
        ..mount.clone()
    };
    mount = prepare::prepare(&mount, place, true)?;
    logs::note_idle(std::slice::from_mut(&mut mount));
    logs::start(std::slice::from_ref(&mount), place)?;
    Ok(mount)
}

/// What Culvert takes of a mount's options, for itself.
struct Own {
    command: Option<Vec<u8>>,
    /// Which of several that have no source it is.
    name: Option<Vec<u8>>,
    start_timeout: Duration,
    /// It is started again when it dies.
    restart: bool,
    way: Option<Asked>,
}

/// Those, and the options of the server.
fn split(mount: &Mount) -> Result<(Own, Options), Failure> {
    let timeout = mount.option("start-timeout").map(|value| {
        let seconds = str::from_utf8(value)
            .ok()
            .and_then(|text| text.parse().ok());
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let time = time.filter(|time| time.as_secs() < u64::from(u32::MAX));
        time.ok_or_else(|| {
            let value = String::from_utf8_lossy(value);
            Failure::new(format!(
                "option start-timeout={value}: not a number of seconds"
            ))
        })
    });
    let restart = mount.option("restart");
    if restart.is_some_and(|value| !value.is_empty()) {
        return Err(Failure::new("option restart has no value"));
    }
    if restart.is_some() && !is_served(&mount.driver) {
        return Err(Failure::new(
            "option restart is for FUSE servers: a host has its files in its memory",
        )
        .advice("leave it out"));
    }
    let way = Asked::of(mount)?;
    if way.is_some() && !is_served(&mount.driver) {
        return Err(
            Failure::new("option way is for FUSE servers: a host has the slots")
                .advice("leave it out"),
        );
    }
    let own = Own {
        restart: restart.is_some(),
        way,
        command: mount.option("command").map(<[u8]>::to_vec),
        name: mount.option("name").map(<[u8]>::to_vec),
        start_timeout: timeout
            .transpose()?
            .unwrap_or(Duration::from_secs(START_TIMEOUT)),
    };
    let is_own =
        |name: &str| matches!(name, "command" | "name" | "restart" | "start-timeout" | WAY);
    let options = mount.options.iter().filter(|(name, _)| !is_own(name));
    Ok((own, options.cloned().collect()))
}

/// What the server is told to mount on: the target, where that is a directory, for its messages and
/// checks. It mounts nothing there.
fn target(mount: &Mount, place: &Path) -> io::Result<PathBuf> {
    let target = path(&mount.target);
    if target.is_dir() {
        return Ok(target.to_path_buf());
    }
    let stand_in = place.join("at");
    fs::create_dir(&stand_in)?;
    Ok(stand_in)
}

/// The words of the server's command.
fn command(
    mount: &Mount,
    own: &Own,
    options: &Options,
    target: &Path,
) -> Result<Vec<OsString>, Failure> {
    if !is_served(&mount.driver) {
        let own = own_path().map_err(|error| {
            Failure::new(format!("cannot tell what a host is: {}", reason(&error)))
        })?;
        return Ok(vec![own.into(), HOST.into()]);
    }
    if let Some(line) = &own.command {
        // Its clients see to that.
        let is_of_clients = |name: &str| matches!(name, "ro" | "rw");
        let options = options.iter().filter(|(name, _)| !is_of_clients(name));
        return command::typed(line, mount, options, target, DEVICE_PATH.as_ref());
    }
    command::words(mount, options, target, command::By::Run)
}

/// How the server of `mount`, whose command is `words`, comes to its requests.
fn way(mount: &Mount, own: &Own, words: &[OsString]) -> Result<(Way, Kind), Failure> {
    if !is_served(&mount.driver) {
        return Ok((Way::Slots, Kind::Glibc));
    }
    let of = |program: &Path| {
        Way::of(program, own.way)
            .map_err(|refusal| Failure::new(refusal.message()).advice(refusal.remedy))
    };
    let started = of(Path::new(&words[0]))?;
    let Some(line) = &own.command else {
        return Ok(started);
    };
    // The shell starts the first word of the line, if it is a program's name.
    let first = line.split(u8::is_ascii_whitespace).next();
    match program::find(OsStr::from_bytes(first.unwrap_or_default())) {
        Ok(found) => Ok((of(&found)?.0, started.1)),
        Err(_) => Ok(started),
    }
}

/// Starts the guardian, and with it the server; returns when INIT is answered.
fn launch(job: &Job, place: &RunDirectory, environment: Environment) -> Result<(), Failure> {
    let failed =
        |error: io::Error| Failure::new(format!("cannot start its guardian: {}", reason(&error)));
    let told = Command::new(own_path().map_err(failed)?)
        .arg(GUARDIAN)
        .arg(place.lock.to_string())
        .args(job.words())
        .env_clear()
        .envs(environment.into_iter().map(|(name, value)| match () {
            // The guardian itself joins no run.
            () if name == "LD_AUDIT" => ("CULVERT_AUDIT".into(), value),
            () if name == "LD_PRELOAD" => ("CULVERT_PRELOAD".into(), value),
            () if name == "CULVERT_RUN" => ("CULVERT_SERVER".into(), value),
            () => (name, value),
        }))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(failed)?;
    match told.status.success() {
        true => Ok(()),
        false => Err(Failure::new(
            String::from_utf8_lossy(&told.stdout).trim_end().to_owned(),
        )),
    }
}

/// The mount as every process of the run sees it.
fn travelling(mount: &Mount, place: &Path) -> Mount {
    let said = fs::read(place.join(fuse_server::OPTIONS)).unwrap_or_default();
    let said = parse_options(&said).unwrap_or_default();
    let mut options = vec![("slots".to_owned(), place.as_os_str().as_bytes().to_vec())];
    let wanted = |name: &str| OF_CLIENTS.contains(&name);
    options.extend(said.into_iter().filter(|(name, _)| wanted(name)));
    let goes_on = |(name, _): &&(String, Vec<u8>)| matches!(name.as_str(), "ro" | "rw" | "restart");
    options.extend(mount.options.iter().filter(goes_on).cloned());
    Mount {
        driver: driver::NAME.to_owned(),
        source: mount.source.clone(),
        target: mount.target.clone(),
        options,
        branches: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(driver: &str, options: &[(&str, &str)]) -> Mount {
        let option = |(name, value): &(&str, &str)| (name.to_string(), value.as_bytes().to_vec());
        Mount {
            driver: driver.into(),
            source: b"host:/data".to_vec(),
            target: b"/mnt/x".to_vec(),
            options: options.iter().map(option).collect(),
            branches: Vec::new(),
        }
    }

    #[test]
    fn the_server_gets_its_options_and_culvert_its_own() {
        let mount = mount(
            "fuse.sh",
            &[("reconnect", ""), ("start-timeout", "2.5"), ("a", "b,c\\")],
        );
        let (own, options) = split(&mount).unwrap();
        assert_eq!(own.start_timeout, Duration::from_millis(2500));
        let words = command(&mount, &own, &options, Path::new("/mnt/x")).unwrap();
        assert!(words[0].as_bytes().ends_with(b"/sh"), "{words:?}");
        let want = ["host:/data", "/mnt/x", "-f", "-o", "reconnect,a=b\\,c\\\\"];
        assert_eq!(words[1..], want);
    }

    #[test]
    fn a_time_that_is_none_is_refused() {
        for wrong in ["abc", "-1", "inf", ""] {
            assert!(split(&mount("fuse.sh", &[("start-timeout", wrong)])).is_err());
        }
    }

    #[test]
    fn a_command_names_target_and_source_as_words_of_their_own() {
        let mount = mount("fuse", &[("command", "rclone mount %s %m")]);
        let (own, options) = split(&mount).unwrap();
        let words = command(&mount, &own, &options, Path::new("/m n")).unwrap();
        assert_eq!(words[2], "exec rclone mount \"$2\" \"$1\"");
        assert_eq!(words[4..], ["/m n", "host:/data"]);
        let refused = |option: &str| {
            let options = [(option.to_owned(), Vec::new())];
            command(&mount, &own, &options.to_vec(), Path::new("/m")).is_err()
        };
        assert!(refused("allow_other") && !refused("ro"));
        let is_served = driver::is_served;
        assert!(is_served("fuse") && is_served("fuse.x") && !is_served("fused"));
    }

    #[test]
    fn a_job_comes_back_from_its_words() {
        let job = Job {
            run: "/run".into(),
            entry: Some("/entry".into()),
            mount: "/mount".into(),
            target: "/mnt".into(),
            start_timeout: Duration::from_secs(3),
            restart: Some(Restarts { hasty: 2, all: 7 }),
            way: Way::Adapter,
            command: vec!["a".into(), "b".into()],
        };
        let back = Job::parse(job.words()).unwrap();
        assert_eq!(format!("{back:?}"), format!("{job:?}"));
        assert!(Job::parse(vec!["a".into()]).is_none());
    }
}

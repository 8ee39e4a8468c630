//! The process that writes a log: one for each layer `log` of a mount, outside of all programs, as
//! long as the run (or the mount) is there.

use super::WRITER;
use crate::{
    failure::{Failure, path, reason, shown},
    own_path::own_path,
};
use culvert::mount::Mount;
use culvert_launch::run_directory::is_held;
use culvert_log::{Format, Writer};
use culvert_run::files::c_string;
use rustix::fs::{FlockOperation, flock};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// What a writer is told on its command line.
#[derive(Clone, Debug)]
pub struct Job {
    /// The directory of the run or mount: its lock is held while somebody uses it.
    pub directory: PathBuf,
    /// What is to be written.
    pub log: culvert_log::Job,
}

impl Job {
    fn words(&self) -> [OsString; 6] {
        let log = &self.log;
        let format = match log.format {
            Format::Json => "json",
            Format::LoggedFs => "loggedfs",
        };
        [
            self.directory.clone().into(),
            log.pipe.clone().into(),
            log.file.clone().into(),
            format.into(),
            log.config.clone().unwrap_or_default().into(),
            OsStr::from_bytes(&log.target).into(),
        ]
    }

    /// The job that `words` tell.
    pub fn parse(words: Vec<OsString>) -> Option<Self> {
        let [directory, pipe, file, format, config, target] = words.try_into().ok()?;
        Some(Self {
            directory: directory.into(),
            log: culvert_log::Job {
                pipe: pipe.into(),
                file: file.into(),
                format: match format.to_str()? {
                    "json" => Format::Json,
                    "loggedfs" => Format::LoggedFs,
                    _ => return None,
                },
                config: (!config.is_empty()).then(|| config.into()),
                target: target.as_bytes().to_vec(),
            },
        })
    }
}

/// Notes in `mounts`, which were prepared, which of their logs want nothing. A configuration that
/// is wrong is told of by [`start`].
pub fn note_idle(mounts: &mut [Mount]) {
    for mount in mounts {
        culvert_drivers::log::note_idle(mount, &|config| {
            culvert_log::Config::read(path(config)).is_ok_and(|config| config.wants_nothing())
        });
    }
}

/// Starts the writers of the logs that `mounts` want, of the run or mount in `directory`. The first
/// one that cannot write is the failure.
pub fn start(mounts: &[Mount], directory: &Path) -> Result<(), Failure> {
    for wanted in mounts.iter().flat_map(culvert_drivers::log::wanted) {
        let (file, target) = (path(&wanted.file), path(&wanted.target));
        if Path::new(file).starts_with(target) {
            let (file, target) = (shown(file), shown(target));
            return Err(Failure::new(format!(
                "log.file={file} lies in {target}, whose operations it holds"
            ))
            .advice("name a file outside of the mount"));
        }
        let job = Job {
            directory: directory.to_path_buf(),
            log: culvert_log::Job {
                pipe: path(&wanted.pipe).into(),
                file: path(&wanted.file).into(),
                format: match wanted.loggedfs {
                    true => Format::LoggedFs,
                    false => Format::Json,
                },
                config: wanted.config.as_deref().map(|config| path(config).into()),
                target: wanted.target,
            },
        };
        launch(&job)?;
    }
    Ok(())
}

/// Starts one; returns when it can write.
fn launch(job: &Job) -> Result<(), Failure> {
    let cannot = |error: io::Error| {
        Failure::new(format!(
            "cannot start the writer of the log: {}",
            reason(&error)
        ))
    };
    let output = Command::new(own_path().map_err(cannot)?)
        .arg(WRITER)
        .args(job.words())
        .env_clear()
        .envs(std::env::var_os("TZ").map(|zone| ("TZ", zone)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .map_err(cannot)?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let told = String::from_utf8_lossy(&output.stderr);
            Err(Failure::told(told.trim_end()))
        }
    }
}

unsafe extern "C" {
    /// fork(2) of the C library, which keeps its own books right.
    safe fn fork() -> i32;
}

/// Becomes the writer of `job`: a child that nobody waits for, once all is open.
pub fn write(job: &Job) -> Result<u8, Failure> {
    // The lock of the run among them, which all of its processes inherit. Nothing is open here yet.
    let _ = culvert_sys::fd::close_range(3, u32::MAX, 0);
    // A limit on files is an error here, not the end.
    let _ = culvert_sys::process::set_ignored(culvert_sys::raw::general::SIGXFSZ, true);
    let writer = Writer::open(&job.log)
        .map_err(|why| Failure::new(format!("the log cannot be written: {why}")))?;
    match fork() {
        -1 => {
            let why = reason(&io::Error::last_os_error());
            return Err(Failure::new(format!(
                "cannot start the writer of the log: {why}"
            )));
        }
        0 => {}
        _ => return Ok(0),
    }
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
    // Who reads the starting program's output is not kept waiting for its end.
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(&nothing);
        let _ = rustix::stdio::dup2_stderr(&nothing);
    }
    let directory = job.directory.clone();
    writer
        .write(move || until_over(&directory))
        .map(|()| 0)
        .map_err(Failure::new)
}

/// Returns when no process has the lock of `directory`.
pub fn until_over(directory: &Path) {
    let lock = directory.join("lock");
    loop {
        // Waits without a wake-up in between.
        match File::open(&lock) {
            Ok(lock) => {
                let _ = flock(&lock, FlockOperation::LockExclusive);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(_) => {}
        }
        if !is_held(culvert_sys::fd::CWD, &c_string(lock.as_os_str().as_bytes())) {
            return;
        }
        // A program has given up the lock that it inherited, and runs.
        thread::sleep(Duration::from_secs(1));
    }
}

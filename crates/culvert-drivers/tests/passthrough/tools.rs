//! Directories to serve, and drivers over them.

use culvert::{Attributes, Caller, FileSystem, Result, mount::Mount};
use culvert_drivers::Environment;
use culvert_sys::{nr, syscall};
use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Once,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// Where directories are made: on a tmpfs and on the disk.
pub const PLACES: [&str; 2] = ["/dev/shm", "/var/tmp"];

/// A directory that goes when it is dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// One in `place`, empty. The process's umask is 0 from here on: modes are what the tests say.
    pub fn new(place: &str) -> Self {
        static UMASK: Once = Once::new();
        // SAFETY: sets a number of the process.
        UMASK.call_once(|| unsafe {
            syscall::raw(nr::UMASK, [0; 6]);
        });
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("culvert-passthrough-{}-{number}", std::process::id());
        let path = Path::new(place).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Self(fs::canonicalize(path).unwrap())
    }

    /// One on the tmpfs.
    pub fn tmpfs() -> Self {
        Self::new(PLACES[0])
    }

    /// The driver over it.
    pub fn open(&self, options: &[&str]) -> Box<dyn FileSystem> {
        open(&self.0, options).unwrap()
    }

    /// Runs a shell script in it.
    #[track_caller]
    pub fn sh(&self, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(&self.0);
        let out = command.stderr(Stdio::inherit()).output().unwrap();
        assert!(out.status.success(), "{script}");
        String::from_utf8(out.stdout).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Directories may be closed to their owner.
        let mut chmod = Command::new("chmod");
        let _ = chmod.args(["-R", "u+rwX"]).arg(&self.0).output();
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The driver over `source`, as a process of a run has it.
pub fn open(source: &Path, options: &[&str]) -> Result<Box<dyn FileSystem>> {
    let mount = mount(source, options);
    let environment = Environment::default();
    let prepared = culvert_drivers::prepare(&mount, &environment, &mut |_| {})?;
    culvert_drivers::open(&prepared.mount, &environment)
}

/// A mount of `source` with `options`, bare or `name=value`.
pub fn mount(source: &Path, options: &[&str]) -> Mount {
    let option = |text: &&str| {
        let (name, value) = text.split_once('=').unwrap_or((text, ""));
        (name.to_owned(), value.as_bytes().to_vec())
    };
    Mount {
        driver: "passthrough".into(),
        source: source.as_os_str().as_bytes().to_vec(),
        target: b"/mnt".to_vec(),
        options: options.iter().map(option).collect(),
        branches: Vec::new(),
    }
}

/// Who the tests are.
pub fn caller() -> Caller<'static> {
    // SAFETY: calls without arguments.
    let (uid, gid) = unsafe {
        (
            syscall::raw(nr::GETEUID, [0; 6]) as u32,
            syscall::raw(nr::GETEGID, [0; 6]) as u32,
        )
    };
    Caller {
        uid,
        gid,
        groups: &[],
        pid: std::process::id(),
        umask: 0,
        rights: None,
    }
}

/// Whether this is the superuser.
pub fn root() -> bool {
    caller().uid == 0
}

/// What `path` below the root is; the references that the walk gives are kept.
#[track_caller]
pub fn find(driver: &dyn FileSystem, path: &str) -> Attributes {
    let walked = driver
        .walk(&caller(), driver.root(), path.as_bytes())
        .unwrap();
    assert_eq!(walked.consumed, path.len());
    walked.entry.unwrap().attributes
}

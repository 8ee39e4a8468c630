//! Places for unions.

use culvert::{Caller, FileSystem, Result, mount::Mount, testing::caller};
use culvert_drivers::Environment;
use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

/// A directory with a run's and those of branches in it, removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// The process's umask is 0 from here on: modes are what the tests say.
    pub fn new() -> Self {
        culvert_sys::process::umask(0);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = format!("culvert-union-{}-{number}", std::process::id());
        let base = PathBuf::from("/dev/shm").join(base);
        fs::create_dir_all(base.join("run")).unwrap();
        Self(base)
    }

    /// Runs `script` in it by the shell.
    pub fn sh(&self, script: &str) -> String {
        let mut shell = Command::new("sh");
        let out = shell.args(["-ec", script]).current_dir(&self.0).output();
        let out = out.unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{script}: {said}");
        String::from_utf8(out.stdout).unwrap()
    }

    /// A branch as it is asked for: `memory`, or a directory, made if it is missing, or an archive.
    /// Directories whose names begin with `bind` are shown as the superuser's.
    fn branch(&self, source: &str) -> Mount {
        let path = self.0.join(source);
        let (driver, source) = match source {
            "memory" => ("memory", b"memory".to_vec()),
            _ if source.ends_with(".tar") => ("archive", path.as_os_str().as_bytes().to_vec()),
            _ => {
                fs::create_dir_all(&path).unwrap();
                let driver = match source.starts_with("bind") {
                    true => "bind",
                    false => "passthrough",
                };
                (driver, path.as_os_str().as_bytes().to_vec())
            }
        };
        let options = match driver {
            "bind" => vec![("force-user".to_owned(), b"0".to_vec())],
            _ => Vec::new(),
        };
        Mount {
            driver: driver.into(),
            source,
            target: b"/mnt".to_vec(),
            options,
            branches: Vec::new(),
        }
    }

    /// The union of `branches` (`SOURCE[=MODE]`) with `options`, as it travels.
    pub fn prepare(&self, branches: &[&str], options: &[&str]) -> Result<Mount> {
        let both = branches
            .iter()
            .map(|text| text.split_once('=').unwrap_or((text, "")));
        let (sources, modes): (Vec<_>, Vec<_>) = both.unzip();
        let modes = format!("modes={}", modes.join(":"));
        let option = |text: &&str| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (name.to_owned(), value.as_bytes().to_vec())
        };
        let all = ["minfreespace=0", &modes];
        let mount = Mount {
            driver: "union".into(),
            source: b"branches".to_vec(),
            target: b"/mnt".to_vec(),
            options: all.iter().chain(options).map(option).collect(),
            branches: sources.iter().map(|source| self.branch(source)).collect(),
        };
        self.environment(|environment| {
            culvert_drivers::prepare(&mount, environment, &mut |_| {}).map(|ready| ready.mount)
        })
    }

    fn environment<R>(&self, run: impl FnOnce(&Environment<'_>) -> R) -> R {
        let directory = self.0.join("run");
        run(&Environment {
            run_directory: Some(directory.as_os_str().as_bytes()),
            ..Environment::default()
        })
    }

    /// One more process's view of a mount.
    pub fn open_again(&self, mount: &Mount) -> Box<dyn FileSystem> {
        self.environment(|environment| culvert_drivers::open(mount, environment))
            .unwrap()
    }

    /// A union as a process has it.
    pub fn open(&self, branches: &[&str], options: &[&str]) -> Box<dyn FileSystem> {
        let mount = self.prepare(branches, options).unwrap();
        self.open_again(&mount)
    }

    /// Which branches have `path`.
    pub fn on(&self, branches: &[&str], path: &str) -> Vec<usize> {
        let there = |branch: &str| fs::symlink_metadata(self.0.join(branch).join(path)).is_ok();
        let all = branches.iter().enumerate();
        all.filter(|(_, branch)| there(branch))
            .map(|(at, _)| at)
            .collect()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Who the tests are.
pub const fn me() -> Caller<'static> {
    caller()
}

/// Whether this is the superuser, as whom the kit acts.
pub fn root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

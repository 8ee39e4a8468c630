//! Places for unions.

use crate::scratch::option;
pub use crate::scratch::{Scratch, root};
use culvert::{Caller, FileSystem, Result, mount::Mount, testing::caller};
use culvert_drivers::Environment;
use std::{fs, os::unix::ffi::OsStrExt};

impl Scratch {
    /// A run's directory; branches are made in it.
    pub fn new() -> Self {
        Self::with("union", &["run"])
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
        let all = ["minfreespace=0", &modes];
        let mount = Mount {
            driver: "union".into(),
            source: b"branches".to_vec(),
            target: b"/mnt".to_vec(),
            options: all.iter().chain(options).map(|text| option(text)).collect(),
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
}

/// Who the tests are.
pub const fn me() -> Caller<'static> {
    caller()
}

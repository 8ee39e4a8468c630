//! Places for overlays.

use crate::scratch::option;
pub use crate::scratch::{Scratch, root};
use culvert::{FileSystem, Result, mount::Mount};
use culvert_drivers::Environment;
use std::{fs, os::unix::ffi::OsStrExt};

impl Scratch {
    /// A run's directory, and those of layers.
    pub fn new() -> Self {
        Self::with("overlay", &["run", "upper", "work"])
    }

    /// A layer as it is asked for: `memory`, or a directory, made if it is missing, or an archive.
    fn layer(&self, source: &str) -> Mount {
        let path = self.0.join(source);
        let (driver, source) = match source {
            "memory" => ("memory", b"memory".to_vec()),
            _ if source.contains(".tar") => ("archive", path.as_os_str().as_bytes().to_vec()),
            _ => {
                fs::create_dir_all(&path).unwrap();
                ("passthrough", path.as_os_str().as_bytes().to_vec())
            }
        };
        Mount {
            driver: driver.into(),
            source,
            target: b"/mnt".to_vec(),
            options: Vec::new(),
            branches: Vec::new(),
        }
    }

    /// The overlay of the layers `lowers` below `upper`, if there is one, as it travels.
    pub fn prepare(&self, upper: &str, lowers: &[&str], options: &[&str]) -> Result<Mount> {
        self.prepare_for("run", upper, lowers, options)
    }

    /// The same for the run with that directory.
    pub fn prepare_for(
        &self,
        run: &str,
        upper: &str,
        lowers: &[&str],
        options: &[&str],
    ) -> Result<Mount> {
        let mut all: Vec<_> = options.iter().map(|text| option(text)).collect();
        all.push(("lowerdir".into(), lowers.join(":").into()));
        let mut sources = lowers.to_vec();
        if !upper.is_empty() {
            sources.insert(0, upper);
            all.push(("upperdir".into(), upper.into()));
            if upper != "memory" && !all.iter().any(|(name, _)| name == "workdir") {
                let work = self.0.join("work").into_os_string().into_encoded_bytes();
                all.push(("workdir".into(), work));
            }
        }
        let mount = Mount {
            driver: "overlay".into(),
            source: b"overlay".to_vec(),
            target: b"/mnt".to_vec(),
            options: all,
            branches: sources.iter().map(|source| self.layer(source)).collect(),
        };
        self.environment(run, |environment| {
            culvert_drivers::prepare(&mount, environment, &mut |_| {}).map(|ready| ready.mount)
        })
    }

    fn environment<R>(&self, run: &str, work: impl FnOnce(&Environment<'_>) -> R) -> R {
        let directory = self.0.join(run);
        work(&Environment {
            run_directory: Some(directory.as_os_str().as_bytes()),
            ..Environment::default()
        })
    }

    /// One more process's view of a mount.
    pub fn open_again(&self, mount: &Mount) -> Box<dyn FileSystem> {
        self.environment("run", |environment| {
            culvert_drivers::open(mount, environment)
        })
        .unwrap()
    }

    /// An overlay as a process has it.
    pub fn open(&self, upper: &str, lowers: &[&str], options: &[&str]) -> Box<dyn FileSystem> {
        let mount = self.prepare(upper, lowers, options).unwrap();
        self.open_again(&mount)
    }
}

//! Places for file systems in memory.

use culvert::{FileSystem, Result, mount::Mount};
use culvert_drivers::{Environment, memory};
use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

/// A directory that stands for a run's, removed when dropped.
pub struct Run(PathBuf);

impl Run {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = format!("culvert-memory-{}-{number}", std::process::id());
        let base = PathBuf::from("/dev/shm").join(base);
        std::fs::create_dir_all(base.join("run")).unwrap();
        Self(base)
    }

    fn environment<R>(&self, run: impl FnOnce(&Environment<'_>) -> R) -> R {
        use std::os::unix::ffi::OsStrExt;
        let directory = self.0.join("run");
        run(&Environment {
            run_directory: Some(directory.as_os_str().as_bytes()),
            ..Environment::default()
        })
    }

    /// The mount as it travels.
    pub fn prepare(&self, source: &str, options: &[(&str, &str)]) -> Result<Mount> {
        let options = options
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        let mount = Mount {
            driver: "memory".into(),
            source: source.into(),
            target: b"/mnt".to_vec(),
            options: options.collect(),
        };
        self.environment(|environment| memory::prepare(&mount, environment, &mut |_| ()))
            .map(|prepared| prepared.mount)
    }

    /// One more process's view of a mount.
    pub fn open(&self, mount: &Mount) -> Result<Box<dyn FileSystem>> {
        self.environment(|environment| memory::open(mount, environment))
    }

    /// A new file system.
    pub fn fresh(&self, options: &[(&str, &str)]) -> Box<dyn FileSystem> {
        let mount = self.prepare("memory", options).unwrap();
        self.open(&mount).unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

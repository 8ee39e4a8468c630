//! Places for file systems in memory.

use culvert::{Errno, File, FileSystem, Result, mount::Mount};
use culvert_drivers::{Environment, memory};
use culvert_sys::{nr, syscall};
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

    /// The run's directory.
    pub fn directory(&self) -> PathBuf {
        self.0.join("run")
    }

    /// A directory on a disk, removed with the run.
    pub fn spill(&self) -> String {
        let name = self.0.file_name().unwrap().to_str().unwrap();
        let spill = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&spill).unwrap();
        spill.to_str().unwrap().into()
    }

    fn environment<R>(&self, run: impl FnOnce(&Environment<'_>) -> R) -> R {
        use std::os::unix::ffi::OsStrExt;
        let directory = self.directory();
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
            branches: Vec::new(),
        };
        self.environment(|environment| memory::prepare(&mount, environment, &mut |_| ()))
            .map(|prepared| prepared.mount)
    }

    /// One more process's view of a mount.
    pub fn open(&self, mount: &Mount) -> Result<Box<dyn FileSystem>> {
        self.environment(|environment| memory::open(mount, environment))
    }

    /// A new file system, and its mount.
    pub fn fresh(&self, options: &[(&str, &str)]) -> (Mount, Box<dyn FileSystem>) {
        let mount = self.prepare("memory", options).unwrap();
        let made = self.open(&mount).unwrap();
        (mount, made)
    }

    /// Panics with all that is inconsistent.
    #[track_caller]
    pub fn assert_consistent(&self, mount: &Mount) {
        let found = memory::testing::check(&mount.source).unwrap();
        assert!(found.is_empty(), "inconsistent:\n{}", found.join("\n"));
    }
}

/// A shared mapping of the beginning of a file.
pub struct Mapped(usize, usize);

impl Mapped {
    /// Maps `length` bytes of `file`: for stores, if it may be written to.
    pub fn new(file: &dyn File, length: usize, stores: bool) -> Result<Self> {
        let mut mapped = Err(Errno::EIO);
        let protection = if stores { 3 } else { 1 };
        let has_one = file.with_kernel_file((0, length as u64), stores, &mut |fd| {
            let arguments = [0, length, protection, 1, fd as usize, 0];
            // SAFETY: a new mapping.
            mapped = unsafe { syscall::call(nr::MMAP, arguments) };
        })?;
        assert!(has_one);
        Ok(Self(mapped?, length))
    }

    /// The bytes as they are now: within the file.
    pub fn bytes(&self, range: std::ops::Range<usize>) -> Vec<u8> {
        assert!(range.end <= self.1);
        // SAFETY: within the mapping.
        range
            .map(|at| unsafe { (self.0 as *const u8).add(at).read_volatile() })
            .collect()
    }

    /// Stores bytes: within the file.
    pub fn store(&self, at: usize, bytes: &[u8]) {
        assert!(at + bytes.len() <= self.1);
        for (index, byte) in bytes.iter().enumerate() {
            // SAFETY: within the mapping.
            unsafe { (self.0 as *mut u8).add(at + index).write_volatile(*byte) };
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`.
        unsafe { syscall::call(nr::MUNMAP, [self.0, self.1]) }.unwrap();
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
        let spill = std::env::temp_dir().join(self.0.file_name().unwrap());
        let _ = std::fs::remove_dir_all(spill);
    }
}

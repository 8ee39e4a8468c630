//! Mounts of plfs in directories of their own.

use culvert::{File, FileSystem, OpenFlags, Opened, Result, SetAttributes};
use culvert::{mount::Mount, testing::caller};
use culvert_drivers::Environment;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Back ends, removed when dropped.
pub struct Scratch {
    pub root: PathBuf,
    pub backends: Vec<PathBuf>,
}

impl Scratch {
    /// `count` back ends.
    pub fn new(count: usize) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let (pid, next) = (std::process::id(), NEXT.fetch_add(1, Ordering::SeqCst));
        let root = std::env::temp_dir().join(format!("culvert-plfs-{pid}-{next}"));
        let backends: Vec<_> = (0..count)
            .map(|at| root.join(format!("back{at}")))
            .collect();
        for backend in &backends {
            std::fs::create_dir_all(backend).unwrap();
        }
        Self { root, backends }
    }

    /// The mount with `options` (`name=value`), as a launcher has it.
    pub fn mount(&self, options: &[&str]) -> Mount {
        let backends: Vec<_> = self
            .backends
            .iter()
            .map(|back| back.to_str().unwrap())
            .collect();
        let pair = |option: &&str| {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            (name.into(), value.as_bytes().to_vec())
        };
        Mount {
            driver: "plfs".into(),
            source: backends.join(";").into_bytes(),
            target: b"/mnt".to_vec(),
            options: options.iter().map(pair).collect(),
            branches: Vec::new(),
        }
    }

    /// The same, prepared for a run of several processes.
    pub fn prepared(&self, options: &[&str]) -> Mount {
        let run = self.root.to_str().unwrap().as_bytes();
        let environment = Environment {
            run_directory: Some(run),
            ..Environment::default()
        };
        let mount = self.mount(options);
        culvert_drivers::prepare(&mount, &environment, &mut |_| ())
            .unwrap()
            .mount
    }

    /// The file system.
    pub fn open(&self, options: &[&str]) -> Box<dyn FileSystem> {
        open(&self.prepared(options))
    }
}

/// The file system of a prepared mount, as one of several processes has it.
pub fn open(mount: &Mount) -> Box<dyn FileSystem> {
    culvert_drivers::open(mount, &Environment::default()).unwrap()
}

/// Cuts `file`, or makes it longer.
pub fn truncate(file: &dyn File, size: u64) -> Result<()> {
    let changes = SetAttributes {
        size: Some(size),
        ..SetAttributes::default()
    };
    file.set_attributes(&caller(), &changes).map(drop)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Opens `name` in the root to read.
pub fn open_file(fs: &dyn FileSystem, name: &str) -> Result<Box<dyn File>> {
    open_for(fs, name, OpenFlags::READ)
}

/// Opens `name` in the root.
pub fn open_for(fs: &dyn FileSystem, name: &str, flags: OpenFlags) -> Result<Box<dyn File>> {
    let entry = fs.lookup(&caller(), fs.root(), name.as_bytes())?;
    driven(fs.open(&caller(), entry.attributes.node, flags)?)
}

/// Makes `name` in the root, open for both.
pub fn create_file(fs: &dyn FileSystem, name: &str) -> Box<dyn File> {
    let flags = OpenFlags::READ_WRITE;
    let made = fs.create(&caller(), fs.root(), name.as_bytes(), flags, 0o644);
    driven(made.unwrap().1).unwrap()
}

fn driven(opened: Opened) -> Result<Box<dyn File>> {
    match opened {
        Opened::Driven(file) => Ok(file),
        Opened::Backed(_) => panic!("a file of the kernel's"),
    }
}

/// All of `file`.
pub fn read_all(file: &dyn File) -> Result<Vec<u8>> {
    let (mut all, mut piece) = (Vec::new(), vec![0; 10_000]);
    loop {
        match file.read_at(all.len() as u64, &mut &mut piece[..])? {
            0 => return Ok(all),
            count => all.extend_from_slice(&piece[..count]),
        }
    }
}

/// Writes all of `bytes`.
pub fn write_at(file: &dyn File, offset: u64, bytes: &[u8]) {
    assert_eq!(file.write_at(offset, &mut &bytes[..]).unwrap(), bytes.len());
}

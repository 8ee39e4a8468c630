//! Places for mounts, and short words for what is asked often.

use culvert::{
    Errno, FileSystem, Node, OpenFlags, Result,
    mount::{Mount, decode, encode},
    testing::caller,
};
use culvert_drivers::{Environment, casefold};
use std::{
    fs,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
};

/// `below` under the layer, as in a process alone.
pub fn layered(below: Box<dyn FileSystem>, options: &[&str]) -> Box<dyn FileSystem> {
    let options = options.iter().map(|name| ((*name).into(), Vec::new()));
    let environment = Environment::default();
    let options = casefold::prepare(options.collect(), &environment).unwrap();
    casefold::open(&options, &environment, below).unwrap()
}

pub fn node(fs: &dyn FileSystem, dir: Node, name: &[u8]) -> Result<Node> {
    Ok(fs.lookup(&caller(), dir, name)?.attributes.node)
}

/// A new, empty file.
pub fn make(fs: &dyn FileSystem, dir: Node, name: &str) -> Node {
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
    let made = fs.create(&caller(), dir, name.as_bytes(), flags, 0o644);
    made.unwrap().0.attributes.node
}

pub fn names(fs: &dyn FileSystem, dir: Node) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    fs.read_directory(&caller(), dir, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    })
    .unwrap();
    names.sort();
    names
}

pub fn errno<T>(result: Result<T>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

/// `name` with its letters in the cases that the bits of `which` say.
pub fn cased(name: &str, which: usize) -> String {
    let letters = name.chars().enumerate();
    letters
        .map(|(at, letter)| match which >> (at % 16) & 1 {
            0 => letter.to_ascii_lowercase(),
            _ => letter.to_ascii_uppercase(),
        })
        .collect()
}

/// A run's directory, and a source in it; removed when dropped.
pub struct Run(pub PathBuf, bool);

impl Run {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = format!("culvert-casefold-{}-{number}", std::process::id());
        let base = PathBuf::from("/dev/shm").join(base);
        fs::create_dir_all(base.join("source")).unwrap();
        Self(base, true)
    }

    /// Another process's.
    pub fn of(base: PathBuf) -> Self {
        Self(base, false)
    }

    fn environment<R>(&self, work: impl FnOnce(&Environment<'_>) -> R) -> R {
        work(&Environment {
            run_directory: Some(self.0.as_os_str().as_bytes()),
            ..Environment::default()
        })
    }

    /// The source under `layers`, as it travels.
    pub fn prepare(&self, layers: &[&str]) -> Mount {
        let layers = layers.iter();
        let mount = Mount {
            driver: "passthrough".into(),
            source: self.0.join("source").as_os_str().as_bytes().to_vec(),
            target: b"/mnt".to_vec(),
            options: layers
                .map(|name| ("layer".into(), name.as_bytes().to_vec()))
                .collect(),
            branches: Vec::new(),
        };
        self.environment(|environment| {
            let prepared = culvert_drivers::prepare(&mount, environment, &mut |_| {});
            prepared.unwrap().mount
        })
    }

    pub fn open(&self, mount: &Mount) -> Box<dyn FileSystem> {
        self.environment(|environment| culvert_drivers::open(mount, environment).unwrap())
    }

    /// Writes `mount` down for other processes.
    pub fn keep(&self, mount: &Mount) {
        let text = encode(std::slice::from_ref(mount));
        fs::write(self.0.join("mount"), text).unwrap();
    }

    /// What was written down.
    pub fn prepared(&self) -> Mount {
        let text = fs::read(self.0.join("mount")).unwrap();
        decode(&text).unwrap().remove(0)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.1 {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

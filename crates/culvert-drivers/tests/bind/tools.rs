//! Places for `bind`.

pub use crate::scratch::{Scratch, root};
use culvert::{Caller, Entry, FileSystem, Result, mount::Mount, testing::caller};
use culvert_drivers::Environment;
use std::os::unix::ffi::OsStrExt;

impl Scratch {
    /// A run's directory, and a source.
    pub fn new() -> Self {
        Self::with("bind", &["run", "source"])
    }

    fn environment<R>(&self, alone: bool, run: impl FnOnce(&Environment<'_>) -> R) -> R {
        let directory = self.0.join("run");
        run(&Environment {
            run_directory: Some(directory.as_os_str().as_bytes()),
            alone,
            ..Environment::default()
        })
    }

    /// A mount of `driver` with `options`, those of the layer without its name before them;
    /// `alone`: as a kernel mount's server has it.
    pub fn open(&self, driver: &str, options: &[&str], alone: bool) -> Result<Box<dyn FileSystem>> {
        let source = match driver {
            "memory" => b"memory".to_vec(),
            _ => self.0.join("source").as_os_str().as_bytes().to_vec(),
        };
        let prefix = if driver == "bind" { "" } else { "bind." };
        let option = |text: &&str| {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            (format!("{prefix}{name}"), value.as_bytes().to_vec())
        };
        let layer = ("layer".to_owned(), b"bind".to_vec());
        let layer = Some(layer).filter(|_| driver != "bind");
        let mount = Mount {
            driver: driver.into(),
            source,
            target: b"/mnt".to_vec(),
            options: layer
                .into_iter()
                .chain(options.iter().map(option))
                .collect(),
            branches: Vec::new(),
        };
        self.environment(alone, |environment| {
            let ready = culvert_drivers::prepare(&mount, environment, &mut |_| {})?;
            culvert_drivers::open(&ready.mount, environment)
        })
    }
}

/// User `uid`, who is in no group but his own.
pub const fn user(uid: u32) -> Caller<'static> {
    Caller {
        uid,
        gid: uid,
        ..caller()
    }
}

/// What `path` is to `caller`.
pub fn find(fs: &dyn FileSystem, caller: &Caller<'_>, path: &str) -> Result<Entry> {
    let mut dir = fs.root();
    let mut found = None;
    for name in path.split('/') {
        let entry = fs.lookup(caller, dir, name.as_bytes())?;
        dir = entry.attributes.node;
        found = Some(entry);
    }
    Ok(found.expect("a path has a name"))
}

/// The names in the root.
pub fn names(fs: &dyn FileSystem) -> Vec<String> {
    let mut all = Vec::new();
    fs.read_directory(&caller(), fs.root(), 0, &mut |entry| {
        all.push(String::from_utf8_lossy(entry.name).into_owned());
        true
    })
    .unwrap();
    all.sort();
    all
}

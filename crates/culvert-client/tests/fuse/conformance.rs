//! The conformance kit of the driver API, through the protocol and back.

use crate::ours::Served;
use culvert::{
    FileSystem,
    mount::Mount,
    testing::{Memory, Tree, fill, reading, writing},
};
use culvert_drivers::{Environment, memory, passthrough};
use std::{
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// A directory that is removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("culvert-client-{}-{number}", std::process::id());
        let path = PathBuf::from("/dev/shm").join(name);
        std::fs::create_dir_all(&path).expect("/dev/shm can be written");
        Self(path)
    }

    fn mount(&self, driver: &str, source: &[u8]) -> (Mount, Environment<'_>) {
        let mount = Mount {
            driver: driver.into(),
            source: source.to_vec(),
            target: b"/mnt".to_vec(),
            options: Default::default(),
            branches: Vec::new(),
        };
        let environment = Environment {
            run_directory: Some(self.0.as_os_str().as_bytes()),
            ..Environment::default()
        };
        (mount, environment)
    }

    pub fn memory(&self) -> Box<dyn FileSystem> {
        let (mount, environment) = self.mount("memory", b"memory");
        let prepared = memory::prepare(&mount, &environment, &mut |_| ()).expect("a mount");
        memory::open(&prepared.mount, &environment).expect("a file system")
    }

    pub fn passthrough(&self) -> Box<dyn FileSystem> {
        // The server acts as who asks, and the kit as several users.
        let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(&self.0, everybody).expect("it is ours");
        let (mount, environment) = self.mount("passthrough", self.0.as_os_str().as_bytes());
        let prepared = passthrough::prepare(&mount, &environment, &mut |_| ()).expect("a mount");
        passthrough::open(&prepared.mount, &environment).expect("a file system")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The writing half on new file systems that `make` makes, each behind a server of its own; rules
/// `but` are the server's to break.
fn writes(make: &dyn Fn(&Scratch) -> Box<dyn FileSystem>, but: &[&str]) {
    let kept = Mutex::new(Vec::new());
    let mut report = writing(&|| {
        let scratch = Scratch::new();
        let served = Served::new(make(&scratch));
        let client = Box::new(served.client());
        kept.lock().expect("no panic").push((served, scratch));
        client
    });
    report
        .failures
        .retain(|failure| !but.contains(&failure.rule));
    report.assert_ok();
}

#[test]
fn the_kits_own_file_system_is_written() {
    writes(&|_| Box::new(Memory::new()), &[]);
}

#[test]
fn memory_is_written() {
    writes(&Scratch::memory, &[]);
}

#[test]
fn a_directory_is_written() {
    // The server acts as the user, who may not write in the superuser's directory.
    writes(&Scratch::passthrough, &["ownership"]);
}

fn tree() -> Tree {
    let mut tree = Tree::new()
        .directory("a")
        .file("a/hello", "hello\n")
        .file("a/nothing", "")
        .symlink("a/soft", "../hello")
        .directory("empty")
        .permissions(0o711)
        .file("large", vec![7; 100_000])
        .directory("many");
    for number in 0..150 {
        tree = tree.file(format!("many/{number}"), format!("{number}"));
    }
    tree.hard_link("same", "a/hello")
}

#[test]
fn a_tree_reads_as_it_is() {
    let tree = tree();
    for make in [Scratch::memory, Scratch::passthrough] {
        let scratch = Scratch::new();
        let filesystem = make(&scratch);
        fill(&*filesystem, &tree).expect("it can be written");
        let served = Served::new(filesystem);
        reading(&served.client(), &tree).assert_ok();
        let read_only = culvert_client::Settings {
            read_only: true,
            ..crate::ours::settings()
        };
        reading(&served.client_with(read_only), &tree).assert_ok();
    }
}

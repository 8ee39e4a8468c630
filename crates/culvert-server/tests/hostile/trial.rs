//! A session of the server with a file system in memory, which a [`Kernel`] asks; also what the
//! fuzz target `session` does.

use crate::kernel::{Kernel, Seen};
use culvert::{
    File, FileLayer, FileSystem, Layer, Layered, LayeredFile, Node, OpenFlags, Opened, mount::Mount,
};
use culvert_drivers::{Environment, memory};
use culvert_server::{Ended, Session, Settings};
use std::{
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

/// A file system in memory, removed when dropped.
pub struct Memory {
    directory: PathBuf,
    mount: Mount,
}

impl Memory {
    /// An empty one of 16 MiB.
    pub fn new() -> (Self, Box<dyn FileSystem>) {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let name = format!("culvert-hostile-{}-{number}", std::process::id());
        let directory = PathBuf::from("/dev/shm").join(name);
        std::fs::create_dir_all(&directory).expect("/dev/shm can be written");
        let environment = Environment {
            run_directory: Some(directory.as_os_str().as_bytes()),
            alone: true,
            ..Environment::default()
        };
        let asked = Mount {
            driver: "memory".into(),
            source: "memory".into(),
            target: b"/mnt".to_vec(),
            options: [("size".to_owned(), b"16M".to_vec())].into(),
            branches: Vec::new(),
        };
        let prepared = memory::prepare(&asked, &environment, &mut |_| ()).expect("a mount");
        let filesystem = memory::open(&prepared.mount, &environment).expect("a file system");
        let mount = prepared.mount;
        (Self { directory, mount }, filesystem)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// One thread, which answers before it asks for more.
pub fn settings() -> Settings {
    Settings {
        threads: 1,
        without: vec!["stay-awake".into()],
        ..Settings::default()
    }
}

/// Counts the files that are open.
struct Counted {
    filesystem: Box<dyn FileSystem>,
    open: Arc<AtomicUsize>,
}

/// One of them.
struct Open {
    file: Box<dyn File>,
    open: Arc<AtomicUsize>,
}

impl Layer for Counted {
    type Inner = dyn FileSystem;
    fn inner(&self) -> &Self::Inner {
        &*self.filesystem
    }
    fn opened(&self, _: Node, _: OpenFlags, opened: Opened) -> Opened {
        let Opened::Driven(file) = opened else {
            return opened;
        };
        self.open.fetch_add(1, Relaxed);
        let open = Arc::clone(&self.open);
        Opened::Driven(Box::new(LayeredFile(Open { file, open })))
    }
}

impl FileLayer for Open {
    type Inner = dyn File;
    fn inner(&self) -> &Self::Inner {
        &*self.file
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Relaxed);
    }
}

/// A session with a kernel that asks what `numbers` say: what that has seen.
///
/// # Panics
/// Something was not answered, or answered by what is not well-formed; a file was kept open; the
/// file system is damaged.
pub fn answered(numbers: impl FnMut() -> Option<u64> + Send + 'static) -> Seen {
    let (memory, filesystem) = Memory::new();
    let open = Arc::new(AtomicUsize::new(0));
    let counted = Layered(Counted {
        filesystem,
        open: Arc::clone(&open),
    });
    let kernel = Kernel::new(numbers);
    let session = Session::negotiate(Box::new(counted), settings(), &kernel);
    let session = session.expect("INIT is right");
    let ended = session.serve(Box::new(kernel.clone()));
    assert!(matches!(ended, Ended::Unmounted), "{ended:?}");
    // All that was opened was released, whatever else was.
    assert_eq!(open.load(Relaxed), 0);
    drop(session);
    let wrong = memory::testing::check(&memory.mount.source).expect("it can be looked at");
    assert!(wrong.is_empty(), "{wrong:?}");
    kernel.seen()
}

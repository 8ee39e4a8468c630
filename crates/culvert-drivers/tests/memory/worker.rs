//! Other processes: this test program started again, to run one of its tests as a worker.

use culvert::{FileSystem, mount::Mount};
use std::{
    ffi::OsString,
    os::unix::ffi::{OsStrExt, OsStringExt},
    process::{Child, Command, Stdio},
};

const SOURCE: &str = "CULVERT_TEST_SOURCE";
const NUMBER: &str = "CULVERT_TEST_NUMBER";

/// Starts the test `name` as worker `number` on `mount`.
pub fn start(name: &str, mount: &Mount, number: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(SOURCE, OsString::from_vec(mount.source.clone()))
        .env(NUMBER, number.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// In a worker: the file system, the shared file, the worker's number. None in the test itself.
pub fn join() -> Option<(Box<dyn FileSystem>, Vec<u8>, u64)> {
    let source = std::env::var_os(SOURCE)?;
    let number = std::env::var(NUMBER).ok()?.parse().ok()?;
    let mount = Mount {
        driver: "memory".into(),
        source: source.as_bytes().to_vec(),
        target: b"/mnt".to_vec(),
        options: Vec::new(),
        branches: Vec::new(),
    };
    let made = culvert_drivers::memory::open(&mount, &culvert_drivers::Environment::default());
    // A damaged file system may refuse to be opened.
    match made {
        Ok(made) => Some((made, mount.source, number)),
        Err(_) => std::process::exit(0),
    }
}

//! Directories for tests of layers: what those of several layers have in common.

#![allow(dead_code, reason = "not every layer's tests need all of it")]

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

/// A directory, removed when dropped.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// One for tests of `layer`, with these directories in it. The process's umask is 0 from here
    /// on: modes are what the tests say.
    pub fn with(layer: &str, directories: &[&str]) -> Self {
        culvert_sys::process::umask(0);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = format!("culvert-{layer}-{}-{number}", std::process::id());
        let base = PathBuf::from("/dev/shm").join(base);
        for name in directories {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        Self(base)
    }

    /// Runs `script` in it by the shell.
    pub fn sh(&self, script: &str) -> String {
        let mut shell = Command::new("sh");
        let out = shell.args(["-ec", script]).current_dir(&self.0).output();
        let out = out.unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{script}: {said}");
        String::from_utf8(out.stdout).unwrap()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The option `NAME[=VALUE]`.
pub fn option(text: &str) -> (String, Vec<u8>) {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    (name.to_owned(), value.as_bytes().to_vec())
}

/// Whether this is the superuser, as whom the kit acts.
pub fn root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

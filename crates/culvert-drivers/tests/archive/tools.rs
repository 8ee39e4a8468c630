//! Directories, programs and mounts for the tests.

use culvert::mount::Mount;
use culvert::{Caller, FileSystem, Node, OpenFlags, Opened, Result};
use culvert_drivers::{Environment, Prepared};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// A directory that goes away with the test.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "culvert-archive-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes an archive of these bytes.
    pub fn archive(&self, bytes: &[u8]) -> PathBuf {
        let path = self.path("archive");
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = Command::new("chmod")
            .args(["-R", "u+rwx"])
            .arg(&self.0)
            .status();
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a shell script in `directory`; it must succeed.
pub fn sh(directory: &Path, script: &str) {
    let output = Command::new("sh")
        .args(["-euc", script])
        .current_dir(directory)
        .env("TZ", "UTC")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Runs a Python script in `directory`; it must succeed.
pub fn python(directory: &Path, script: &str) {
    let output = Command::new("python3")
        .args(["-c", script])
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

pub const CALLER: Caller<'static> = Caller {
    uid: 0,
    gid: 0,
    groups: &[],
    pid: 1,
    umask: 0,
    rights: None,
};

pub fn mount_of(archive: &Path, options: &[(&str, &str)]) -> Mount {
    Mount {
        driver: "archive".into(),
        source: archive.as_os_str().as_bytes().to_vec(),
        target: b"/mnt".to_vec(),
        options: options
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()))
            .collect(),
        branches: Vec::new(),
    }
}

/// Prepares a mount whose index lies beside the archive.
pub fn prepare(archive: &Path, options: &[(&str, &str)]) -> Result<Prepared> {
    let cache = archive.parent().unwrap().join("cache");
    let environment = Environment {
        cache_directory: Some(cache.as_os_str().as_bytes()),
        ..Environment::default()
    };
    culvert_drivers::prepare(&mount_of(archive, options), &environment, &mut |_| {})
}

/// A mount, through both of its moments.
pub fn open(archive: &Path, options: &[(&str, &str)]) -> Result<(Box<dyn FileSystem>, Prepared)> {
    let prepared = prepare(archive, options)?;
    let fs = culvert_drivers::open(&prepared.mount, &Environment::default())?;
    Ok((fs, prepared))
}

/// The node that `path` names, links not followed.
pub fn node(fs: &dyn FileSystem, path: &[u8]) -> Result<Node> {
    if path.is_empty() {
        return Ok(fs.root());
    }
    let walked = fs.walk(&CALLER, fs.root(), path)?;
    assert_eq!(walked.consumed, path.len(), "a link on the way");
    Ok(walked.entry.unwrap().attributes.node)
}

/// Reads all of a file, in pieces of `piece` bytes.
pub fn read(fs: &dyn FileSystem, node: Node, piece: usize) -> Result<Vec<u8>> {
    let Opened::Driven(file) = fs.open(&CALLER, node, OpenFlags(0))? else {
        panic!("not driven");
    };
    let (mut content, mut buffer) = (Vec::new(), vec![0; piece]);
    loop {
        let mut rest = &mut buffer[..];
        let count = file.read_at(content.len() as u64, &mut rest)?;
        if count == 0 {
            return Ok(content);
        }
        content.extend_from_slice(&buffer[..count]);
    }
}

/// Names in a directory, in its order.
pub fn names(fs: &dyn FileSystem, directory: Node) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    fs.read_directory(&Caller::SYSTEM, directory, 0, &mut |entry| {
        names.push(entry.name.to_vec());
        true
    })?;
    Ok(names)
}

/// Every path below `directory`, sorted.
pub fn paths(fs: &dyn FileSystem) -> Vec<String> {
    fn below(fs: &dyn FileSystem, directory: Node, path: &str, all: &mut Vec<String>) {
        for name in names(fs, directory).unwrap() {
            let entry = fs.lookup(&CALLER, directory, &name).unwrap();
            let path = format!("{path}{}", String::from_utf8_lossy(&name));
            if entry.attributes.kind == culvert::FileKind::Directory {
                below(fs, entry.attributes.node, &format!("{path}/"), all);
                all.push(format!("{path}/"));
            } else {
                all.push(path);
            }
        }
    }
    let mut all = Vec::new();
    below(fs, fs.root(), "", &mut all);
    all.sort();
    all
}

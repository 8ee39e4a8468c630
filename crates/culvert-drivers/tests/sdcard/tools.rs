//! The layer over a driver, and what is asked of it.

use culvert::testing::caller;
use culvert::{Errno, FileSystem, Node, OpenFlags, Opened, Result};
use culvert_drivers::{Environment, sdcard};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

pub fn layered(below: Box<dyn FileSystem>, options: &[(&str, &str)]) -> Box<dyn FileSystem> {
    layered_in(&Environment::default(), below, options)
}

pub fn layered_in(
    environment: &Environment<'_>,
    below: Box<dyn FileSystem>,
    options: &[(&str, &str)],
) -> Box<dyn FileSystem> {
    let options = options.iter();
    let options = options.map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()));
    let options = sdcard::prepare(options.collect(), environment).unwrap();
    sdcard::open(&options, environment, below).unwrap()
}

pub fn errno<T>(result: Result<T>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

pub fn node(fs: &dyn FileSystem, dir: Node, name: &str) -> Result<Node> {
    let found = fs.lookup(&caller(), dir, name.as_bytes())?;
    Ok(found.attributes.node)
}

/// Owner, group and mode of a path.
pub fn shown(fs: &dyn FileSystem, path: &str) -> (u32, u32, u32) {
    let mut at = fs.root();
    for name in path.split('/').filter(|name| !name.is_empty()) {
        at = node(fs, at, name).unwrap();
    }
    let found = fs.attributes(&caller(), at).unwrap();
    (found.uid, found.gid, found.permissions)
}

pub fn mkdir(fs: &dyn FileSystem, dir: Node, name: &str) -> Node {
    let made = fs.mkdir(&caller(), dir, name.as_bytes(), 0o700);
    made.unwrap().attributes.node
}

pub fn make(fs: &dyn FileSystem, dir: Node, name: &str) -> (Node, Opened) {
    let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
    let made = fs.create(&caller(), dir, name.as_bytes(), flags, 0o600);
    let (entry, opened) = made.unwrap();
    (entry.attributes.node, opened)
}

/// A file that is removed when dropped.
pub struct List(pub PathBuf);

impl List {
    pub fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("culvert-packages-{}-{number}", std::process::id());
        let list = Self(Path::new("/dev/shm").join(name));
        list.write(text);
        list
    }

    /// As Android writes it: another file in its place.
    pub fn write(&self, text: &str) {
        let new = self.0.with_extension("new");
        fs::write(&new, text).unwrap();
        fs::rename(&new, &self.0).unwrap();
    }
}

impl Drop for List {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

//! The list of installed packages (`/data/system/packages.list`): a line for each, its name, the
//! number of its app, and more.

use crate::archive::host::terminated;
use alloc::{collections::BTreeMap, sync::Arc, vec::Vec};
use culvert::{Timespec, sync::Mutex};
use culvert_sys::{flags::OFlags, fs};

/// Which app a package has.
#[derive(Debug, Default)]
pub struct Packages(BTreeMap<Vec<u8>, u32>);

impl Packages {
    /// Reads the list `text`. A line that is none is passed over; of two of one name the first
    /// counts.
    pub fn parse(text: &[u8]) -> Self {
        let mut all = BTreeMap::new();
        for line in text.split(|&byte| byte == b'\n') {
            let words = line.split(|&byte| byte == b' ');
            let mut words = words.filter(|word| !word.is_empty());
            let (Some(name), Some(app)) = (words.next(), words.next()) else {
                continue;
            };
            let app = core::str::from_utf8(app).ok();
            if let Some(app) = app.and_then(|app| app.parse().ok()) {
                all.entry(name.to_ascii_lowercase()).or_insert(app);
            }
        }
        Self(all)
    }

    /// The app of the package `name`, in whatever case.
    pub fn app(&self, name: &[u8]) -> Option<u32> {
        self.0.get(&name.to_ascii_lowercase()[..]).copied()
    }
}

/// By what it is known whether a file is another, or changed: device, inode, size, times.
type Version = (u64, u64, u64, Timespec, Timespec);

/// The list as it is now.
pub struct PackageList {
    path: Vec<u8>,
    read: Mutex<(Option<Version>, Arc<Packages>)>,
}

impl PackageList {
    /// That of the file `path`; without the file there is no package.
    pub fn new(path: Vec<u8>) -> Self {
        Self {
            path,
            read: Mutex::new((None, Arc::default())),
        }
    }

    /// What stands in it, read anew if it has changed. What cannot be read any more counts as it
    /// was.
    pub fn now(&self) -> Arc<Packages> {
        let mut read = self.read.lock();
        let version = self.version();
        if version != read.0 {
            match self.text() {
                Some(text) => *read = (version, Arc::new(Packages::parse(&text))),
                None if version.is_none() => *read = (None, Arc::default()),
                None => {}
            }
        }
        Arc::clone(&read.1)
    }

    fn version(&self) -> Option<Version> {
        let path = terminated(&self.path).ok()?;
        let found = fs::stat(&path).ok()?;
        let time = |seconds, nanoseconds| Timespec {
            seconds,
            nanoseconds,
        };
        Some((
            found.st_dev,
            found.st_ino,
            found.st_size as u64,
            time(found.st_mtime as i64, found.st_mtime_nsec as u32),
            time(found.st_ctime as i64, found.st_ctime_nsec as u32),
        ))
    }

    fn text(&self) -> Option<Vec<u8>> {
        let path = terminated(&self.path).ok()?;
        let file = fs::open(&path, OFlags::CLOEXEC | OFlags::NONBLOCK, 0).ok()?;
        let mut text = Vec::new();
        loop {
            text.reserve(1 << 16);
            if fs::read_more(&file, &mut text).ok()? == 0 {
                return Some(text);
            }
        }
    }
}

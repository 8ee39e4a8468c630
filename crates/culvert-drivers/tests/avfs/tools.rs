//! A directory with archives, and what is asked of it often.

use culvert::{
    Attributes, Errno, FileKind, FileSystem, Node, OpenFlags, Opened, Result,
    mount::{Mount, decode, encode},
    testing::caller,
};
use culvert_drivers::{Environment, avfs};
use std::{
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

/// A place with archives, removed when dropped.
pub struct Place(PathBuf);

impl Place {
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("culvert-avfs-test-{}-{number}", std::process::id());
        let place = Self(std::env::temp_dir().join(name));
        for directory in ["files", "run", "cache"] {
            std::fs::create_dir_all(place.0.join(directory)).unwrap();
        }
        place.sh("mkdir d; echo 1 2 3 > d/n; ln -s n d/l; cp d/n n
             tar czf x.tgz d; chmod 640 x.tgz; cp x.tgz without-an-ending
             tar cf x.tar d; ln -s x.tgz link
             gzip -k n; chmod 600 n.gz; bzip2 -k n; xz -k n; xz -k --format=lzma n; compress -cf n > n.Z; zstd -q n
             python3 -c \"
import zipfile
with zipfile.ZipFile('y.zip', 'w', zipfile.ZIP_DEFLATED) as z:
    z.write('x.tgz'); z.write('d/n')
with zipfile.ZipFile('w.zip', 'w') as z: z.write('y.zip')\"
             find d | cpio -o -H newc > c.cpio 2>/dev/null
             ar rc a.a n
             echo real > 'a#b'; cp x.tgz 'a#b.tgz'
             cp x.tgz real.tgz; echo real > 'real.tgz#'
             head -c 2000 /dev/zero | gzip > zeroes.gz
             head -c 60 x.tgz > cut.tgz");
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join("files").join(name)
    }

    pub fn run(&self) -> PathBuf {
        self.0.join("run")
    }

    pub fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    /// Runs a script in the directory; it must succeed.
    pub fn sh(&self, script: &str) {
        let mut shell = Command::new("bash");
        shell.args(["-euc", script]).current_dir(self.path(""));
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}\n{said}");
    }

    fn with<R>(&self, run: impl FnOnce(&Environment<'_>) -> R) -> R {
        let (directory, cache) = (self.0.join("run"), self.0.join("cache"));
        run(&Environment {
            run_directory: Some(directory.as_os_str().as_bytes()),
            cache_directory: Some(cache.as_os_str().as_bytes()),
            ..Environment::default()
        })
    }

    pub fn prepare(&self, driver: &str, name: &str, options: &[(&str, &str)]) -> Result<Mount> {
        let options = options.iter();
        let mount = Mount {
            driver: driver.into(),
            source: self.path(name).into_os_string().into_encoded_bytes(),
            target: b"/mnt".to_vec(),
            options: options
                .map(|(name, value)| ((*name).into(), value.as_bytes().to_vec()))
                .collect(),
            branches: Vec::new(),
        };
        self.with(|environment| culvert_drivers::prepare(&mount, environment, &mut |_| ()))
            .map(|prepared| prepared.mount)
    }

    fn opened(&self, mount: &Mount) -> Box<dyn FileSystem> {
        let travelled = decode(&encode(std::slice::from_ref(mount))).unwrap();
        self.with(|environment| culvert_drivers::open(&travelled[0], environment))
            .unwrap()
    }

    /// The directory under the layer, as one more process of the same run has it.
    pub fn open(&self) -> Box<dyn FileSystem> {
        let kept = self.0.join("mount");
        let mount = match std::fs::read(&kept) {
            Ok(kept) => decode(&kept).unwrap().remove(0),
            Err(_) => {
                let mount = self
                    .prepare("passthrough", "", &[("layer", "avfs")])
                    .unwrap();
                std::fs::write(kept, encode(std::slice::from_ref(&mount))).unwrap();
                mount
            }
        };
        self.opened(&mount)
    }

    pub fn open_with(&self, options: &[(&str, &str)]) -> Box<dyn FileSystem> {
        let options = [&[("layer", "avfs")], options].concat();
        self.opened(&self.prepare("passthrough", "", &options).unwrap())
    }

    /// An archive with the option.
    pub fn archive(&self, name: &str) -> Box<dyn FileSystem> {
        self.opened(&self.prepare("archive", name, &[("avfs", "")]).unwrap())
    }

    /// `below` under the layer, as in a process alone.
    pub fn over(below: Box<dyn FileSystem>) -> Box<dyn FileSystem> {
        avfs::open(&Vec::new(), &Environment::default(), below).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn errno<T>(result: Result<T>) -> Option<Errno> {
    result.err().map(|error| error.errno())
}

/// What is at `path`, links followed within their directory.
pub fn find(fs: &dyn FileSystem, path: &str) -> std::result::Result<(Node, Attributes), Errno> {
    let mut at = (fs.root(), fs.attributes(&caller(), fs.root()).unwrap());
    let mut left: Vec<String> = path.split('/').rev().map(Into::into).collect();
    left.retain(|name| !name.is_empty());
    while let Some(name) = left.pop() {
        let found = fs.lookup(&caller(), at.0, name.as_bytes());
        let found = found.map_err(|error| error.errno())?.attributes;
        match found.kind {
            FileKind::Symlink => {
                let target = fs.readlink(&caller(), found.node).unwrap();
                let target = String::from_utf8(target).unwrap();
                left.extend(target.split('/').rev().map(Into::into));
            }
            _ => at = (found.node, found),
        }
    }
    Ok(at)
}

/// The content of the file at `path`.
pub fn text(fs: &dyn FileSystem, path: &str) -> std::result::Result<String, Errno> {
    let (node, found) = find(fs, path)?;
    let opened = fs.open(&caller(), node, OpenFlags(0));
    let mut bytes = vec![0; found.size as usize + 1];
    let count = match opened.map_err(|error| error.errno())? {
        Opened::Driven(file) => {
            let own = file.attributes(&caller()).unwrap();
            assert_eq!((own.node, own.size), (node, found.size));
            let mut done = 0;
            loop {
                let mut to = &mut bytes[done..];
                match file.read_at(done as u64, &mut to).unwrap() {
                    0 => break done,
                    count => done += count,
                }
            }
        }
        Opened::Backed(fd) => {
            use std::io::Read;
            use std::os::fd::FromRawFd;
            // SAFETY: it is ours.
            let mut file = unsafe { std::fs::File::from_raw_fd(fd.into_raw()) };
            file.read(&mut bytes).unwrap()
        }
    };
    bytes.truncate(count);
    Ok(String::from_utf8(bytes).unwrap())
}

pub fn names(fs: &dyn FileSystem, dir: Node) -> Vec<String> {
    let mut names = Vec::new();
    let listed = fs.read_directory(&caller(), dir, 0, &mut |entry| {
        names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        true
    });
    listed.unwrap();
    names.sort();
    names
}

pub fn listing(fs: &dyn FileSystem, path: &str) -> Vec<String> {
    names(fs, find(fs, path).unwrap().0)
}

//! Stacks, and places for them.

use culvert::{
    FileSystem,
    mount::{Mount, Options, decode, encode},
};
use culvert_drivers::Environment;
use std::{
    fmt, fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

/// Names and values of options.
type OptionPairs = &'static [(&'static str, &'static str)];

/// Layers, and options that each may have there; `{}` stands for the place.
pub const LAYERS: &[(&str, &[OptionPairs])] = &[
    ("avfs", &[&[], &[("avfs.limit", "1000")]]),
    ("bind", &[&[], &[("bind.exclude", "*.nobody-has-this")]]),
    ("casefold", &[&[], &[("casefold.strict", "")]]),
    (
        "fault",
        &[
            &[],
            // Never strikes, but stands in the way of everything.
            &[("fault.rule", "any+after=1000000000+errno=EIO")],
            &[("fault.rule", "read+short=4096+path=/**/none")],
        ],
    ),
    (
        "log",
        &[
            &[("log.file", "{}/log")],
            &[("log.file", "{}/log"), ("log.data", "no")],
        ],
    ),
    (
        "sdcard",
        &[
            &[("sdcard.packages", "{}/packages")],
            &[("sdcard.view", "write"), ("sdcard.fullwrite", "")],
        ],
    ),
    ("trace", &[&[("trace.to", "{}/trace")]]),
];

/// A generator of numbers.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }

    fn one<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// What lies under the layers.
#[derive(Clone, Debug)]
enum Base {
    Directory,
    Memory,
    /// Only to be read.
    Archive,
    Union(Vec<Stack>),
}

/// Layers over something.
#[derive(Clone, Debug)]
pub struct Stack {
    base: Base,
    layers: Vec<(&'static str, OptionPairs)>,
}

impl Stack {
    /// One that can be written, or not.
    pub fn random(random: &mut Random, writable: bool) -> Self {
        Self::deeper(random, writable, 0)
    }

    fn deeper(random: &mut Random, writable: bool, depth: usize) -> Self {
        let base = match random.below(if depth < 2 { 4 } else { 3 }) {
            _ if !writable && (depth > 0 || random.below(2) == 0) => Base::Archive,
            0 => Base::Directory,
            1 | 2 => Base::Memory,
            _ => {
                let count = 1 + random.below(3);
                let mut branches: Vec<_> = (0..count)
                    .map(|_| Self::deeper(random, writable, depth + 1))
                    .collect();
                if writable && random.below(3) == 0 {
                    branches.push(Self::deeper(random, false, depth + 1));
                }
                Base::Union(branches)
            }
        };
        let count = match depth {
            0 => 1 + random.below(4),
            _ => random.below(3),
        };
        let layers = (0..count).map(|_| {
            let (name, options) = random.one(LAYERS);
            (*name, *random.one(options))
        });
        Self {
            base,
            layers: layers.collect(),
        }
    }

    /// Whether `is` it, or something that it is made of.
    fn any(&self, is: &dyn Fn(&Self) -> bool) -> bool {
        let below = match &self.base {
            Base::Union(branches) => branches.iter().any(|one| one.any(is)),
            _ => false,
        };
        below || is(self)
    }

    fn branches(&self) -> &[Self] {
        match &self.base {
            Base::Union(branches) => branches,
            _ => &[],
        }
    }

    /// Whether owners and modes are derived somewhere.
    pub fn derives(&self) -> bool {
        self.any(&|one| one.has("sdcard"))
    }

    /// Whether they are on a branch of a union.
    pub fn derives_on_a_branch(&self) -> bool {
        self.any(&|one| one.branches().iter().any(Self::derives))
    }

    /// Whether names that are no UTF-8 are refused somewhere.
    pub fn is_strict(&self) -> bool {
        let is = |options: &[(&str, &str)]| options.iter().any(|one| one.0 == "casefold.strict");
        self.any(&|one| one.layers.iter().any(|(_, options)| is(options)))
    }

    /// Whether directories, on which the kernel judges, and others are branches of one union.
    pub fn mixes(&self) -> bool {
        self.has_directory() && self.any(&|one| matches!(one.base, Base::Memory | Base::Archive))
    }

    fn has(&self, layer: &str) -> bool {
        self.layers.iter().any(|(name, _)| *name == layer)
    }

    /// Whether it can be written.
    pub fn is_writable(&self) -> bool {
        match &self.base {
            Base::Union(branches) => branches.iter().any(Self::is_writable),
            base => !matches!(base, Base::Archive),
        }
    }

    fn has_directory(&self) -> bool {
        match &self.base {
            Base::Union(branches) => branches.iter().any(Self::has_directory),
            base => matches!(base, Base::Directory),
        }
    }

    /// The kit acts as the superuser, also on directories.
    pub fn suits_this_user(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        !self.has_directory() || fs::metadata("/proc/self").unwrap().uid() == 0
    }

    fn options(&self, base: &Path) -> Options {
        let mut options = Options::new();
        if let Base::Union(branches) = &self.base {
            options.push(("minfreespace".into(), b"0".to_vec()));
            let mode = |one: &Self| if one.is_writable() { "RW" } else { "RO" };
            let modes: Vec<_> = branches.iter().map(mode).collect();
            options.push(("modes".into(), modes.join(":").into_bytes()));
        }
        for (name, own) in &self.layers {
            options.push(("layer".into(), name.as_bytes().to_vec()));
            for (name, value) in *own {
                let value = value.replace("{}", base.to_str().unwrap());
                options.push(((*name).into(), value.into_bytes()));
            }
        }
        options
    }

    fn mount(&self, base: &Path, writable: bool, number: &mut usize) -> Mount {
        *number += 1;
        let own = base.join(format!("source{number}"));
        let mut branches = Vec::new();
        let (driver, source) = match &self.base {
            Base::Directory => {
                fs::create_dir_all(&own).unwrap();
                ("passthrough", own.as_os_str().as_bytes().to_vec())
            }
            Base::Memory => ("memory", b"memory".to_vec()),
            Base::Archive => {
                let archive = own.with_extension("tar");
                let tree = own.with_extension("tree");
                fs::create_dir_all(&tree).unwrap();
                // The kit changes what is empty at the start.
                if !writable {
                    fs::create_dir_all(tree.join("archived")).unwrap();
                    fs::write(tree.join("archived/file"), "archived").unwrap();
                }
                let mut tar = Command::new("tar");
                let tar = tar.arg("cf").arg(&archive).arg("-C").arg(&tree).arg(".");
                assert!(tar.status().unwrap().success());
                ("archive", archive.as_os_str().as_bytes().to_vec())
            }
            Base::Union(all) => {
                branches = all
                    .iter()
                    .map(|one| one.mount(base, writable, number))
                    .collect();
                ("union", format!("branches{number}").into_bytes())
            }
        };
        Mount {
            driver: driver.into(),
            source,
            target: b"/mnt".to_vec(),
            options: self.options(base),
            branches,
        }
    }

    /// A fresh place for it, prepared.
    pub fn place(&self) -> Place {
        culvert_sys::process::umask(0);
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = format!("culvert-stacks-{}-{number}", std::process::id());
        let base = Path::new("/dev/shm").join(base);
        fs::create_dir_all(base.join("run")).unwrap();
        let asked = self.mount(&base, self.is_writable(), &mut 0);
        let place = Place {
            base,
            mount: asked,
            own: true,
        };
        let prepared = place.environment(|environment| {
            let prepared = culvert_drivers::prepare(&place.mount, environment, &mut |_| {});
            prepared.unwrap_or_else(|error| panic!("{self}: {error}"))
        });
        let text = encode(&[prepared.mount]);
        fs::write(place.base.join("mount"), text).unwrap();
        Place::of(place)
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base {
            Base::Union(branches) => {
                write!(f, "union(")?;
                for branch in branches {
                    write!(f, "{branch};")?;
                }
                write!(f, ")")?;
            }
            base => write!(f, "{base:?}")?,
        }
        for (name, options) in &self.layers {
            write!(f, ",layer={name}")?;
            for (name, value) in *options {
                write!(f, ",{name}={value}")?;
            }
        }
        Ok(())
    }
}

/// A directory with a run's, and with what stacks are made of; removed when dropped.
pub struct Place {
    pub base: PathBuf,
    mount: Mount,
    own: bool,
}

impl Place {
    fn of(mut place: Self) -> Self {
        let text = fs::read(place.base.join("mount")).unwrap();
        place.mount = decode(&text).unwrap().remove(0);
        place
    }

    /// Another process's.
    pub fn shared(base: PathBuf) -> Self {
        let text = fs::read(base.join("mount")).unwrap();
        Self {
            base,
            mount: decode(&text).unwrap().remove(0),
            own: false,
        }
    }

    fn environment<R>(&self, work: impl FnOnce(&Environment<'_>) -> R) -> R {
        let (run, cache) = (self.base.join("run"), self.base.join("cache"));
        work(&Environment {
            run_directory: Some(run.as_os_str().as_bytes()),
            cache_directory: Some(cache.as_os_str().as_bytes()),
            ..Environment::default()
        })
    }

    /// The file system, as a process has it.
    pub fn open(&self) -> Box<dyn FileSystem> {
        let opened =
            self.environment(|environment| culvert_drivers::open(&self.mount, environment));
        opened.unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.own {
            let _ = fs::remove_dir_all(&self.base);
        }
    }
}

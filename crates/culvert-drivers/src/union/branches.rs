//! Which branches there are, also while the mount lives: what `user.mergerfs.branches` is set to,
//! and how those that are new are opened.

use super::branch::{Branch, How, Tree};
use crate::archive::host::{status, status_of, terminated};
use crate::archive::warning::printable;
use crate::{Environment, Prepared, Progress, glob};
use alloc::{
    boxed::Box,
    format,
    string::String,
    sync::{Arc, Weak},
    vec::Vec,
};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use culvert::mount::{self, Mount, Request};
use culvert::{
    Attributes, Caller, Capabilities, DirectorySink, Entry, Errno, Error, FileSystem, Node,
    OpenFlags, Opened, Result, StatFs, sync::Mutex,
};
use culvert_sys::fs;
use culvert_sys::{fd::CWD, flags::OFlags};

type OpenBranch = fn((&str, usize), &Mount, &Environment<'_>) -> Result<Box<dyn FileSystem>>;
type Tell<'a> = &'a mut dyn FnMut(Progress);
type PrepareBranch = fn(&Mount, &Environment<'_>, Tell<'_>) -> Result<Prepared>;

/// What is said of a branch that is not there any more, or is another directory by now.
const GONE: [Errno; 3] = [Errno::ENOENT, Errno::ENOTDIR, Errno::ESTALE];

/// What is known of drivers, of which a union knows none.
pub struct Drivers {
    /// Opens a branch, one of so many of a mount of the driver of that name.
    pub open: OpenBranch,
    /// The driver of a source, and whether that is a name.
    pub detect: fn(&[u8]) -> Result<(&'static str, bool)>,
    /// Prepares a branch.
    pub prepare: PrepareBranch,
}

/// A branch as it is to be.
#[derive(Clone)]
pub struct Wanted {
    /// What it is, prepared.
    pub mount: Mount,
    /// What may happen there.
    pub how: How,
}

/// What opens branches, as long as the mount lives.
pub struct Opener {
    drivers: &'static Drivers,
    driver: String,
    target: Vec<u8>,
    cache_directory: Option<Vec<u8>>,
    run_directory: Option<Vec<u8>>,
    environment: Environment<'static>,
    next: AtomicUsize,
    /// Those that were opened, as long as they are in use: who comes back is the same.
    trees: Mutex<Vec<Weak<Tree>>>,
}

impl Opener {
    /// That of the union `mount`.
    pub fn new(mount: &Mount, environment: &Environment<'_>, drivers: &'static Drivers) -> Self {
        Self {
            drivers,
            driver: mount.driver.clone(),
            target: mount.target.clone(),
            cache_directory: environment.cache_directory.map(<[u8]>::to_vec),
            run_directory: environment.run_directory.map(<[u8]>::to_vec),
            environment: Environment {
                cache_directory: None,
                run_directory: None,
                alone: environment.alone,
                keeper: environment.keeper,
                interrupted: environment.interrupted,
                caller: environment.caller,
                at_once: environment.at_once,
                in_use: environment.in_use,
                source: None,
                book: None,
                open_nodes: environment.open_nodes,
                library: environment.library,
            },
            next: AtomicUsize::new(0),
            trees: Mutex::new(Vec::new()),
        }
    }

    fn with<T>(&self, work: impl FnOnce(&Environment<'_>) -> T) -> T {
        work(&Environment {
            cache_directory: self.cache_directory.as_deref(),
            run_directory: self.run_directory.as_deref(),
            ..self.environment
        })
    }

    /// Whether this is a child of vfork(2), which shares memory with its parent, but not
    /// descriptors.
    pub fn borrows_memory(&self) -> bool {
        self.environment.keeper.table() != 0
    }

    /// One of `count` branches: the one that is open, or was and is still in use, or else opened
    /// now.
    pub fn open(&self, wanted: &Wanted, count: usize) -> Result<Branch> {
        let how = wanted.how;
        let is_it = |tree: &Arc<Tree>| tree.mount == wanted.mount;
        let known = self
            .trees
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .find(is_it);
        if let Some(tree) = known {
            return Ok(Branch { tree, how });
        }
        let fs = self.with(|environment| {
            (self.drivers.open)((&self.driver, count), &wanted.mount, environment)
        })?;
        let tree = Arc::new(self.tree(wanted, fs));
        let mut trees = self.trees.lock();
        trees.retain(|tree| tree.strong_count() > 0);
        trees.push(Arc::downgrade(&tree));
        Ok(Branch { tree, how })
    }

    /// The branches `wanted`, opened by `open`, without those that are not there any more: they
    /// hide nothing. An error where none is left.
    pub fn all(
        &self,
        wanted: &[Wanted],
        open: impl Fn(&Wanted, usize) -> Result<Branch>,
    ) -> Result<Vec<Branch>> {
        let (mut all, mut last) = (Vec::new(), None);
        for one in wanted {
            match open(one, wanted.len()) {
                Err(error) if GONE.contains(&error.errno()) => {
                    culvert_sys::log!("{error}: the union goes on without this branch");
                    last = Some(error);
                }
                opened => all.push(opened?),
            }
        }
        match last.filter(|_| all.is_empty()) {
            Some(error) => Err(error),
            None => Ok(all),
        }
    }

    /// The same of one; one that cannot be opened refuses everything, since what it has would hide
    /// what others have. It is opened when it is asked for again, should that be possible by then.
    pub fn open_or_refuse(&self, wanted: &Wanted, count: usize) -> Result<Branch> {
        self.open(wanted, count).or_else(|error| {
            if GONE.contains(&error.errno()) {
                return Err(error);
            }
            culvert_sys::log!("{error}");
            let mut tree = self.tree(wanted, Box::new(Refused(error.errno())));
            tree.refused = Some(error.errno());
            Ok(Branch {
                tree: Arc::new(tree),
                how: wanted.how,
            })
        })
    }

    fn tree(&self, wanted: &Wanted, fs: Box<dyn FileSystem>) -> Tree {
        let id = self.next.fetch_add(1, Relaxed);
        Tree::new(&wanted.mount, id, fs, !self.environment.alone)
    }

    /// The branches that `list` names, patterns filled in, prepared. One of those `there` is named
    /// by its source, whatever type and layers it has, and keeps them.
    fn named(&self, list: &[u8], there: &[Branch]) -> Result<Vec<Wanted>> {
        let mut all = Vec::new();
        for typed in Request::new(None, list, &self.target, Vec::new())?.branches()? {
            let how = How::parse(&typed.how)?;
            if typed.mount.is_some() {
                let shown = printable(&typed.source);
                let why = format!(
                    "branch {shown}: type, options and layers are given when the mount is made"
                );
                return Err(Error::because(Errno::EINVAL, why));
            }
            for source in expanded(&typed.source) {
                let of = |source: &[u8]| there.iter().find(|branch| branch.source == source);
                let elsewhere = || of(&canonical(&source).ok()?);
                let known = of(&source).or_else(elsewhere);
                let mount = match known {
                    Some(branch) => branch.mount.clone(),
                    None => self.prepared(&source)?,
                };
                all.push(Wanted { mount, how });
            }
        }
        Ok(all)
    }

    fn prepared(&self, source: &[u8]) -> Result<Mount> {
        let within = |error: Error| error.within(&format!("branch {}", printable(source)));
        let below = source.strip_prefix(&self.target[..]);
        if below.is_some_and(|rest| matches!(rest.first(), None | Some(b'/'))) {
            let why = "the mount cannot be a branch of itself";
            return Err(within(Error::because(Errno::EINVAL, why)));
        }
        let (driver, is_name) = (self.drivers.detect)(source).map_err(within)?;
        let source = match is_name {
            true => source.to_vec(),
            false => canonical(source).map_err(within)?,
        };
        let mount = Mount {
            driver: driver.into(),
            source,
            target: self.target.clone(),
            options: Vec::new(),
            branches: Vec::new(),
        };
        let prepared =
            self.with(|environment| (self.drivers.prepare)(&mount, environment, &mut |_| ()));
        Ok(prepared.map_err(within)?.mount)
    }

    /// What `branches` become by the `instruction`, mergerfs's: `+LIST` or `+>LIST` (more behind),
    /// `+<LIST` (more in front), `-PATTERNS` (without these), `-<`, `->` (without the first, the
    /// last), `=LIST` or `LIST` (these).
    pub fn changed(&self, branches: &[Branch], instruction: &[u8]) -> Result<Vec<Wanted>> {
        let mut all: Vec<Wanted> = branches.iter().map(Branch::wanted).collect();
        match instruction {
            b"-<" | b"->" => {
                let at = if instruction == b"-<" {
                    0
                } else {
                    all.len() - 1
                };
                all.remove(at);
            }
            [b'+', b'<', list @ ..] => drop(all.splice(..0, self.named(list, branches)?)),
            [b'+', b'>', list @ ..] | [b'+', list @ ..] => {
                all.extend(self.named(list, branches)?);
            }
            [b'-', list @ ..] => {
                let patterns = Request::new(None, list, &self.target, Vec::new())?.branches()?;
                all.retain(|one| {
                    !patterns
                        .iter()
                        .any(|it| fits(&it.source, &one.mount.source))
                });
            }
            [b'=', list @ ..] | list => all = self.named(list, branches)?,
        }
        if all.is_empty() {
            let why = "a union has one branch at least";
            return Err(Error::because(Errno::EINVAL, why));
        }
        for (at, one) in all.iter().enumerate() {
            let is_it = |other: &Wanted| {
                let (one, other) = (&one.mount, &other.mount);
                (&one.driver, &one.source) == (&other.driver, &other.source)
            };
            if all[..at].iter().any(is_it) {
                let source = printable(&one.mount.source);
                let why = format!("branch {source} is given twice");
                return Err(Error::because(Errno::EINVAL, why));
            }
        }
        Ok(all)
    }
}

/// `EINVAL` where a branch that can `new` makes something untrue that the union has said of itself.
pub fn agrees(whole: Capabilities, new: Capabilities, alone: bool) -> Result<()> {
    let why = match () {
        () if !new.checks_permissions && !new.read_only && whole.checks_permissions => {
            "it does not ask the kernel who may do what, as the others do"
        }
        () if alone && new.checks_permissions && !whole.checks_permissions && !whole.read_only => {
            "the kernel would judge on it, as on none of the others"
        }
        () if new.case_insensitive && !whole.case_insensitive => {
            "it takes names for the same that the others do not"
        }
        () if whole.locks && !new.locks => "it has no locks, as the others have",
        () => return Ok(()),
    };
    Err(Error::because(Errno::EINVAL, why))
}

impl Branch {
    /// As it is asked for.
    pub fn wanted(&self) -> Wanted {
        Wanted {
            mount: self.tree.mount.clone(),
            how: self.how,
        }
    }
}

/// `all` for other processes, in hexadecimal digits.
pub fn encoded(all: &[Wanted]) -> Vec<u8> {
    let modes: Vec<_> = all.iter().map(|one| one.how.told()).collect();
    let Some(first) = all.first() else {
        return Vec::new();
    };
    let whole = Mount {
        driver: "union".into(),
        source: b"branches".to_vec(),
        target: first.mount.target.clone(),
        options: Vec::from([("modes".into(), modes.join(&b':'))]),
        branches: all.iter().map(|one| one.mount.clone()).collect(),
    };
    let bytes = mount::encode(&[whole]);
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    digits.collect::<String>().into_bytes()
}

/// What [`encoded`] made.
pub fn decoded(digits: &[u8]) -> Result<Vec<Wanted>> {
    let pairs = digits.chunks(2).map(|pair| {
        let pair = core::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    });
    let bytes: Vec<u8> = pairs.collect::<Option<_>>().ok_or(Errno::EBADMSG)?;
    let whole = mount::decode(&bytes)?.pop().ok_or(Errno::EBADMSG)?;
    let modes = super::options::modes(&whole)?;
    let each = whole.branches.into_iter().zip(modes);
    Ok(each.map(|(mount, how)| Wanted { mount, how }).collect())
}

/// fnmatch(3) without flags: stars take slashes, too.
fn fits(pattern: &[u8], path: &[u8]) -> bool {
    let mut wide = Vec::new();
    for &byte in pattern {
        wide.push(byte);
        if byte == b'*' {
            wide.push(byte);
        }
    }
    glob::matches(&wide, path)
}

/// The path of `source`, which is absolute, without links.
fn canonical(source: &[u8]) -> Result<Vec<u8>> {
    if source.first() != Some(&b'/') {
        let why = "not an absolute path";
        return Err(Error::because(Errno::EINVAL, why));
    }
    let file = fs::open(&terminated(source)?, OFlags::PATH | OFlags::CLOEXEC, 0)?;
    let link = terminated(format!("/proc/self/fd/{}", file.raw()).as_bytes())?;
    let mut path = alloc::vec![0; 4096];
    let count = fs::readlinkat(CWD, &link, &mut path)?;
    path.truncate(count);
    // What has no path, or another one by now, is no branch.
    match status_of(&path)?.identity == status(&file)?.identity {
        true => Ok(path),
        false => Err(Errno::ESTALE.into()),
    }
}

/// What `source` names: itself, or, where there is nothing of that name and it is a pattern
/// (glob(7)), what fits it, in the order of names. A pattern that nothing fits is itself.
pub fn expanded(source: &[u8]) -> Vec<Vec<u8>> {
    let is_pattern = |text: &[u8]| text.iter().any(|byte| b"*?[".contains(byte));
    let exists = |path: &[u8]| {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = terminated(path).and_then(|path| fs::open(&path, flags, 0));
        found.is_ok()
    };
    if !is_pattern(source) || exists(source) {
        return Vec::from([source.to_vec()]);
    }
    let mut found = match source.first() {
        Some(b'/') => Vec::from([b"/".to_vec()]),
        _ => Vec::from([Vec::new()]),
    };
    for name in source.split(|&byte| byte == b'/') {
        if name.is_empty() {
            continue;
        }
        let mut next = Vec::new();
        for above in &found {
            let joined = |name: &[u8]| match above.last() {
                None | Some(b'/') => [above, name].concat(),
                Some(_) => [above, &b"/"[..], name].concat(),
            };
            match is_pattern(name) {
                false => next.extend(Some(joined(name)).filter(|path| exists(path))),
                true => {
                    let mut names = names_in(above);
                    // As in a shell, only a dot fits the dot that a name begins with.
                    names.retain(|one| {
                        let is_hidden = one.first() == Some(&b'.') && name[0] != b'.';
                        !is_hidden && glob::matches(name, one)
                    });
                    names.sort_unstable();
                    next.extend(names.iter().map(|name| joined(name)));
                }
            }
        }
        found = next;
    }
    match found.is_empty() {
        true => Vec::from([source.to_vec()]),
        false => found,
    }
}

/// The names in the directory `path`, as far as they can be listed.
fn names_in(path: &[u8]) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = terminated(path).and_then(|path| fs::open(&path, flags, 0));
    if let Ok(directory) = opened {
        let _ = crate::passthrough::entries(&directory, 0, &mut |_, name| {
            names.push(name.to_vec());
            true
        });
    }
    names
}

/// A branch that cannot be opened here.
struct Refused(Errno);

impl Refused {
    fn error<T>(&self) -> Result<T> {
        Err(self.0.into())
    }
}

impl FileSystem for Refused {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            read_only: true,
            ..Capabilities::default()
        }
    }

    fn root(&self) -> Node {
        Node(1)
    }

    fn lookup(&self, _: &Caller<'_>, _: Node, _: &[u8]) -> Result<Entry> {
        self.error()
    }

    fn parent(&self, _: Node) -> Result<Node> {
        self.error()
    }

    fn path_of(&self, _: Node) -> Result<Vec<u8>> {
        self.error()
    }

    fn attributes(&self, _: &Caller<'_>, _: Node) -> Result<Attributes> {
        self.error()
    }

    fn readlink(&self, _: &Caller<'_>, _: Node) -> Result<Vec<u8>> {
        self.error()
    }

    fn open(&self, _: &Caller<'_>, _: Node, _: OpenFlags) -> Result<Opened> {
        self.error()
    }

    fn read_directory(
        &self,
        _: &Caller<'_>,
        _: Node,
        _: u64,
        _: &mut DirectorySink<'_>,
    ) -> Result<()> {
        self.error()
    }

    fn statfs(&self) -> Result<StatFs> {
        self.error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::string::ToString;

    #[test]
    fn patterns_are_what_fits_them_in_the_order_of_names() {
        let place = std::env::temp_dir().join(format!("culvert-branches-{}", std::process::id()));
        for name in ["disk2/a", "disk1/a", "disk3", ".disk4/a", "disk*5/a"] {
            std::fs::create_dir_all(place.join(name)).unwrap();
        }
        let ask = |pattern: &str| -> Vec<String> {
            let full = expanded(place.join(pattern).as_os_str().as_bytes());
            let prefix = place.as_os_str().len() + 1;
            let relative = |path: Vec<u8>| String::from_utf8_lossy(&path[prefix..]).to_string();
            full.into_iter().map(relative).collect()
        };
        assert_eq!(ask("disk[12]"), ["disk1", "disk2"]);
        assert_eq!(ask("disk?/a"), ["disk1/a", "disk2/a"]);
        assert_eq!(ask(".d*"), [".disk4"]);
        assert_eq!(ask("disk*5"), ["disk*5"]);
        assert_eq!(ask("disk1"), ["disk1"]);
        assert_eq!(ask("none*"), ["none*"]);
        assert_eq!(ask("none/*"), ["none/*"]);
        std::fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn what_is_removed_fits_a_pattern_with_its_slashes() {
        for (pattern, path, want) in [
            ("/mnt/*", "/mnt/a/b", true),
            ("/mnt/a", "/mnt/a", true),
            ("/mnt/a", "/mnt/ab", false),
            ("/mnt/?", "/mnt/a", true),
        ] {
            assert_eq!(fits(pattern.as_bytes(), path.as_bytes()), want, "{pattern}");
        }
    }
}

//! The same random paths through random trees, resolved by the kernel over real mounts and by us
//! over mounts it does not know.
//!
//! In a mount namespace of its own the test makes two copies of each world on a tmpfs: in one the
//! source trees are bind-mounted at their targets, in the other the targets stay empty and the
//! trees are drivers in memory. A file is known by its place in the world.

use super::fake::{ROOT, Tree};
use super::random::{Random, World, make_path, make_world, rooted, write};
use crate::resolver::{
    Host, HostFile, HostKind, Inside, Last, LastStep, MountId, MountTable, Place, Quick, Resolved,
    Restrictions,
};
use LastStep::{Create, CreateNoFollow, Follow, NoFollow, Parent};
use alloc::{boxed::Box, collections::BTreeMap, ffi::CString, format, string::String, vec::Vec};
use culvert::{Caller, Errno, FileKind, Node};
use culvert_sys::raw::general::AT_FDCWD;
use culvert_sys::{nr, syscall::call};
use std::{
    env, fs,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::Path,
    println,
    process::Command,
};

const INSIDE: &str = "CULVERT_TEST_NAMESPACE";
/// Where the worlds are made. The roots have paths of the same length, and names that no random
/// path has.
const SPACE: &str = "/tmp";
const REAL: &str = "/tmp/kernel";
const OURS: &str = "/tmp/driven";
const WORLDS: u64 = 60;
const PATHS: u64 = 400;
/// The superuser may pass everywhere, this one may not.
const USER: u32 = 4242;

#[test]
fn the_kernel_agrees() {
    if env::var_os(INSIDE).is_some() {
        return compare_all();
    }
    // As the superuser no user namespace is needed, and permissions can be compared.
    for options in [
        ["-m", "--propagation", "private"],
        ["-Urm", "--propagation", "private"],
    ] {
        let possible = Command::new("unshare").args(options).arg("true").output();
        if !possible.is_ok_and(|output| output.status.success()) {
            continue;
        }
        let test = module_path!().split_once("::").unwrap().1;
        let status = Command::new("unshare")
            .args(options)
            .arg(env::current_exe().unwrap())
            .args([
                "--exact",
                "--nocapture",
                &format!("{test}::the_kernel_agrees"),
            ])
            .env(INSIDE, options[0])
            .status();
        assert!(status.unwrap().success());
        return;
    }
    println!("skipped: no mount namespace may be made here");
}

fn c(path: &[u8]) -> CString {
    CString::new(path).unwrap()
}

fn mount(source: &str, target: &str, kind: &str, flags: usize) {
    let (source, target, kind) = (
        c(source.as_bytes()),
        c(target.as_bytes()),
        c(kind.as_bytes()),
    );
    let args = [
        source.as_ptr() as usize,
        target.as_ptr() as usize,
        kind.as_ptr() as usize,
        flags,
        0,
    ];
    // SAFETY: strings that end in NUL, in a namespace that is this test's own.
    unsafe { call(nr::MOUNT, args) }.unwrap();
}

fn unmount(target: &str) {
    let target = c(target.as_bytes());
    const MNT_DETACH: usize = 2;
    // SAFETY: a string that ends in NUL.
    unsafe { call(nr::UMOUNT2, [target.as_ptr() as usize, MNT_DETACH]) }.unwrap();
}

/// Runs `body` with the permissions of `uid`, on this thread only.
fn as_user<T>(uid: u32, body: impl FnOnce() -> T) -> T {
    let set = |uid: u32| {
        // SAFETY: changes this thread's file-system user and nothing else.
        let _ = unsafe { call(nr::SETFSUID, [uid as usize]) };
    };
    if uid == 0 {
        return body();
    }
    set(uid);
    let result = body();
    set(0);
    result
}

const O_PATH: u64 = 0o10000000;
const O_NOFOLLOW: u64 = 0o400000;
const O_CREAT: u64 = 0o100;
const O_EXCL: u64 = 0o200;

fn openat2(dir: i32, path: &[u8], flags: u64, resolve: u64) -> Result<OwnedFd, Errno> {
    let path = c(path);
    let mode = if flags & O_CREAT != 0 { 0o600 } else { 0 };
    let how: [u64; 3] = [flags, mode, resolve];
    let args = [
        dir as usize,
        path.as_ptr() as usize,
        how.as_ptr() as usize,
        24,
    ];
    // SAFETY: a string that ends in NUL and a `struct open_how`.
    let fd = unsafe { call(nr::OPENAT2, args) }?;
    // SAFETY: just opened.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn identity(fd: &OwnedFd) -> (u64, u64) {
    // The link of proc(5) jumps, so that a link opened with O_PATH is found itself.
    let found = fs::metadata(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
    (found.dev(), found.ino())
}

/// The real file system of the copy without mounts; walks may ask for nothing at or below a target.
struct Outside<'t>(&'t MountTable);

impl Host for Outside<'_> {
    fn lstat(&self, path: &[u8]) -> Result<HostFile, Errno> {
        let plain = path.strip_suffix(b"/.").unwrap_or(path);
        if let Some((_, rest)) = self.0.deepest(plain) {
            assert!(rest.is_empty(), "nothing below a target is real");
        }
        let found = fs::symlink_metadata(std::ffi::OsStr::from_bytes(path)).map_err(errno)?;
        Ok(HostFile {
            kind: match () {
                () if found.is_dir() => HostKind::Directory,
                () if found.is_symlink() => HostKind::Symlink,
                () => HostKind::Other,
            },
            dev: found.dev(),
            ino: found.ino(),
        })
    }
    fn readlink(&self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        let target = fs::read_link(std::ffi::OsStr::from_bytes(path)).map_err(errno)?;
        Ok(target.as_os_str().as_bytes().to_vec())
    }
    fn link_free(&self, path: &[u8]) -> bool {
        let found = openat2(AT_FDCWD, path, O_PATH, Restrictions::NO_SYMLINKS);
        matches!(found, Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR))
    }
}

fn errno(error: std::io::Error) -> Errno {
    Errno::new(error.raw_os_error().unwrap())
}

/// What a resolution came to, in words that mean the same in both copies.
type Outcome = Result<String, Errno>;

struct Pair<'w> {
    world: &'w World,
    table: MountTable,
    /// Names of real files, by identity: of the copy with mounts and of the one without.
    real: BTreeMap<(u64, u64), String>,
    ours: BTreeMap<(u64, u64), String>,
}

impl<'w> Pair<'w> {
    fn new(world: &'w World) -> Self {
        let mut pair = Self {
            world,
            table: MountTable::new(),
            real: BTreeMap::new(),
            ours: BTreeMap::new(),
        };
        for (index, (target, tree)) in world.trees.iter().enumerate() {
            if index == 0 {
                write(tree, Path::new(REAL), REAL);
                write(tree, Path::new(OURS), OURS);
                pair.label(OURS, "", tree, true);
                pair.label(REAL, "", tree, false);
                continue;
            }
            let source = format!("{SPACE}/source{index}");
            write(tree, Path::new(&source), REAL);
            pair.label(&source, target, tree, false);
            let over = format!("{REAL}{target}");
            const MS_BIND: usize = 4096;
            mount(&source, &over, "", MS_BIND);
            let files = tree.files.clone();
            let open = Box::new(move || {
                let mut files = files.clone();
                for file in &mut files {
                    file.target = rooted(&file.target, OURS);
                }
                Ok(Box::new(Tree {
                    files,
                    ..Tree::default()
                }) as Box<_>)
            });
            let over = format!("{OURS}{target}");
            let empty = fs::symlink_metadata(&over).ok();
            let identity = empty.map(|found| (found.dev(), found.ino()));
            pair.table.add(over.into_bytes(), identity, open).unwrap();
        }
        pair
    }

    fn label(&mut self, at: &str, target: &str, tree: &Tree, ours: bool) {
        for node in 1..=tree.files.len() as u64 {
            let path = tree.path(Node(node));
            let found = fs::symlink_metadata(format!("{at}/{path}")).unwrap();
            let names = if ours { &mut self.ours } else { &mut self.real };
            names.insert((found.dev(), found.ino()), format!("{target}/{path}"));
        }
    }

    /// What an open descriptor in either copy is called. The space around them is one and the same.
    fn named(&self, fd: &OwnedFd, ours: bool) -> String {
        let names = if ours { &self.ours } else { &self.real };
        match names.get(&identity(fd)) {
            Some(name) => name.clone(),
            None => format!("around {:?}", identity(fd)),
        }
    }

    /// The kernel's view: `dir` and `path` in the copy named by `ours`.
    fn native(&self, dir: i32, path: &[u8], step: LastStep, resolve: u64, ours: bool) -> Outcome {
        let flags = match step {
            Follow => O_PATH,
            NoFollow => O_PATH | O_NOFOLLOW,
            Create => O_CREAT,
            CreateNoFollow | LastStep::CreateNew => O_CREAT | O_EXCL,
            Parent => return self.native_mkdir(dir, path, ours),
        };
        let fd = openat2(dir, path, flags, resolve)?;
        if flags & O_CREAT != 0 {
            return Ok(self.made(fd, ours));
        }
        Ok(self.named(&fd, ours))
    }

    fn native_mkdir(&self, dir: i32, path: &[u8], ours: bool) -> Outcome {
        let made = c(path);
        // SAFETY: a string that ends in NUL.
        unsafe { call(nr::MKDIRAT, [dir as usize, made.as_ptr() as usize, 0o777]) }?;
        Ok(self.made(openat2(dir, path, O_PATH, 0)?, ours))
    }

    /// Names what a call has just made, or found, and takes a new one away again.
    fn made(&self, fd: OwnedFd, ours: bool) -> String {
        let names = if ours { &self.ours } else { &self.real };
        if let Some(name) = names.get(&identity(&fd)) {
            return name.clone();
        }
        let path = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).unwrap();
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        let path = path.to_str().unwrap();
        let root = if ours { OURS } else { REAL };
        format!("new {}", path.strip_prefix(root).unwrap_or(path))
    }

    fn in_mount(&self, inside: &Inside<'_>, step: LastStep) -> Outcome {
        let (target, tree) = &self.world.trees[inside.mount.0 as usize + 1];
        match (&inside.last, &inside.entry) {
            (Last::Name(name), None) => {
                let parent = tree.path(inside.parent);
                let slash = if parent.is_empty() { "" } else { "/" };
                let name = core::str::from_utf8(name).unwrap();
                Ok(format!("new {target}/{parent}{slash}{name}"))
            }
            (_, Some(_)) if step == Parent || step == CreateNoFollow => Err(Errno::EEXIST),
            (_, Some(entry)) => match entry.attributes.kind {
                FileKind::Directory if step == Create => Err(Errno::EISDIR),
                _ => Ok(format!("{target}/{}", tree.path(entry.attributes.node))),
            },
            (_, None) => panic!("a name is missing"),
        }
    }

    /// Our view, with everything that the calls around the resolver do.
    fn ours(
        &self,
        uid: u32,
        base: &Place,
        dir: i32,
        path: &[u8],
        step: LastStep,
        resolve: u64,
    ) -> Outcome {
        let caller = Caller {
            uid,
            gid: uid,
            ..ROOT
        };
        let host = Outside(&self.table);
        let restricted = resolve & (Restrictions::IN_ROOT | Restrictions::NO_XDEV) != 0;
        let judge = |found: culvert::Result<Resolved<'_>>, native: Option<Outcome>| match found {
            Err(error) => Err(error.errno()),
            Ok(Resolved::Inside(inside)) => self.in_mount(&inside, step),
            Ok(Resolved::Outside { path }) => self.native(AT_FDCWD, &path, step, 0, true),
            Ok(Resolved::MagicLink(_)) => panic!("no proc here"),
            Ok(Resolved::Untouched) => {
                native.unwrap_or_else(|| self.native(dir, path, step, resolve, true))
            }
        };
        let restrictions = Restrictions(resolve);
        let walk = || {
            self.table
                .walk(&host, &caller, base, path, step, restrictions)
        };
        // What a call that creates must not trust is the empty directory under a mount: it always
        // walks here.
        if restricted
            || step.wants_parent()
            || self.table.quick(Some(base), path) != Quick::Untouched
        {
            return judge(walk(), None);
        }
        let native = self.native(dir, path, step, resolve, true);
        if matches!(native, Err(Errno::ENOENT | Errno::ENOTDIR)) {
            let again = self
                .table
                .after_miss(&host, || caller, base, path, step, restrictions);
            return judge(again, Some(native));
        }
        let targets: Vec<&String> = self
            .world
            .trees
            .iter()
            .skip(1)
            .map(|(target, _)| target)
            .collect();
        if native.as_ref().is_ok_and(|name| targets.contains(&name)) {
            return judge(walk(), Some(native));
        }
        native
    }
}

fn compare_all() {
    let seed = env::var("CULVERT_TEST_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(0x9E37_79B9_7F4A_7C15);
    let users: &[u32] = if env::var(INSIDE).unwrap() == "-m" {
        &[0, USER]
    } else {
        &[0]
    };
    let mut entered = 0;
    // SAFETY: changes the mode of new files of this process only.
    let _ = unsafe { call(nr::UMASK, [0]) };
    for round in 0..WORLDS {
        let mut random = Random(seed ^ (round + 1).wrapping_mul(0xD134_2543_DE82_EF95));
        mount("none", SPACE, "tmpfs", 0);
        let world = make_world(&mut random);
        let pair = Pair::new(&world);
        for _ in 0..PATHS {
            entered += usize::from(compare_one(&mut random, &pair, users, round));
        }
        drop(pair);
        unmount(SPACE);
    }
    println!(
        "{} paths compared, {entered} of them ended in a mount",
        WORLDS * PATHS
    );
    assert!(
        entered as u64 > WORLDS * PATHS / 20,
        "the test tests something"
    );
}

fn compare_one(random: &mut Random, pair: &Pair<'_>, users: &[u32], round: u64) -> bool {
    let uid = *random.pick(users);
    let step = *random.pick(&[
        Follow,
        Follow,
        NoFollow,
        NoFollow,
        Create,
        CreateNoFollow,
        Parent,
    ]);
    let mut resolve = match random.below(10) {
        0 => Restrictions::BENEATH,
        1 => Restrictions::IN_ROOT,
        2 => Restrictions::NO_SYMLINKS,
        3 => Restrictions::NO_XDEV,
        _ => 0,
    };
    // Permission to write is not the resolver's, and mkdirat knows no restrictions.
    let uid = if step.wants_parent() { 0 } else { uid };
    if step == Parent {
        resolve = 0;
    }
    // A directory to start from.
    let (target, tree) = random.pick(&pair.world.trees);
    let directories: Vec<u64> = (1..=tree.files.len() as u64)
        .filter(|&node| tree.file(node).kind == FileKind::Directory)
        .collect();
    let node = Node(*random.pick(&directories));
    let start = format!("{target}/{}", tree.path(node));
    let start = start.trim_end_matches('/');
    let (kernel_start, our_start) = (format!("{REAL}{start}"), format!("{OURS}{start}"));
    let place = match pair.table.deepest(our_start.as_bytes()) {
        Some((mount, rest)) => {
            let MountId(index) = mount;
            let tree = &pair.world.trees[index as usize + 1].1;
            let node = tree.at(core::str::from_utf8(rest).unwrap());
            Place::Mount { mount, node }
        }
        None => Place::Host(our_start.clone().into_bytes()),
    };
    let kernel_dir = openat2(AT_FDCWD, kernel_start.as_bytes(), O_PATH, 0).unwrap();
    // In a mount the copy without mounts has no such directory, and nothing may ask for it.
    let our_dir = openat2(AT_FDCWD, our_start.as_bytes(), O_PATH, 0).ok();
    let path = make_path(random, &pair.world.names, false);
    let (kernel_path, our_path) = (rooted(path.as_bytes(), REAL), rooted(path.as_bytes(), OURS));
    let kernel = as_user(uid, || {
        pair.native(kernel_dir.as_raw_fd(), &kernel_path, step, resolve, false)
    });
    let dir = our_dir.as_ref().map_or(-1, |fd| fd.as_raw_fd());
    let ours = as_user(uid, || {
        pair.ours(uid, &place, dir, &our_path, step, resolve)
    });
    assert_eq!(
        ours, kernel,
        "world {round}: uid {uid} from {start:?} {path:?} {step:?} resolve {resolve:#x}"
    );
    kernel.is_ok_and(|name| name.contains("/m/fs"))
}

//! The same operations on the kernel's overlayfs and on ours: the same answers, trees, and marks on
//! disk, and each reads what the other has written.

use crate::ours::Ours;
use crate::steps::{Random, on_kernel};
use crate::tools::{Scratch, root};
use culvert::FileSystem;
use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::CString,
    fmt::Write as _,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
};

fn xattr(path: &Path, name: &str) -> Option<Vec<u8>> {
    let (path, name) = (
        CString::new(path.as_os_str().as_bytes()).unwrap(),
        CString::new(name).unwrap(),
    );
    let mut value = vec![0; 4096];
    let count = culvert_sys::fs::getxattr(&path, &name, &mut value).ok()?;
    value.truncate(count);
    Some(value)
}

/// The same of the kernel's mount.
fn kernels_tree(base: &Path, path: &str, tree: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(base).unwrap() {
        let entry = entry.unwrap();
        let found = entry.metadata().unwrap();
        let name = entry.file_name().into_string().unwrap();
        let (below, path) = (base.join(&name), format!("{path}/{name}"));
        let mut told = format!("{:o} ", found.mode());
        if found.is_dir() {
            kernels_tree(&below, &path, tree);
        } else if found.is_symlink() {
            told += fs::read_link(&below).unwrap().to_str().unwrap();
        } else if found.is_file() {
            let text = fs::read_to_string(&below).unwrap();
            write!(told, "{} {} {text}", found.nlink(), found.size()).unwrap();
        }
        if !found.is_symlink() {
            let value = xattr(&below, "user.test");
            told += &value.map_or(String::new(), |value| format!(" {value:?}"));
        }
        write!(told, " inode {}", found.ino()).unwrap();
        tree.insert(path, told);
    }
}

/// What lies in an upper layer: kinds, modes, whiteouts and marks.
fn on_disk(base: &Path, path: &str, tree: &mut BTreeMap<String, String>) {
    const MARKS: [&str; 5] = ["opaque", "redirect", "origin", "impure", "metacopy"];
    for entry in fs::read_dir(base).unwrap() {
        let entry = entry.unwrap();
        let found = entry.metadata().unwrap();
        let name = entry.file_name().into_string().unwrap();
        let (below, path) = (base.join(&name), format!("{path}/{name}"));
        let mut told = format!("{:o} {} ", found.mode(), found.nlink());
        if found.is_dir() {
            told = format!("{:o} ", found.mode());
            on_disk(&below, &path, tree);
        } else if found.file_type().is_char_device() {
            told = format!("device {}", found.rdev());
        } else if found.is_file() {
            told += &fs::read_to_string(&below).unwrap();
        }
        if !found.is_symlink() && !found.file_type().is_char_device() {
            for mark in MARKS {
                if let Some(value) = xattr(&below, &format!("trusted.overlay.{mark}")) {
                    write!(told, " {mark}={value:02x?}").unwrap();
                }
            }
        }
        tree.insert(path, told);
    }
}

struct Mounted(PathBuf);

impl Mounted {
    fn new(scratch: &Scratch, at: &str, (upper, work): (&str, &str), options: &str) -> Self {
        let at = scratch.0.join(at);
        fs::create_dir_all(&at).unwrap();
        let base = scratch.0.to_str().unwrap();
        let options = format!(
            "lowerdir={base}/l1:{base}/l2,upperdir={base}/{upper},workdir={base}/{work},\
             index=off,metacopy=off,xino=off,{options}"
        );
        let mount = format!("mount -t overlay overlay -o {options} {}", at.display());
        scratch.sh(&mount);
        Self(at)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

/// Inodes are compared where the kernel says a lower one: what is new has its own.
fn without_new_inodes(
    tree: BTreeMap<String, String>,
    lower: &BTreeSet<u64>,
) -> BTreeMap<String, String> {
    let each = tree.into_iter().map(|(path, told)| {
        let (rest, inode) = told.rsplit_once(" inode ").unwrap();
        match lower.contains(&inode.parse().unwrap()) {
            true => (path, told),
            false => (path, rest.to_owned()),
        }
    });
    each.collect()
}

fn inodes(base: &Path, all: &mut BTreeSet<u64>) {
    for entry in fs::read_dir(base).unwrap() {
        let entry = entry.unwrap();
        let found = entry.metadata().unwrap();
        all.insert(found.ino());
        if found.is_dir() {
            inodes(&entry.path(), all);
        }
    }
}

#[test]
fn random_operations_do_what_the_kernels_overlayfs_does() {
    if !root() {
        return;
    }
    let rounds = std::env::var("CULVERT_ROUNDS").map_or(60, |rounds| rounds.parse().unwrap());
    for seed in 0..rounds {
        let scratch = Scratch::new();
        for name in ["a/a", "a/b/c", "b", "c/a", "c/c/c", "d/d/d"] {
            scratch.write(&format!("l2/{name}"), &format!("lower {name}"));
        }
        for name in ["a/a", "c/d/e", "e/a", "d/d/e"] {
            scratch.write(&format!("l1/{name}"), &format!("middle {name}"));
        }
        scratch.sh(
            "mkdir -p ku kw ou ow l1/b2 l2/e/e; ln -s nowhere l2/c/b; mknod l1/c/a c 0 0;
            setfattr -n trusted.overlay.opaque -v y l1/e; setfattr -n user.test -v low l2/b",
        );
        let redirect = if seed % 2 == 0 {
            "redirect_dir=on"
        } else {
            "redirect_dir=off"
        };
        let mounted = Mounted::new(&scratch, "k", ("ku", "kw"), redirect);
        let work = format!("workdir={}/ow", scratch.0.display());
        let open = |upper: &str| scratch.open(upper, &["l1", "l2"], &[redirect, &work]);
        let ours = open("ou");
        let mut random = Random(seed);
        let mut steps = Vec::new();
        for _ in 0..60 {
            let step = random.step();
            let kernels = on_kernel(&mounted.0, &step);
            let own = Ours(&*ours)
                .step(&step)
                .map_err(|error| error.errno().raw());
            steps.push(step);
            assert_eq!(own, kernels, "seed {seed} {redirect}: {steps:#?}");
        }
        let mut lower = BTreeSet::new();
        inodes(&scratch.0.join("l1"), &mut lower);
        inodes(&scratch.0.join("l2"), &mut lower);
        let kernels = || {
            let mut tree = BTreeMap::new();
            kernels_tree(&mounted.0, "", &mut tree);
            without_new_inodes(tree, &lower)
        };
        let shown = |fs: &dyn FileSystem| without_new_inodes(Ours(fs).tree(), &lower);
        assert_eq!(
            shown(&*ours),
            kernels(),
            "seed {seed} {redirect}: {steps:#?}"
        );
        let [mut own_disk, mut kernels_disk] = [(); 2].map(|()| BTreeMap::new());
        on_disk(&scratch.0.join("ou"), "", &mut own_disk);
        on_disk(&scratch.0.join("ku"), "", &mut kernels_disk);
        assert_eq!(
            own_disk, kernels_disk,
            "on disk, seed {seed} {redirect}: {steps:#?}"
        );
        // Another process of ours, and each reads what the other wrote.
        assert_eq!(
            shown(&*open("ou")),
            kernels(),
            "again, seed {seed} {redirect}"
        );
        drop(ours);
        drop(mounted);
        let read_by_ours = shown(&*open("ku"));
        let mounted = Mounted::new(&scratch, "k", ("ou", "ow"), redirect);
        let mut tree = BTreeMap::new();
        kernels_tree(&mounted.0, "", &mut tree);
        let read_by_kernel = without_new_inodes(tree, &lower);
        assert_eq!(
            read_by_ours, read_by_kernel,
            "the other's, seed {seed} {redirect}: {steps:#?}"
        );
    }
}

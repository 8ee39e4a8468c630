//! Random trees, links and paths, and trees made on disk.

use super::fake::{File, Tree};
use alloc::{borrow::ToOwned, format, string::String, vec::Vec};
use culvert::{FileKind, Node};
use std::{
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{PermissionsExt, symlink},
    },
    path::Path,
};

/// Numbers that a seed repeats.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        // xorshift64*, Vigna, "An experimental exploration of Marsaglia's xorshift generators".
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
    pub fn pick<'x, T>(&mut self, from: &'x [T]) -> &'x T {
        &from[self.below(from.len())]
    }
}

/// A tree to be made on disk or played by a driver; `R` at the beginning of a link's target stands
/// for the world's root.
pub struct World {
    /// What lies outside the mounts, then each mount with its target below the root.
    pub trees: Vec<(String, Tree)>,
    /// All paths that exist, as one would write them.
    pub names: Vec<String>,
}

const NAMES: [&str; 5] = ["a", "b", "c", "dd", "e"];

pub fn make_world(random: &mut Random) -> World {
    let mut trees: Vec<(String, Tree)> =
        [("", ""), ("/m/fs", ""), ("/m/fs2", ""), ("/m/fs/s/t", "")]
            .map(|(target, words)| (target.to_owned(), Tree::new(words)))
            .into();
    if random.chance(40) {
        trees.pop();
    }
    let targets: Vec<String> = trees.iter().map(|(target, _)| target.clone()).collect();
    let mut names: Vec<String> = targets.clone();
    for (index, (target, tree)) in trees.iter_mut().enumerate() {
        match index {
            0 => *tree = Tree::new("m/fs/ m/fs2/ m/fs2x/a"),
            1 => *tree = Tree::new("s/t/"),
            _ => {}
        }
        let mut directories: Vec<u64> = (1..=tree.files.len() as u64)
            .filter(|&node| tree.file(node).kind == FileKind::Directory)
            .filter(|&node| {
                !targets.contains(&format!("{target}/{}", tree.path(Node(node)))) || node == 1
            })
            .collect();
        for _ in 0..random.below(25) {
            let dir = *random.pick(&directories);
            let name = *random.pick(&NAMES);
            if tree.file(dir).children.contains_key(name.as_bytes()) {
                continue;
            }
            let (kind, link) = match random.below(10) {
                0..5 => (FileKind::Directory, String::new()),
                5..7 => (FileKind::Regular, String::new()),
                _ => (FileKind::Symlink, make_path(random, &names, true)),
            };
            let node = tree.push(dir, name.as_bytes(), kind, link.as_bytes());
            let path = tree.path(Node(node));
            names.push(format!("{target}/{path}"));
            if kind == FileKind::Directory {
                directories.push(node);
                // Not on the way to targets: what leads there is the mounter's affair.
                if random.chance(15) {
                    tree.files[node as usize - 1].permissions =
                        *random.pick(&[0o700, 0o666, 0o111]);
                }
            }
        }
    }
    World { trees, names }
}

/// A path that may exist, with all the oddities of spelling. Absolute ones begin with `R`.
pub fn make_path(random: &mut Random, names: &[String], link: bool) -> String {
    let mut path = String::new();
    if random.chance(if link { 40 } else { 55 }) {
        path = format!("R{}", random.pick(names));
    } else if random.chance(60) {
        // A relative path: some real one with its beginning cut off.
        let real = random.pick(names);
        let skip = random.below(real.len() + 1);
        let start = real[skip..]
            .find('/')
            .map_or(real.len(), |slash| skip + slash + 1);
        path += &real[start.min(real.len())..];
    }
    for _ in 0..random.below(4) {
        if !path.is_empty() && !path.ends_with('/') {
            path += if random.chance(10) { "//" } else { "/" };
        }
        path += match random.below(10) {
            0..3 => "..",
            3 => ".",
            4 => "m",
            5 => "fs",
            _ => *random.pick(&NAMES),
        };
    }
    if path.is_empty() {
        path = ".".to_owned();
    }
    if random.chance(15) {
        path += "/";
    }
    path
}

pub fn rooted(path: &[u8], root: &str) -> Vec<u8> {
    match path.strip_prefix(b"R") {
        Some(rest) => [root.as_bytes(), rest].concat(),
        None => path.to_vec(),
    }
}

/// Makes `tree` below `at`.
pub fn write(tree: &Tree, at: &Path, root: &str) {
    fn go(tree: &Tree, node: u64, at: &Path, root: &str) {
        let file: &File = tree.file(node);
        match file.kind {
            FileKind::Directory => {
                let _ = fs::create_dir_all(at);
                for (name, &child) in &file.children {
                    go(
                        tree,
                        child,
                        &at.join(std::ffi::OsStr::from_bytes(name)),
                        root,
                    );
                }
                fs::set_permissions(at, fs::Permissions::from_mode(file.permissions)).unwrap();
            }
            FileKind::Symlink => {
                let target = rooted(&file.target, root);
                symlink(std::ffi::OsStr::from_bytes(&target), at).unwrap();
            }
            _ => fs::write(at, b"").unwrap(),
        }
    }
    go(tree, 1, at, root);
}

//! Random operations, beside what an ext4 directory with the flag `casefold` would have. Linux here
//! is built without CONFIG_UNICODE, so that directory is a table by folded name: how names fold is
//! compared with ext4's own code elsewhere (`each_character_folds_as_in_ext4`).

use crate::tools::{cased, errno, layered, names, node};
use culvert::testing::{Memory, caller};
use culvert::{Errno, FileSystem, Node, OpenFlags, RenameFlags};
use std::collections::BTreeMap;

/// What is behind a folded name: as it was written, and the file, with whether it is a directory.
type Table = BTreeMap<String, (String, Node, bool)>;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }

    fn name(&mut self) -> String {
        let name = ["alpha", "beta", "gamma", "delta"][self.below(4)];
        cased(name, self.below(1 << 5))
    }
}

fn step(fs: &dyn FileSystem, root: Node, table: &mut Table, random: &mut Random) -> String {
    let (name, other) = (random.name(), random.name());
    let (key, other_key) = (name.to_lowercase(), other.to_lowercase());
    let there = table.get(&key).cloned();
    let bytes = name.as_bytes();
    let (what, got, want) = match random.below(6) {
        0 => {
            let found = node(fs, root, bytes).ok();
            let want = there.as_ref().map(|there| there.1);
            assert_eq!(found, want, "lookup {name}");
            return String::new();
        }
        1 => {
            let exclusive = random.below(2) == 0;
            let flags = match exclusive {
                true => OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE),
                false => OpenFlags::READ_WRITE,
            };
            let made = fs.create(&caller(), root, bytes, flags, 0o644);
            let want = match &there {
                Some(_) if exclusive => Some(Errno::EEXIST),
                Some((_, _, true)) => Some(Errno::EISDIR),
                _ => None,
            };
            if let (Ok((entry, _)), None) = (&made, &there) {
                table.insert(key, (name.clone(), entry.attributes.node, false));
            }
            (format!("create {name}"), errno(made), want)
        }
        2 => {
            let made = fs.mkdir(&caller(), root, bytes, 0o755);
            let want = there.as_ref().map(|_| Errno::EEXIST);
            if let Ok(entry) = &made {
                table.insert(key, (name.clone(), entry.attributes.node, true));
            }
            (format!("mkdir {name}"), errno(made), want)
        }
        3 => {
            let want = match &there {
                None => Some(Errno::ENOENT),
                Some((_, _, true)) => Some(Errno::EISDIR),
                Some(_) => None,
            };
            let done = errno(fs.unlink(&caller(), root, bytes));
            if done.is_none() {
                table.remove(&key);
            }
            (format!("unlink {name}"), done, want)
        }
        4 => {
            let want = match &there {
                None => Some(Errno::ENOENT),
                Some((_, _, false)) => Some(Errno::ENOTDIR),
                Some(_) => None,
            };
            let done = errno(fs.rmdir(&caller(), root, bytes));
            if done.is_none() {
                table.remove(&key);
            }
            (format!("rmdir {name}"), done, want)
        }
        _ => {
            let target = table.get(&other_key).cloned();
            let want = match (&there, &target) {
                (None, _) => Some(Errno::ENOENT),
                (Some(_), _) if key == other_key => None,
                (Some((_, _, true)), Some((_, _, false))) => Some(Errno::ENOTDIR),
                (Some((_, _, false)), Some((_, _, true))) => Some(Errno::EISDIR),
                _ => None,
            };
            let to = (root, other.as_bytes());
            let flags = RenameFlags::default();
            let done = errno(fs.rename(&caller(), (root, bytes), to, flags));
            if done.is_none() {
                let (_, moved, is_directory) = table.remove(&key).unwrap();
                // ext4 keeps the name that is there; a name's own case it does not change.
                let written = match target.filter(|_| key != other_key) {
                    Some((written, ..)) => written,
                    None => other.clone(),
                };
                table.insert(other_key, (written, moved, is_directory));
            }
            (format!("rename {name} {other}"), done, want)
        }
    };
    assert_eq!(got, want, "{what}");
    what
}

#[test]
fn random_operations_are_as_on_a_table_of_folded_names() {
    for seed in 1..=40 {
        let fs = layered(Box::new(Memory::new()), &[]);
        let (root, mut table, mut random) = (fs.root(), Table::new(), Random(seed * 0x9e37));
        let mut all = Vec::new();
        for _ in 0..300 {
            all.push(step(&*fs, root, &mut table, &mut random));
            let mut want: Vec<_> = table.values().map(|there| there.0.clone()).collect();
            want.sort();
            let want: Vec<_> = want.into_iter().map(String::into_bytes).collect();
            assert_eq!(names(&*fs, root), want, "seed {seed}: {all:?}");
        }
    }
}

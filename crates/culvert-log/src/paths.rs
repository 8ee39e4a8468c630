//! From nodes to paths, by the names under which they were found.

use culvert::Operation;
use culvert_drivers::log::record::{Record, What};
use std::collections::{BTreeMap, HashMap};

/// As many nodes are remembered; then all but the root are forgotten, and learnt again.
const MOST: usize = 500_000;
/// As many bytes their names may have.
const BYTES: usize = 256 << 20;
/// The longest path that is put together: `PATH_MAX` (limits.h). Deeper ones begin at a number.
const LONGEST: usize = 4096;

/// RENAME_EXCHANGE (renameat2(2)).
const EXCHANGE: u64 = 2;

/// What each node is called, below the root, without a leading slash.
#[derive(Default)]
pub struct Paths {
    root: u64,
    nodes: HashMap<u64, Vec<u8>>,
    /// The same the other way round, of names that are there.
    names: BTreeMap<Vec<u8>, u64>,
    /// Bytes of names since all were forgotten.
    bytes: usize,
}

impl Paths {
    /// The path of `node`; of one that nobody has found yet its number.
    pub fn of(&self, node: u64) -> Vec<u8> {
        match self.nodes.get(&node) {
            _ if node == self.root => Vec::new(),
            Some(path) => path.clone(),
            None => format!("?{node:x}").into_bytes(),
        }
    }

    /// The path of `name` in `dir`.
    pub fn below(&self, dir: u64, name: &[u8]) -> Vec<u8> {
        let mut path = self.of(dir);
        if path.len() + name.len() > LONGEST {
            path = format!("?{dir:x}").into_bytes();
        }
        if !path.is_empty() && !name.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    fn note(&mut self, node: u64, path: Vec<u8>) {
        if node == self.root {
            return;
        }
        let most = self.nodes.len().max(self.names.len());
        if most >= MOST || self.bytes >= BYTES {
            self.nodes.clear();
            self.names.clear();
            self.bytes = 0;
        }
        self.bytes += 2 * path.len();
        self.names.insert(path.clone(), node);
        self.nodes.insert(node, path);
    }

    /// Takes what lies at `path` and below it out; paths below it as they were.
    fn take(&mut self, path: &[u8]) -> Vec<(Vec<u8>, u64)> {
        let below = [path, b"/"].concat();
        let end = [path, b"0"].concat();
        let mut taken: Vec<_> = self
            .names
            .range(below..end)
            .map(|(path, &node)| (path.clone(), node))
            .collect();
        if let Some(&node) = self.names.get(path) {
            taken.push((path.to_vec(), node));
        }
        for (path, _) in &taken {
            self.names.remove(path);
        }
        taken
    }

    /// Learns from `record` what it says of names.
    pub fn learn(&mut self, record: &Record<'_>) {
        let What::Operation(operation) = record.what else {
            if record.what == What::Process {
                self.root = record.node;
            }
            return;
        };
        // Of a name that was cut it is not said what was found.
        let finds = record.found != 0;
        if record.errno != 0 {
            return;
        }
        match operation {
            Operation::Lookup
            | Operation::Create
            | Operation::Mkdir
            | Operation::Mknod
            | Operation::Symlink
            | Operation::Link
                if finds =>
            {
                let path = self.below(record.node, record.name);
                self.note(record.found, path);
            }
            // It may have the number of what is gone.
            Operation::Tmpfile => drop(self.nodes.remove(&record.found)),
            Operation::Unlink | Operation::Rmdir => {
                let path = self.below(record.node, record.name);
                self.take(&path);
            }
            Operation::Rename => {
                let from = self.below(record.node, record.name);
                let to = self.below(record.node2, record.other);
                let moved = self.take(&from);
                let replaced = self.take(&to);
                self.put(moved, &from, &to);
                if record.numbers[0] & EXCHANGE != 0 {
                    self.put(replaced, &to, &from);
                }
            }
            _ => {}
        }
    }

    fn put(&mut self, moved: Vec<(Vec<u8>, u64)>, from: &[u8], to: &[u8]) {
        for (path, node) in moved {
            // Another one has that number, or it was found elsewhere since.
            if self.nodes.get(&node) != Some(&path) {
                continue;
            }
            let path = [to, &path[from.len()..]].concat();
            self.note(node, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert::Node;

    fn record<'a>(
        operation: Operation,
        (dir, name): (u64, &'a str),
        (dir2, other): (u64, &'a str),
        found: u64,
    ) -> Record<'a> {
        Record {
            name: name.as_bytes(),
            node2: dir2,
            other: other.as_bytes(),
            found,
            ..Record::new(What::Operation(operation), Node(dir))
        }
    }

    #[test]
    fn a_path_follows_its_node() {
        let mut paths = Paths::default();
        paths.learn(&Record::new(What::Process, Node(1)));
        paths.learn(&record(Operation::Mkdir, (1, "d"), (0, ""), 2));
        paths.learn(&record(Operation::Create, (2, "f"), (0, ""), 3));
        paths.learn(&record(Operation::Lookup, (1, "d/e/g"), (0, ""), 4));
        assert_eq!(paths.of(1), b"");
        assert_eq!(paths.of(3), b"d/f");
        assert_eq!(paths.below(4, b"x"), b"d/e/g/x");
        assert_eq!(paths.of(99), b"?63");
        paths.learn(&record(Operation::Rename, (1, "d"), (1, "dd"), 0));
        assert_eq!(
            (paths.of(2), paths.of(3)),
            (b"dd".to_vec(), b"dd/f".to_vec())
        );
        assert_eq!(paths.of(4), b"dd/e/g");
        paths.learn(&record(Operation::Create, (1, "x"), (0, ""), 5));
        let exchange = Record {
            numbers: [EXCHANGE, 0, 0, 0],
            ..record(Operation::Rename, (1, "dd"), (1, "x"), 0)
        };
        paths.learn(&exchange);
        assert_eq!(
            (paths.of(5), paths.of(3)),
            (b"dd".to_vec(), b"x/f".to_vec())
        );
        paths.learn(&record(Operation::Unlink, (2, "f"), (0, ""), 0));
        // Who has it open may still read.
        assert_eq!(paths.of(3), b"x/f");
        let failed = Record {
            errno: 2,
            ..record(Operation::Lookup, (1, "no"), (0, ""), 0)
        };
        paths.learn(&failed);
        assert_eq!(paths.of(0), b"?0");
    }
}

//! The reading half: a driver against a description of what it shall show.

mod content;
mod listing;
mod names;
mod refusals;
mod threads;

use super::{Report, Tree, caller, shown, tree::Expected};
use crate::{Entry, FileSystem, Node};
use std::{
    collections::{BTreeMap, HashMap},
    string::String,
    vec::Vec,
};

/// Checks the reading half of the contract of `driver`, which shows `expected` and is not changed
/// by anyone meanwhile.
///
/// On a read-only driver it also tries every change, which must be refused with `EROFS` and do
/// nothing.
pub fn reading(driver: &dyn FileSystem, expected: &Tree) -> Report {
    let mut report = Report::default();
    let mut kit = Kit {
        driver,
        expected,
        entries: BTreeMap::new(),
        names: names_below(expected),
        links: HashMap::new(),
    };
    for path in expected.paths.values() {
        *kit.links.entry(path.file).or_default() += 1;
    }
    report.part("names", |report| names::check(&mut kit, report));
    let kit = &kit;
    report.part("listing", |report| listing::check(kit, report));
    report.part("content", |report| content::check(kit, report));
    report.part("links and attributes", |report| {
        content::check_links(kit, report)
    });
    report.part("extended attributes", |report| {
        content::check_xattrs(kit, report)
    });
    report.part("refusals", |report| refusals::check(kit, report));
    report.part("threads", |report| threads::check(kit, report));
    for entry in kit.entries.values() {
        driver.forget(entry.attributes.node, 1);
    }
    report
}

/// One path that was found, with what is expected of it.
struct Found<'a> {
    path: &'a [u8],
    place: String,
    expected: &'a Expected,
    entry: Entry,
    node: Node,
}

struct Kit<'a> {
    driver: &'a dyn FileSystem,
    expected: &'a Tree,
    /// What a lookup of each path gave, one reference each.
    entries: BTreeMap<&'a [u8], Entry>,
    /// The names directly below each path that has any, sorted.
    names: HashMap<&'a [u8], Vec<&'a [u8]>>,
    /// How many paths lead to a file.
    links: HashMap<u64, u32>,
}

fn names_below(expected: &Tree) -> HashMap<&[u8], Vec<&[u8]>> {
    let mut names = HashMap::<_, Vec<_>>::new();
    for path in expected.paths.keys() {
        let (dir, name) = match path.iter().rposition(|&b| b == b'/') {
            None => (&b""[..], &path[..]),
            Some(at) => (&path[..at], &path[at + 1..]),
        };
        names.entry(dir).or_default().push(name);
    }
    names.values_mut().for_each(|names| names.sort_unstable());
    names
}

impl<'a> Kit<'a> {
    /// The names expected directly in the directory at `path`, sorted.
    fn names(&self, path: &[u8]) -> &[&'a [u8]] {
        self.names.get(path).map_or(&[], Vec::as_slice)
    }

    /// Every path that was found.
    fn found(&self) -> impl Iterator<Item = Found<'a>> {
        self.entries.iter().map(|(path, entry)| Found {
            path,
            place: shown(path),
            expected: &self.expected.paths[*path],
            entry: *entry,
            node: entry.attributes.node,
        })
    }

    fn of_kind(&self, kind: crate::FileKind) -> impl Iterator<Item = Found<'a>> {
        self.found()
            .filter(move |found| found.expected.kind == kind)
    }

    /// The root and every directory found, with its path.
    fn directories(&self) -> Vec<(&'a [u8], Node)> {
        let below = self.of_kind(crate::FileKind::Directory);
        let root = (&b""[..], self.driver.root());
        [root]
            .into_iter()
            .chain(below.map(|found| (found.path, found.node)))
            .collect()
    }

    /// The directory that holds `path`, and the last component.
    fn holder(&self, path: &'a [u8]) -> Option<(Node, &'a [u8])> {
        match path.iter().rposition(|&b| b == b'/') {
            None => Some((self.driver.root(), path)),
            Some(at) => {
                let dir = self.entries.get(&path[..at])?;
                Some((dir.attributes.node, &path[at + 1..]))
            }
        }
    }
}

//! Lookup, walk, parent, path_of and attributes tell one story.

use super::{Kit, caller, shown};
use crate::{Attributes, Errno, FileKind, Node, testing::Report};
use std::{collections::HashMap, format, vec, vec::Vec};

pub(super) fn check(kit: &mut Kit<'_>, report: &mut Report) {
    root(kit, report);
    // In the order of paths, a directory comes before what is in it.
    for path in kit.expected.paths.keys() {
        let Some((dir, name)) = kit.holder(path) else {
            continue;
        };
        let place = shown(path);
        let found = kit.driver.lookup(&caller(), dir, name);
        if let Some(entry) = report.works("lookup-finds", &place, found) {
            kit.entries.insert(path, entry);
        }
    }
    identity(kit, report);
    attributes(kit, report);
    walks(kit, report);
    absent(kit, report);
}

fn root(kit: &Kit<'_>, report: &mut Report) {
    let root = kit.driver.root();
    report.check("root", root != Node(0), || "the root is node 0".into());
    report.equal("root", "root()", kit.driver.root(), root);
    if let Some(found) = report.works(
        "root",
        "attributes of the root",
        kit.driver.attributes(&caller(), root),
    ) {
        report.equal("root", "the root's kind", found.kind, FileKind::Directory);
        report.equal("root", "the root's node", found.node, root);
    }
    if let Some(parent) = report.works("parent", "parent of the root", kit.driver.parent(root)) {
        report.equal("parent", "parent of the root", parent, root);
    }
    if let Some(path) = report.works("path-of", "path of the root", kit.driver.path_of(root)) {
        report.equal("path-of", "path of the root", path, Vec::new());
    }
}

/// Nodes are stable, and equal exactly for equal files.
fn identity(kit: &Kit<'_>, report: &mut Report) {
    let mut nodes = HashMap::new();
    let mut inodes = HashMap::new();
    for found in kit.found() {
        let (place, node) = (&found.place, found.node);
        report.check("node-identity", node != Node(0), || {
            format!("{place}: node 0")
        });
        let file = found.expected.file;
        let known = *nodes.entry(node).or_insert(file);
        report.check("node-identity", known == file, || {
            format!("{place}: shares node {} with another file", node.0)
        });
        let known = *inodes.entry(file).or_insert(node);
        report.equal(
            "node-identity",
            &format!("{place}: node among hard links"),
            node,
            known,
        );
        if let Some((dir, name)) = kit.holder(found.path)
            && let Some(again) = report.works(
                "lookup-finds",
                place,
                kit.driver.lookup(&caller(), dir, name),
            )
        {
            report.equal("node-stability", place, again.attributes.node, node);
            kit.driver.forget(again.attributes.node, 1);
            if found.expected.kind == FileKind::Directory {
                let parent = kit.driver.parent(node);
                if let Some(parent) = report.works("parent", place, parent) {
                    report.equal("parent", &format!("parent of {place}"), parent, dir);
                }
            }
        }
        if let Some(path) = report.works("path-of", place, kit.driver.path_of(node)) {
            let leads = kit
                .entries
                .get(path.as_slice())
                .map(|entry| entry.attributes.node);
            report.equal(
                "path-of",
                &format!("{place}: {} leads to", shown(&path)),
                leads,
                Some(node),
            );
        }
    }
}

/// What must not differ between two reports of one unchanged file; reading may move the access
/// time.
fn comparable(attributes: &Attributes) -> Attributes {
    Attributes {
        atime: Default::default(),
        ..*attributes
    }
}

fn attributes(kit: &Kit<'_>, report: &mut Report) {
    for found in kit.found() {
        let (place, got, want) = (&found.place, &found.entry.attributes, found.expected);
        if let Some(again) = report.works(
            "attributes-agree",
            place,
            kit.driver.attributes(&caller(), found.node),
        ) {
            report.equal(
                "attributes-agree",
                place,
                comparable(&again),
                comparable(got),
            );
        }
        report.equal("attributes", &format!("{place}: kind"), got.kind, want.kind);
        report.check("attributes", got.permissions <= 0o7777, || {
            format!("{place}: permissions {:o}", got.permissions)
        });
        for time in [got.atime, got.mtime, got.ctime] {
            report.check("attributes", time.nanoseconds < 1_000_000_000, || {
                format!("{place}: {} nanoseconds in a time", time.nanoseconds)
            });
        }
        if let Some(permissions) = want.permissions {
            report.equal(
                "attributes",
                &format!("{place}: permissions"),
                got.permissions,
                permissions,
            );
        }
        if let Some(owner) = want.owner {
            report.equal(
                "attributes",
                &format!("{place}: owner"),
                (got.uid, got.gid),
                owner,
            );
        }
        if let Some(mtime) = want.mtime {
            report.equal(
                "attributes",
                &format!("{place}: modified"),
                got.mtime,
                mtime,
            );
        }
        let links = kit.links[&want.file];
        if want.kind != FileKind::Directory && (links > 1 || kit.driver.capabilities().hard_links) {
            report.equal("attributes", &format!("{place}: links"), got.links, links);
        }
        if matches!(want.kind, FileKind::Regular | FileKind::Symlink) {
            let size = want.content.bytes().len() as u64;
            report.equal("attributes", &format!("{place}: size"), got.size, size);
        }
    }
}

fn walks(kit: &Kit<'_>, report: &mut Report) {
    let root = kit.driver.root();
    for found in kit.found() {
        let place = &found.place;
        let (mut from, mut at, mut passed) = (root, 0, vec![]);
        let entry = loop {
            let walked = kit.driver.walk(&caller(), from, &found.path[at..]);
            let Some(walked) = report.works("walk", place, walked) else {
                break None;
            };
            let Some(entry) = walked.entry else {
                report.fail(
                    "walk",
                    format!("{place}: no step from {}", shown(&found.path[..at])),
                );
                break None;
            };
            at += walked.consumed;
            passed.push(entry.attributes.node);
            if walked.parent != from {
                passed.push(walked.parent);
            }
            let good = at <= found.path.len() && matches!(found.path.get(at), None | Some(b'/'));
            report.check("walk", good, || {
                format!("{place}: stops inside a name, at byte {at}")
            });
            if !good || at == found.path.len() {
                let holder = kit.holder(found.path).map(|(dir, _)| dir);
                report.equal(
                    "walk",
                    &format!("{place}: parent"),
                    Some(walked.parent),
                    holder,
                );
                break good.then_some(entry);
            }
            at += 1;
            from = entry.attributes.node;
        };
        if let Some(entry) = entry {
            report.equal("walk", place, entry.attributes.node, found.node);
        }
        for node in passed {
            kit.driver.forget(node, 1);
        }
        let beyond = [found.path, b"/x"].concat();
        match found.expected.kind {
            FileKind::Directory => {}
            FileKind::Symlink => stops_at_link(kit, report, &beyond, found.node),
            _ => {
                let walked = walk_all(kit, &beyond);
                report.refused("walk", &shown(&beyond), walked, Errno::ENOTDIR);
            }
        }
    }
}

/// Walks in as many steps as the driver likes.
fn walk_all(kit: &Kit<'_>, path: &[u8]) -> crate::Result<(Node, usize)> {
    let (mut from, mut at) = (kit.driver.root(), 0);
    loop {
        let walked = kit.driver.walk(&caller(), from, &path[at..])?;
        at += walked.consumed;
        let Some(entry) = walked.entry else {
            return Ok((from, at));
        };
        from = entry.attributes.node;
        if at >= path.len() || entry.attributes.kind == FileKind::Symlink {
            return Ok((from, at));
        }
        at += 1;
    }
}

fn stops_at_link(kit: &Kit<'_>, report: &mut Report, beyond: &[u8], link: Node) {
    let place = shown(beyond);
    if let Some(stop) = report.works("walk", &place, walk_all(kit, beyond)) {
        report.equal(
            "walk",
            &format!("{place}: stops at the link"),
            stop,
            (link, beyond.len() - 2),
        );
    }
}

/// Names that could be there and are not, the nasty ones among them.
fn absent(kit: &Kit<'_>, report: &mut Report) {
    let nasty: [&[u8]; 14] = [
        b"culvert-has-no-such-name",
        &[0xff; 255],
        &[b'a'; 255],
        b"\n",
        b" ",
        b"...",
        b"-rf",
        b"\\",
        b"\x01\x7f\x80",
        b"*",
        "\u{202e}\u{feff}".as_bytes(),
        b"%2e%2e%2f",
        b"C:",
        b"..\\x",
    ];
    for (path, dir) in kit.directories() {
        let present = kit.names(path);
        for name in nasty
            .iter()
            .filter(|name| present.binary_search(name).is_err())
        {
            let place = format!("{} in {}", name.escape_ascii(), shown(path));
            let found = kit.driver.lookup(&caller(), dir, name);
            report.refused("absent-names", &place, found, Errno::ENOENT);
        }
    }
}

//! Directory listings: every entry once, from any position, however the sink refuses.

use super::{Kit, caller, shown};
use crate::{DirectoryEntry, FileKind, Node, OpenFlags, OpenedDirectory, Result, testing::Report};
use std::{collections::HashSet, format, string::String, string::ToString, vec::Vec};

#[derive(Clone, Debug, PartialEq)]
struct Listed {
    name: Vec<u8>,
    next: u64,
    inode: u64,
    kind: FileKind,
}

impl Listed {
    fn of(entry: &DirectoryEntry<'_>) -> Self {
        Self {
            name: entry.name.to_vec(),
            next: entry.next,
            inode: entry.inode,
            kind: entry.kind,
        }
    }
}

/// Lists from `from` on; the sink takes `room` entries. Also: whether it was called again after it
/// had refused.
fn list(kit: &Kit<'_>, dir: Node, from: u64, room: usize) -> Result<(Vec<Listed>, bool)> {
    let (mut listed, mut refused, mut insisted) = (Vec::new(), false, false);
    kit.driver
        .read_directory(&caller(), dir, from, &mut |entry| {
            insisted |= refused;
            refused = listed.len() >= room;
            if !refused {
                listed.push(Listed::of(&entry));
            }
            !refused
        })?;
    Ok((listed, insisted))
}

pub(super) fn check(kit: &Kit<'_>, report: &mut Report) {
    for (path, dir) in kit.directories() {
        let place = shown(path);
        let listed = list(kit, dir, 0, usize::MAX);
        let Some((listed, _)) = report.works("listing", &place, listed) else {
            continue;
        };
        entries(kit, report, path, dir, &listed);
        positions(kit, report, path, dir, &listed);
        opened(kit, report, path, dir, &listed);
        with_attributes(kit, report, path, dir, &listed);
    }
}

fn entries(kit: &Kit<'_>, report: &mut Report, path: &[u8], dir: Node, listed: &[Listed]) {
    let place = shown(path);
    let mut names: Vec<_> = listed.iter().map(|entry| &entry.name[..]).collect();
    names.sort();
    let count = names.len();
    names.dedup();
    report.equal(
        "every-entry-once",
        &format!("{place}: different names"),
        names.len(),
        count,
    );
    let lacks = |names: &[&[u8]], others: &[&[u8]]| -> Vec<String> {
        let absent = others
            .iter()
            .filter(|name| names.binary_search(name).is_err());
        absent
            .map(|name| name.escape_ascii().to_string())
            .take(10)
            .collect()
    };
    let (missing, surplus) = (
        lacks(&names, kit.names(path)),
        lacks(kit.names(path), &names),
    );
    report.check("listing", missing.is_empty() && surplus.is_empty(), || {
        format!("{place}: lists too little ({missing:?}) or too much ({surplus:?})")
    });
    let positions: HashSet<_> = listed.iter().map(|entry| entry.next).collect();
    report.equal(
        "positions",
        &format!("{place}: different positions"),
        positions.len(),
        count,
    );
    for entry in listed {
        let place = format!("{} in {place}", entry.name.escape_ascii());
        let legal = matches!(entry.name.len(), 1..=255)
            && !entry.name.contains(&b'/')
            && !entry.name.contains(&0)
            && !matches!(&*entry.name, b"." | b"..");
        report.check("legal-names", legal, || {
            format!("{place}: no name that may be listed")
        });
        let position = entry.next != 0 && entry.next <= i64::MAX as u64;
        report.check("positions", position, || {
            format!("{place}: position {}", entry.next)
        });
        if !legal {
            continue;
        }
        let found = kit.driver.lookup(&caller(), dir, &entry.name);
        if let Some(found) = report.works("listing", &place, found) {
            let said = (entry.inode, entry.kind);
            let is = (found.attributes.inode, found.attributes.kind);
            report.equal(
                "listing-agrees",
                &format!("{place}: inode and kind"),
                said,
                is,
            );
            kit.driver.forget(found.attributes.node, 1);
        }
    }
}

/// Goes on at any position, and stops where the sink says.
fn positions(kit: &Kit<'_>, report: &mut Report, path: &[u8], dir: Node, listed: &[Listed]) {
    let place = shown(path);
    // All positions of a directory of usual size, a hundred of a large one.
    for at in (0..listed.len()).step_by(1 + listed.len() / 100) {
        let from = listed[at].next;
        let place = format!("{place} from {from}");
        if let Some((rest, _)) = report.works("restart", &place, list(kit, dir, from, usize::MAX)) {
            report.equal("restart", &place, &rest[..], &listed[at + 1..]);
        }
        let before = if at == 0 { 0 } else { listed[at - 1].next };
        for room in [0, 1, 2] {
            let want = &listed[at..(at + room).min(listed.len())];
            let part = list(kit, dir, before, room);
            let Some((part, insisted)) = report.works("restart", &place, part) else {
                continue;
            };
            report.equal(
                "restart",
                &format!("{place}, room for {room}"),
                &part[..],
                want,
            );
            report.check("refused-stops", !insisted, || {
                format!("{place}, room for {room}: goes on after the sink refused")
            });
        }
    }
    for room in [3, 64] {
        let (mut all, mut from) = (Vec::new(), 0);
        while let Some((part, _)) = report.works("restart", &place, list(kit, dir, from, room)) {
            match part.last() {
                Some(last) if all.len() <= listed.len() => from = last.next,
                _ => break,
            }
            all.extend(part);
        }
        let same = all == listed;
        report.check("every-entry-once", same, || {
            format!(
                "{place}: {} entries in parts of {room}, {} at once",
                all.len(),
                listed.len()
            )
        });
    }
    for odd in [1, 2, 12345, i64::MAX as u64, u64::MAX] {
        // It is no error, and what comes must be entries of this directory.
        let place = format!("{place} from {odd}");
        if let Some((part, _)) = report.works("odd-positions", &place, list(kit, dir, odd, 4096)) {
            let known =
                |entry: &Listed| listed.len() > 4096 || listed.iter().any(|l| l.name == entry.name);
            report.check("odd-positions", part.iter().all(known), || {
                format!("{place}: strangers")
            });
        }
    }
}

/// A directory opened with state shows the same.
fn opened(kit: &Kit<'_>, report: &mut Report, path: &[u8], dir: Node, listed: &[Listed]) {
    let place = format!("{} opened", shown(path));
    let open = kit.driver.open_directory(&caller(), dir, OpenFlags::READ);
    match report.works("open-directory", &place, open) {
        Some(OpenedDirectory::Driven(directory)) => {
            let mut names = Vec::new();
            let read = directory.read(0, &mut |entry| {
                names.push(entry.name.to_vec());
                true
            });
            report.works("open-directory", &place, read);
            let sorted = |mut names: Vec<_>| {
                names.sort();
                names
            };
            let want = listed.iter().map(|entry| entry.name.clone()).collect();
            report.equal("open-directory", &place, sorted(names), sorted(want));
        }
        Some(OpenedDirectory::Backed(fd)) => {
            let fd = crate::testing::of_std(fd);
            let metadata = std::fs::File::from(fd).metadata();
            report.check("open-directory", metadata.is_ok_and(|m| m.is_dir()), || {
                format!("{place}: the descriptor is no directory")
            });
        }
        Some(OpenedDirectory::Stateless) | None => {}
    }
}

fn with_attributes(kit: &Kit<'_>, report: &mut Report, path: &[u8], dir: Node, listed: &[Listed]) {
    let place = format!("{} with attributes", shown(path));
    let mut plus = Vec::new();
    let read = kit
        .driver
        .read_directory_plus(&caller(), dir, 0, &mut |entry, found| {
            plus.push((Listed::of(&entry), found));
            true
        });
    report.works("listing-plus", &place, read);
    let names: Vec<_> = plus.iter().map(|(entry, _)| entry.clone()).collect();
    report.equal("listing-plus", &place, &names[..], listed);
    for (entry, found) in plus {
        let Some(found) = found else { continue };
        let child = [path, &b"/"[..path.len().min(1)], &entry.name].concat();
        let known = kit
            .entries
            .get(child.as_slice())
            .map(|known| known.attributes.node);
        report.equal(
            "listing-plus",
            &shown(&child),
            Some(found.attributes.node),
            known,
        );
        kit.driver.forget(found.attributes.node, 1);
    }
}

//! Every wrong use has its errno, and a read-only driver changes nothing.

use super::{Kit, caller};
use crate::{
    Access, Attributes, Errno, FileKind, Node, OpenFlags, RenameFlags, SetAttributes,
    testing::Report,
};
use std::{format, vec::Vec};

pub(super) fn check(kit: &Kit<'_>, report: &mut Report) {
    wrong_kinds(kit, report);
    stale_nodes(kit, report);
    if kit.driver.capabilities().read_only {
        read_only(kit, report);
    }
}

fn wrong_kinds(kit: &Kit<'_>, report: &mut Report) {
    let driver = kit.driver;
    for found in kit.found() {
        let (place, node) = (&found.place, found.node);
        let open = driver.open(&caller(), node, OpenFlags::READ);
        match found.expected.kind {
            FileKind::Regular => {}
            FileKind::Directory => report.refused("open-wrong-kind", place, open, Errno::EISDIR),
            FileKind::Symlink => report.refused("open-wrong-kind", place, open, Errno::ELOOP),
            _ => report.refused("open-wrong-kind", place, open, Errno::ENXIO),
        }
        if found.expected.kind != FileKind::Directory {
            let lookup = driver.lookup(&caller(), node, b"x");
            report.refused(
                "not-a-directory",
                &format!("lookup in {place}"),
                lookup,
                Errno::ENOTDIR,
            );
            let parent = driver.parent(node);
            report.refused(
                "not-a-directory",
                &format!("parent of {place}"),
                parent,
                Errno::ENOTDIR,
            );
            let list = driver.read_directory(&caller(), node, 0, &mut |_| true);
            report.refused(
                "not-a-directory",
                &format!("listing of {place}"),
                list,
                Errno::ENOTDIR,
            );
        }
    }
    let root = (driver.root(), "/");
    report.refused(
        "open-wrong-kind",
        root.1,
        driver.open(&caller(), root.0, OpenFlags::READ),
        Errno::EISDIR,
    );
}

/// Numbers that were never given are `ESTALE`, whatever is asked.
fn stale_nodes(kit: &Kit<'_>, report: &mut Report) {
    let driver = kit.driver;
    let used = |node| kit.found().any(|found| found.node == node) || driver.root() == node;
    for node in [0, u64::MAX, u64::MAX / 3, 1 << 63, i64::MAX as u64].map(Node) {
        if used(node) {
            continue;
        }
        let mut stale = |what: &str, result: crate::Result<()>| {
            let place = format!("{what} of node {}, which was never given", node.0);
            report.refused("stale-nodes", &place, result, Errno::ESTALE);
        };
        stale("attributes", driver.attributes(&caller(), node).map(drop));
        stale("lookup", driver.lookup(&caller(), node, b"x").map(drop));
        stale("parent", driver.parent(node).map(drop));
        stale("path_of", driver.path_of(node).map(drop));
        stale("readlink", driver.readlink(&caller(), node).map(drop));
        stale(
            "open",
            driver.open(&caller(), node, OpenFlags::READ).map(drop),
        );
        stale(
            "listing",
            driver.read_directory(&caller(), node, 0, &mut |_| true),
        );
        driver.forget(node, 1);
    }
}

/// Every change is refused with `EROFS`, before anything else is found wrong with it, and does
/// nothing.
fn read_only(kit: &Kit<'_>, report: &mut Report) {
    let (driver, who, root) = (kit.driver, &caller(), kit.driver.root());
    let state = || -> Vec<Option<Attributes>> {
        let attributes = |node| {
            driver
                .attributes(&caller(), node)
                .ok()
                .map(|attributes| Attributes {
                    atime: Default::default(),
                    ..attributes
                })
        };
        let found = kit.found().map(|found| found.node);
        found.chain([root]).map(attributes).collect()
    };
    let before = state();
    let mut refused = |what: &str, result: crate::Result<()>| {
        report.refused("read-only", what, result, Errno::EROFS);
    };
    let new = b"culvert-new";
    let write = OpenFlags::READ_WRITE;
    refused(
        "create",
        driver.create(who, root, new, write, 0o644).map(drop),
    );
    refused("mkdir", driver.mkdir(who, root, new, 0o755).map(drop));
    refused("mknod", driver.mknod(who, root, new, 0o010644, 0).map(drop));
    refused("symlink", driver.symlink(who, root, new, b"x").map(drop));
    refused("tmpfile", driver.tmpfile(who, root, write, 0o600).map(drop));
    let mode = SetAttributes {
        permissions: Some(0o700),
        ..SetAttributes::default()
    };
    refused(
        "chmod of the root",
        driver.set_attributes(who, root, &mode).map(drop),
    );
    refused("setxattr", driver.set_xattr(who, root, b"user.x", b"", 0));
    refused("removexattr", driver.remove_xattr(who, root, b"user.x"));
    refused(
        "access(W_OK) of the root",
        driver.access(who, root, Access::WRITE),
    );
    for found in kit.found() {
        let Some((dir, name)) = kit.holder(found.path) else {
            continue;
        };
        let place = |what| format!("{what} of {}", found.place);
        match found.expected.kind {
            FileKind::Directory => refused(&place("rmdir"), driver.rmdir(who, dir, name)),
            _ => {
                refused(&place("unlink"), driver.unlink(who, dir, name));
                refused(
                    &place("link"),
                    driver.link(who, found.node, root, new).map(drop),
                );
            }
        }
        let moved = driver.rename(who, (dir, name), (root, new), RenameFlags::default());
        refused(&place("rename"), moved);
        if found.expected.kind == FileKind::Regular {
            for flags in [
                OpenFlags::WRITE,
                write,
                OpenFlags::READ.with(OpenFlags::TRUNCATE),
            ] {
                let opened = driver.open(who, found.node, flags).map(drop);
                refused(
                    &format!("open of {} with {:#o}", found.place, flags.0),
                    opened,
                );
            }
            let empty = SetAttributes {
                size: Some(0),
                ..SetAttributes::default()
            };
            refused(
                &place("truncate"),
                driver.set_attributes(who, found.node, &empty).map(drop),
            );
        }
    }
    let after = state();
    report.check("read-only", before == after, || {
        "attributes have changed after refused changes".into()
    });
    let appeared = driver.lookup(who, root, new);
    report.refused(
        "read-only",
        "a name whose creation was refused",
        appeared,
        Errno::ENOENT,
    );
}

//! Links, special files, and files without a name.

use super::{Handle, Kit, caller, lacking};
use crate::{Errno, FileKind, OpenFlags, testing::Report};

pub(super) fn links(kit: &Kit<'_>, report: &mut Report) {
    let who = &caller();
    let Some(node) = report.works("links", "a file", kit.make(kit.root, b"a", b"x")) else {
        return;
    };
    let Some(dir) = report.works("links", "a directory", kit.mkdir(kit.root, b"d")) else {
        return;
    };
    let linked = kit.driver.link(who, node, dir, b"b");
    if kit.driver.capabilities().hard_links || !lacking(&linked) {
        if let Some(entry) = report.works("links", "link", linked) {
            let is = (entry.attributes.node, entry.attributes.links);
            report.equal("links", "node and links", is, (node, 2));
        }
        let again = kit.driver.link(who, node, dir, b"b");
        report.refused("links", "onto a name", again, Errno::EEXIST);
        let directory = kit.driver.link(who, dir, kit.root, b"x");
        report.refused("links", "of a directory", directory, Errno::EPERM);
        let below = kit.driver.link(who, node, node, b"x");
        report.refused("not-a-directory", "link in a file", below, Errno::ENOTDIR);
        report.works(
            "links",
            "unlink of the first",
            kit.driver.unlink(who, kit.root, b"a"),
        );
        let left = kit.attributes(node).map(|attributes| attributes.links);
        report.equal("links", "links left", left.ok(), Some(1));
        // A back end that knows a file by the name it was found by may have none to tell (the
        // kernel's own magic links are such: d_path).
        let path = kit.driver.path_of(node);
        let told = match &path {
            Ok(path) => path == b"d/b",
            Err(error) => error.errno() == Errno::ENOENT,
        };
        report.check("links", told, || std::format!("path left: {path:?}"));
        report.equal(
            "links",
            "content",
            kit.content(node).ok(),
            Some(b"x".to_vec()),
        );
    }
    let made = kit
        .driver
        .symlink(who, kit.root, b"l", b"../any\xff//where/");
    if !lacking(&made)
        && let Some(entry) = report.works("symlinks", "symlink", made)
    {
        let is = entry.attributes;
        report.equal(
            "symlinks",
            "kind and size",
            (is.kind, is.size),
            (FileKind::Symlink, 15),
        );
        let target = kit.driver.readlink(&caller(), is.node).ok();
        report.equal(
            "symlinks",
            "target",
            target,
            Some(b"../any\xff//where/".to_vec()),
        );
        let again = kit.driver.symlink(who, kit.root, b"l", b"x");
        report.refused("symlinks", "onto a name", again, Errno::EEXIST);
        let create = kit
            .driver
            .create(who, kit.root, b"l", OpenFlags::READ, 0)
            .map(drop);
        report.refused("symlinks", "O_CREAT of a link", create, Errno::ELOOP);
        report.works("symlinks", "unlink", kit.driver.unlink(who, kit.root, b"l"));
    }
}

pub(super) fn special(kit: &Kit<'_>, report: &mut Report) {
    let kinds = [
        FileKind::Fifo,
        FileKind::Socket,
        FileKind::Regular,
        FileKind::CharacterDevice,
    ];
    for kind in kinds {
        let name = std::format!("{kind:?}").into_bytes();
        let null = 0x103; // makedev(1, 3)
        let made = kit
            .driver
            .mknod(&caller(), kit.root, &name, kind as u32 | 0o620, null);
        if lacking(&made) {
            continue;
        }
        let place = std::format!("mknod of {kind:?}");
        if let Some(entry) = report.works("mknod", &place, made) {
            let is = entry.attributes;
            let rdev = if kind == FileKind::CharacterDevice {
                null
            } else {
                0
            };
            report.equal(
                "mknod",
                &place,
                (is.kind, is.permissions, is.rdev),
                (kind, 0o620, rdev),
            );
            let again = kit
                .driver
                .mknod(&caller(), kit.root, &name, kind as u32, null);
            report.refused("mknod", &place, again, Errno::EEXIST);
        }
    }
}

pub(super) fn unnamed(kit: &Kit<'_>, report: &mut Report) {
    let who = &caller();
    let make = |flags| kit.driver.tmpfile(who, kit.root, flags, 0o600);
    let made = make(OpenFlags::READ_WRITE);
    if lacking(&made) {
        return;
    }
    if let Some((entry, opened)) = report.works("tmpfile", "tmpfile", made) {
        let (node, file) = (entry.attributes.node, Handle::from(opened));
        report.equal("tmpfile", "links", entry.attributes.links, 0);
        report.works("tmpfile", "write", file.write(0, b"t"));
        report.equal(
            "tmpfile",
            "listing",
            kit.listing(kit.root).ok(),
            Some(Default::default()),
        );
        let linked = kit.driver.link(who, node, kit.root, b"t");
        report.works("tmpfile", "a name for it", linked);
        report.equal(
            "tmpfile",
            "named",
            kit.find(kit.root, b"t").ok(),
            Some(node),
        );
        report.equal(
            "tmpfile",
            "content",
            kit.content(node).ok(),
            Some(b"t".to_vec()),
        );
    }
    let never = make(OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE));
    if let Some((entry, _open)) = report.works("tmpfile", "with O_EXCL", never) {
        let linked = kit
            .driver
            .link(who, entry.attributes.node, kit.root, b"never");
        report.refused(
            "tmpfile",
            "a name for one with O_EXCL",
            linked,
            Errno::ENOENT,
        );
    }
}

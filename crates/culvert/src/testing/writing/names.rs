//! Names come and go.

use super::{Handle, Kit, caller};
use crate::{Errno, FileKind, OpenFlags, Result, testing::Report};
use std::{format, string::String, vec::Vec};

pub(super) fn create(kit: &Kit<'_>, report: &mut Report) {
    let made = kit.create(kit.root, b"new", 0o640);
    let Some((node, file)) = report.works("create", "create", made) else {
        return;
    };
    if let Some(is) = report.works("create", "attributes", kit.attributes(node)) {
        let is = (is.node, is.kind, is.permissions, is.size, is.links);
        report.equal(
            "create",
            "new file",
            is,
            (node, FileKind::Regular, 0o640, 0, 1),
        );
    }
    report.equal(
        "create",
        "lookup",
        kit.find(kit.root, b"new").ok(),
        Some(node),
    );
    report.equal(
        "create",
        "listing",
        kit.listing(kit.root).ok(),
        Some(Vec::from([b"new".to_vec()])),
    );
    report.equal(
        "create",
        "path",
        kit.driver.path_of(node).ok(),
        Some(b"new".to_vec()),
    );
    report.equal(
        "create",
        "its first read",
        file.all().ok(),
        Some(Vec::new()),
    );
    // The mode of a new file does not bind the open that makes it (open(2)).
    if let Some((_, file)) = report.works("create", "mode 0", kit.create(kit.root, b"closed", 0)) {
        report.equal(
            "create",
            "write to a file of mode 0",
            file.write(0, b"x").ok(),
            Some(1),
        );
    }
    for name in [&[0xff; 255][..], b"\n", b"...", b"a\\b", "ä".as_bytes()] {
        let place = format!("name {}", name.escape_ascii());
        if let Some(node) = report.works("create", &place, kit.make(kit.root, name, b"")) {
            report.equal("create", &place, kit.find(kit.root, name).ok(), Some(node));
        }
    }
    let below = kit.create(node, b"x", 0o600).map(drop);
    report.refused("not-a-directory", "create in a file", below, Errno::ENOTDIR);
    let below = kit.mkdir(node, b"x");
    report.refused("not-a-directory", "mkdir in a file", below, Errno::ENOTDIR);
}

pub(super) fn create_existing(kit: &Kit<'_>, report: &mut Report) {
    let node = kit.make(kit.root, b"a", b"content");
    let Some(node) = report.works("create-existing", "a file", node) else {
        return;
    };
    let create = |flags: OpenFlags| -> Result<_> {
        let (entry, opened) = kit.driver.create(&caller(), kit.root, b"a", flags, 0o777)?;
        Ok((entry.attributes, Handle::from(opened)))
    };
    let exclusive = create(OpenFlags::READ.with(OpenFlags::EXCLUSIVE)).map(drop);
    report.refused("create-exclusive", "O_EXCL", exclusive, Errno::EEXIST);
    if let Some((is, file)) = report.works("create-existing", "O_CREAT", create(OpenFlags::READ)) {
        report.equal(
            "create-existing",
            "node and mode",
            (is.node, is.permissions),
            (node, 0o644),
        );
        report.equal(
            "create-existing",
            "content",
            file.all().ok(),
            Some(b"content".to_vec()),
        );
    }
    let truncate = create(OpenFlags::WRITE.with(OpenFlags::TRUNCATE));
    if let Some((is, _)) = report.works("create-existing", "O_TRUNC", truncate) {
        report.equal(
            "create-truncates",
            "size with O_TRUNC",
            (is.node, is.size),
            (node, 0),
        );
    }
    report.works("create-existing", "a directory", kit.mkdir(kit.root, b"d"));
    let flags = OpenFlags::READ;
    let over = kit
        .driver
        .create(&caller(), kit.root, b"d", flags, 0)
        .map(drop);
    report.refused(
        "create-existing",
        "O_CREAT of a directory",
        over,
        Errno::EISDIR,
    );
    let again = kit.mkdir(kit.root, b"a");
    report.refused("mkdir", "mkdir of a file", again, Errno::EEXIST);
    report.refused(
        "mkdir",
        "mkdir of a directory",
        kit.mkdir(kit.root, b"d"),
        Errno::EEXIST,
    );
}

pub(super) fn unlink(kit: &Kit<'_>, report: &mut Report) {
    let who = &caller();
    let Some((node, file)) = report.works("unlink", "a file", kit.create(kit.root, b"a", 0o644))
    else {
        return;
    };
    report.works("unlink", "write", file.write(0, b"before"));
    report.works("unlink", "unlink", kit.driver.unlink(who, kit.root, b"a"));
    report.refused("unlink", "lookup", kit.find(kit.root, b"a"), Errno::ENOENT);
    report.equal(
        "unlink",
        "listing",
        kit.listing(kit.root).ok(),
        Some(Vec::new()),
    );
    report.refused(
        "path-of",
        "path of an unlinked file",
        kit.driver.path_of(node),
        Errno::ENOENT,
    );
    report.equal("unlinked-stays-open", "links", file.links().ok(), Some(0));
    report.equal(
        "unlinked-stays-open",
        "write",
        file.write(6, b", after").ok(),
        Some(7),
    );
    report.equal(
        "unlinked-stays-open",
        "read",
        file.all().ok(),
        Some(b"before, after".to_vec()),
    );
    if let Some(again) = report.works("unlink", "the name again", kit.make(kit.root, b"a", b"new"))
    {
        report.check("node-identity", again != node, || {
            String::from("a node in use is given again")
        });
        report.equal(
            "unlinked-stays-open",
            "read beside a new file",
            file.read(0, 6).ok(),
            Some(b"before".to_vec()),
        );
        report.equal(
            "unlink",
            "the new file",
            kit.content(again).ok(),
            Some(b"new".to_vec()),
        );
    }
    let absent = kit.driver.unlink(who, kit.root, b"b");
    report.refused("unlink", "unlink of nothing", absent, Errno::ENOENT);
    report.works("unlink", "a directory", kit.mkdir(kit.root, b"d"));
    let directory = kit.driver.unlink(who, kit.root, b"d");
    report.refused("unlink", "unlink of a directory", directory, Errno::EISDIR);
    let file = kit.driver.rmdir(who, kit.root, b"a");
    report.refused("rmdir", "rmdir of a file", file, Errno::ENOTDIR);
}

pub(super) fn directories(kit: &Kit<'_>, report: &mut Report) {
    let who = &caller();
    let made = kit.driver.mkdir(who, kit.root, b"d", 0o1710);
    let Some(made) = report.works("mkdir", "mkdir", made) else {
        return;
    };
    let dir = made.attributes.node;
    let is = (made.attributes.kind, made.attributes.permissions);
    report.equal(
        "mkdir",
        "kind and permissions",
        is,
        (FileKind::Directory, 0o1710),
    );
    report.equal(
        "parent",
        "parent",
        kit.driver.parent(dir).ok(),
        Some(kit.root),
    );
    report.equal("mkdir", "listing", kit.listing(dir).ok(), Some(Vec::new()));
    report.works("mkdir", "a file below", kit.make(dir, b"f", b"x"));
    report.refused(
        "rmdir",
        "not empty",
        kit.driver.rmdir(who, kit.root, b"d"),
        Errno::ENOTEMPTY,
    );
    report.works("unlink", "unlink below", kit.driver.unlink(who, dir, b"f"));
    report.works("rmdir", "rmdir", kit.driver.rmdir(who, kit.root, b"d"));
    report.refused("rmdir", "lookup", kit.find(kit.root, b"d"), Errno::ENOENT);
    report.refused(
        "rmdir",
        "rmdir of nothing",
        kit.driver.rmdir(who, kit.root, b"d"),
        Errno::ENOENT,
    );
    // The reference of mkdir keeps the removed directory valid.
    let below = kit.create(dir, b"f", 0o600).map(drop);
    report.refused("removed-directory", "create in it", below, Errno::ENOENT);
    let below = kit.mkdir(dir, b"f");
    report.refused("removed-directory", "mkdir in it", below, Errno::ENOENT);
    let listing = kit.listing(dir);
    let none = listing
        .as_ref()
        .map_or_else(|e| e.errno() == Errno::ENOENT, Vec::is_empty);
    report.check("removed-directory", none, || {
        format!("listing: {listing:?}")
    });
}

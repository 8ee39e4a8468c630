//! Times, owners, set-user-ID and set-group-ID, extended attributes.

use super::{Handle, Kit, caller};
use crate::{
    Attributes, Errno, Node, OpenFlags, Result, SetAttributes, Timespec,
    testing::{Report, user},
};
use std::{string::String, vec, vec::Vec};

const OLD: Timespec = Timespec {
    seconds: 1_000_000,
    nanoseconds: 1,
};

fn set(kit: &Kit<'_>, node: Node, changes: SetAttributes) -> Result<Attributes> {
    kit.driver.set_attributes(&caller(), node, &changes)
}

fn age(kit: &Kit<'_>, node: Node) {
    let old = SetAttributes {
        atime: Some(OLD),
        mtime: Some(OLD),
        ..SetAttributes::default()
    };
    let _ = set(kit, node, old);
}

pub(super) fn check(kit: &Kit<'_>, report: &mut Report) {
    let Some((node, file)) = report.works("times", "a file", kit.create(kit.root, b"a", 0o644))
    else {
        return;
    };
    let explicit = SetAttributes {
        atime: Some(OLD),
        mtime: Some(Timespec { seconds: -1, ..OLD }),
        ..SetAttributes::default()
    };
    if let Some(is) = report.works("times", "utimensat", set(kit, node, explicit)) {
        let want = (OLD, Timespec { seconds: -1, ..OLD });
        report.equal("times", "utimensat", (is.atime, is.mtime), want);
    }
    times(kit, report, node, &file);
    let mode = SetAttributes {
        permissions: Some(0o4751),
        ..SetAttributes::default()
    };
    if let Some(is) = report.works("chmod", "chmod", set(kit, node, mode)) {
        report.equal("chmod", "permissions", is.permissions, 0o4751);
    }
    let owner = SetAttributes {
        uid: Some(12),
        gid: Some(34),
        ..SetAttributes::default()
    };
    // A back end without owners, or one that is not run by the superuser, is left alone from here
    // on.
    if let Ok(is) = set(kit, node, owner) {
        report.equal("chown", "owner", (is.uid, is.gid), (12, 34));
        report.equal(
            "privileges-dropped",
            "permissions after chown",
            is.permissions,
            0o751,
        );
        // Where the back end judges by the process's own credentials, no other caller can be
        // played.
        if !kit.driver.capabilities().checks_permissions {
            privileges(kit, report, node);
            inheritance(kit, report);
        }
    }
}

/// Which times a change moves: all are set to long ago before it.
fn times(kit: &Kit<'_>, report: &mut Report, node: Node, file: &Handle) {
    let who = &caller();
    let mtime = |node| kit.attributes(node).map(|attributes| attributes.mtime).ok();
    let mut moves =
        |place: &str, watched: Node, expected: bool, change: &mut dyn FnMut() -> Result<()>| {
            age(kit, watched);
            report.works("times", place, change());
            let moved = mtime(watched) != Some(OLD);
            let what = if expected { "stays" } else { "moves" };
            report.check("times", moved == expected, || {
                std::format!("{place}: mtime {what}")
            });
        };
    moves("write", node, true, &mut || file.write(0, b"x").map(drop));
    moves("empty write", node, false, &mut || {
        file.write(0, b"").map(drop)
    });
    moves("ftruncate", node, true, &mut || file.resize(5));
    moves("read", node, false, &mut || file.read(0, 1).map(drop));
    let mode = SetAttributes {
        permissions: Some(0o600),
        ..SetAttributes::default()
    };
    moves("chmod", node, false, &mut || set(kit, node, mode).map(drop));
    let Ok(dir) = kit.mkdir(kit.root, b"dir") else {
        return;
    };
    moves("create", dir, true, &mut || {
        kit.make(dir, b"f", b"").map(drop)
    });
    moves("rename", dir, true, &mut || {
        kit.driver
            .rename(who, (dir, b"f"), (dir, b"g"), Default::default())
    });
    moves("lookup", dir, false, &mut || kit.find(dir, b"g").map(drop));
    moves("unlink", dir, true, &mut || {
        kit.driver.unlink(who, dir, b"g")
    });
    moves("mkdir", dir, true, &mut || kit.mkdir(dir, b"d").map(drop));
    moves("rmdir", dir, true, &mut || kit.driver.rmdir(who, dir, b"d"));
}

/// A write or a change of size by another than the superuser drops set-user-ID and set-group-ID.
fn privileges(kit: &Kit<'_>, report: &mut Report, node: Node) {
    let privileged = |mode| {
        let changes = SetAttributes {
            permissions: Some(mode),
            ..SetAttributes::default()
        };
        let _ = set(kit, node, changes);
    };
    let mut after = |place: &str, mode, want, change: &dyn Fn() -> Result<()>| {
        privileged(mode);
        report.works("privileges-dropped", place, change());
        let is = kit
            .attributes(node)
            .map(|attributes| attributes.permissions);
        report.check(
            "privileges-dropped",
            is.as_ref().ok() == Some(&want),
            || {
                std::format!(
                    "permissions after {place}: {:o}, not {want:o}",
                    is.unwrap_or(0)
                )
            },
        );
    };
    let owner = user(12, 34);
    let write = |who| -> Result<()> {
        let file = Handle::from(kit.driver.open(&who, node, OpenFlags::WRITE)?);
        file.driven()
            .map_or(Ok(()), |file| file.write_at(0, &mut &b"x"[..]).map(drop))
    };
    // Descriptors of the back end obey the kernel, under this process's own user.
    if kit
        .open(node, OpenFlags::WRITE)
        .is_ok_and(|file| file.driven().is_some())
    {
        after("a user's write", 0o6777, 0o777, &|| write(owner));
        after(
            "a user's write without group execution",
            0o6767,
            0o2767,
            &|| write(owner),
        );
        after("the superuser's write", 0o6777, 0o6777, &|| write(caller()));
    }
    let resize = SetAttributes {
        size: Some(3),
        ..SetAttributes::default()
    };
    after("a user's truncate", 0o6777, 0o777, &|| {
        kit.driver.set_attributes(&owner, node, &resize).map(drop)
    });
}

/// What is made belongs to its maker; in a set-group-ID directory to the directory's group.
fn inheritance(kit: &Kit<'_>, report: &mut Report) {
    let who = &user(12, 34);
    let Ok(dir) = kit.mkdir(kit.root, b"shared") else {
        return;
    };
    let changes = SetAttributes {
        permissions: Some(0o2777),
        uid: Some(1),
        gid: Some(99),
        ..SetAttributes::default()
    };
    report.works("ownership", "chown", set(kit, dir, changes));
    let permissions = SetAttributes {
        permissions: Some(0o2777),
        ..SetAttributes::default()
    };
    report.works("ownership", "chmod", set(kit, dir, permissions));
    let Ok(plain) = kit.mkdir(kit.root, b"plain") else {
        return;
    };
    // A front end lets nobody make what the directory does not let him.
    let permissions = SetAttributes {
        permissions: Some(0o777),
        ..SetAttributes::default()
    };
    report.works("ownership", "chmod", set(kit, plain, permissions));
    for (place, dir, gid, setgid) in [("plain", plain, 34, 0), ("set-group-ID", dir, 99, 0o2000)] {
        let made = kit
            .driver
            .mkdir(who, dir, b"d", 0o755)
            .map(|entry| entry.attributes);
        if let Some(is) = report.works("ownership", place, made) {
            let is = (is.uid, is.gid, is.permissions);
            report.equal(
                "ownership",
                &std::format!("mkdir in a {place} directory"),
                is,
                (12, gid, setgid | 0o755),
            );
        }
        let made = kit.driver.create(who, dir, b"f", OpenFlags::WRITE, 0o755);
        if let Some((entry, _)) = report.works("ownership", place, made) {
            let is = (entry.attributes.uid, entry.attributes.gid);
            report.equal(
                "ownership",
                &std::format!("create in a {place} directory"),
                is,
                (12, gid),
            );
        }
    }
}

pub(super) fn xattrs(kit: &Kit<'_>, report: &mut Report) {
    const CREATE: u32 = 1;
    const REPLACE: u32 = 2;
    let Some(node) = report.works("xattrs", "a file", kit.make(kit.root, b"a", b"")) else {
        return;
    };
    let (driver, who) = (kit.driver, &caller());
    if !driver.capabilities().xattrs {
        let set = driver.set_xattr(who, node, b"user.a", b"", 0);
        return report.refused("xattrs", "without the capability", set, Errno::EOPNOTSUPP);
    }
    let get = |name: &[u8]| driver.get_xattr(&caller(), node, name).ok();
    let replace = driver.set_xattr(who, node, b"user.a", b"0", REPLACE);
    report.refused("xattrs", "XATTR_REPLACE of none", replace, Errno::ENODATA);
    report.works(
        "xattrs",
        "XATTR_CREATE",
        driver.set_xattr(who, node, b"user.a", b"1\0", CREATE),
    );
    report.equal("xattrs", "value", get(b"user.a"), Some(b"1\0".to_vec()));
    let create = driver.set_xattr(who, node, b"user.a", b"2", CREATE);
    report.refused("xattrs", "XATTR_CREATE of one", create, Errno::EEXIST);
    report.works(
        "xattrs",
        "XATTR_REPLACE",
        driver.set_xattr(who, node, b"user.a", b"", REPLACE),
    );
    report.equal("xattrs", "an empty value", get(b"user.a"), Some(Vec::new()));
    let large = vec![7; 60_000];
    match driver.set_xattr(who, node, b"user.b", &large, 0) {
        Ok(()) => report.check("xattrs", get(b"user.b") == Some(large), || {
            String::from("a large one: other value")
        }),
        // Disk file systems have room for a block or so (setxattr(2)).
        Err(error) if matches!(error.errno(), Errno::ENOSPC | Errno::E2BIG) => {
            let small = driver.set_xattr(who, node, b"user.b", b"x", 0);
            report.works("xattrs", "a small one after a large one", small);
        }
        Err(error) => report.fail("xattrs", std::format!("a large one: fails with {error:?}")),
    }
    report.works(
        "xattrs",
        "remove",
        driver.remove_xattr(who, node, b"user.a"),
    );
    let again = driver.remove_xattr(who, node, b"user.a");
    report.refused("xattrs", "remove of none", again, Errno::ENODATA);
    let list = driver.list_xattr(&caller(), node).ok();
    report.equal("xattrs", "names", list, Some(b"user.b\0".to_vec()));
}

//! renameat2(2).

use super::{Kit, caller};
use crate::{Errno, Node, OpenFlags, RenameFlags, Result, testing::Report};
use std::vec::Vec;

fn mv(kit: &Kit<'_>, from: (Node, &[u8]), to: (Node, &[u8]), flags: u32) -> Result<()> {
    kit.driver.rename(&caller(), from, to, RenameFlags(flags))
}

pub(super) fn rename(kit: &Kit<'_>, report: &mut Report) {
    let root = kit.root;
    let made = kit.mkdir(root, b"d").and_then(|d| {
        let e = kit.mkdir(d, b"e")?;
        Ok((
            d,
            e,
            kit.mkdir(root, b"other")?,
            kit.make(e, b"f", b"deep")?,
        ))
    });
    let Some((d, e, other, f)) = report.works("rename", "a tree", made) else {
        return;
    };
    let open = kit.open(f, OpenFlags::READ_WRITE);
    report.works(
        "rename",
        "a file in place",
        mv(kit, (e, b"f"), (e, b"g"), 0),
    );
    report.equal(
        "rename-keeps-nodes",
        "node",
        kit.find(e, b"g").ok(),
        Some(f),
    );
    report.refused("rename", "the old name", kit.find(e, b"f"), Errno::ENOENT);
    report.works(
        "rename",
        "a directory elsewhere",
        mv(kit, (root, b"d"), (other, b"D"), 0),
    );
    report.equal(
        "rename-keeps-nodes",
        "the directory",
        kit.find(other, b"D").ok(),
        Some(d),
    );
    report.equal(
        "rename-keeps-nodes",
        "what is below",
        kit.find(e, b"g").ok(),
        Some(f),
    );
    report.equal(
        "parent",
        "parent after a move",
        kit.driver.parent(d).ok(),
        Some(other),
    );
    report.equal(
        "path-of",
        "path below a moved directory",
        kit.driver.path_of(f).ok(),
        Some(b"other/D/e/g".to_vec()),
    );
    if let Some(open) = report.works("rename", "open", open) {
        report.works("rename-keeps-open", "write", open.write(0, b"DEEP"));
        report.equal(
            "rename-keeps-open",
            "content",
            kit.content(f).ok(),
            Some(b"DEEP".to_vec()),
        );
    }
    for (place, from, to, errno) in [
        (
            "nothing",
            (root, &b"x"[..]),
            (root, &b"y"[..]),
            Errno::ENOENT,
        ),
        (
            "into itself",
            (root, b"other"),
            (other, b"x"),
            Errno::EINVAL,
        ),
        ("below itself", (root, b"other"), (e, b"x"), Errno::EINVAL),
        (
            "onto what holds it",
            (e, b"g"),
            (root, b"other"),
            Errno::ENOTEMPTY,
        ),
        ("into a file", (root, b"other"), (f, b"x"), Errno::ENOTDIR),
        ("from a file", (f, b"x"), (root, b"x"), Errno::ENOTDIR),
    ] {
        report.refused("rename", place, mv(kit, from, to, 0), errno);
    }
    report.equal(
        "rename",
        "after refusals",
        kit.listing(root).ok(),
        Some(Vec::from([b"other".to_vec()])),
    );
}

pub(super) fn replace(kit: &Kit<'_>, report: &mut Report) {
    let root = kit.root;
    let made = kit.make(root, b"a", b"A").and_then(|a| {
        let b = kit.make(root, b"b", b"B")?;
        let (empty, full) = (kit.mkdir(root, b"empty")?, kit.mkdir(root, b"full")?);
        kit.make(full, b"x", b"")?;
        Ok((a, b, empty, full))
    });
    let Some((a, b, _, full)) = report.works("rename-replaces", "a tree", made) else {
        return;
    };
    let open = kit.open(b, OpenFlags::READ);
    report.works(
        "rename-replaces",
        "a file",
        mv(kit, (root, b"a"), (root, b"b"), 0),
    );
    report.equal(
        "rename-replaces",
        "node",
        kit.find(root, b"b").ok(),
        Some(a),
    );
    report.refused(
        "rename-replaces",
        "the old name",
        kit.find(root, b"a"),
        Errno::ENOENT,
    );
    if let Some(open) = report.works("rename-replaces", "open", open) {
        let old = (open.all().ok(), open.links().ok());
        report.equal(
            "unlinked-stays-open",
            "a replaced file",
            old,
            (Some(b"B".to_vec()), Some(0)),
        );
    }
    for (place, from, to, errno) in [
        (
            "a file onto a directory",
            &b"b"[..],
            &b"empty"[..],
            Errno::EISDIR,
        ),
        ("a directory onto a file", b"empty", b"b", Errno::ENOTDIR),
        ("onto a full directory", b"empty", b"full", Errno::ENOTEMPTY),
    ] {
        report.refused(
            "rename-replaces",
            place,
            mv(kit, (root, from), (root, to), 0),
            errno,
        );
    }
    report.works(
        "rename-replaces",
        "onto an empty directory",
        mv(kit, (root, b"full"), (root, b"empty"), 0),
    );
    report.equal(
        "rename-replaces",
        "the directory",
        kit.find(root, b"empty").ok(),
        Some(full),
    );
    report.works(
        "rename-replaces",
        "onto itself",
        mv(kit, (root, b"b"), (root, b"b"), 0),
    );
    report.equal(
        "rename-replaces",
        "onto itself",
        kit.find(root, b"b").ok(),
        Some(a),
    );
    if kit.driver.link(&caller(), a, root, b"c").is_ok() {
        report.works(
            "rename-one-file",
            "one hard link onto another",
            mv(kit, (root, b"b"), (root, b"c"), 0),
        );
        let both = (kit.find(root, b"b").ok(), kit.find(root, b"c").ok());
        report.equal(
            "rename-one-file",
            "both names stay",
            both,
            (Some(a), Some(a)),
        );
    }
}

pub(super) fn flags(kit: &Kit<'_>, report: &mut Report) {
    let root = kit.root;
    let made = kit.make(root, b"a", b"A").and_then(|a| {
        let d = kit.mkdir(root, b"d")?;
        Ok((a, d, kit.make(d, b"b", b"B")?))
    });
    let Some((a, d, b)) = report.works("rename-flags", "a tree", made) else {
        return;
    };
    let none = mv(kit, (root, b"a"), (d, b"b"), RenameFlags::NO_REPLACE);
    if none.as_ref().is_err_and(|e| e.errno() != Errno::EINVAL) {
        report.refused(
            "rename-flags",
            "RENAME_NOREPLACE onto a name",
            none,
            Errno::EEXIST,
        );
        let free = mv(kit, (root, b"a"), (root, b"free"), RenameFlags::NO_REPLACE);
        report.works("rename-flags", "RENAME_NOREPLACE onto a free name", free);
        report.works(
            "rename-flags",
            "and back",
            mv(kit, (root, b"free"), (root, b"a"), 0),
        );
    } else {
        report.refused("rename-flags", "RENAME_NOREPLACE", none, Errno::EINVAL);
    }
    let nodes = || (kit.find(root, b"a").ok(), kit.find(d, b"b").ok());
    report.equal(
        "rename-flags",
        "after a refusal",
        nodes(),
        (Some(a), Some(b)),
    );
    let swapped = mv(kit, (root, b"a"), (d, b"b"), RenameFlags::EXCHANGE);
    match swapped {
        Err(error) if error.errno() == Errno::EINVAL => {}
        swapped => {
            report.works("rename-flags", "RENAME_EXCHANGE", swapped);
            report.equal("rename-flags", "exchanged", nodes(), (Some(b), Some(a)));
            let absent = mv(kit, (root, b"a"), (root, b"nothing"), RenameFlags::EXCHANGE);
            report.refused(
                "rename-flags",
                "RENAME_EXCHANGE with nothing",
                absent,
                Errno::ENOENT,
            );
            let above = mv(kit, (d, b"b"), (root, b"d"), RenameFlags::EXCHANGE);
            report.refused(
                "rename-flags",
                "RENAME_EXCHANGE with what holds it",
                above,
                Errno::EINVAL,
            );
        }
    }
    let unknown = mv(kit, (root, b"a"), (root, b"z"), 1 << 20);
    report.refused("rename-flags", "an unknown flag", unknown, Errno::EINVAL);
}

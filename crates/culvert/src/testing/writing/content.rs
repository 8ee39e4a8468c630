//! What is written is read.

use super::{Kit, lacking};
use crate::{
    Errno, OpenFlags, SetAttributes, Whence, testing::Report, testing::sinks::FaultingSource,
};
use std::{string::String, vec, vec::Vec};

pub(super) fn write(kit: &Kit<'_>, report: &mut Report) {
    let Some((node, file)) = report.works("write", "a file", kit.create(kit.root, b"a", 0o644))
    else {
        return;
    };
    let mut want = Vec::new();
    // At the start, over a page's edge, inside, past the end (a gap of zeroes), and nothing at all.
    for (offset, length) in [
        (0, 10),
        (4000, 5000),
        (3, 4),
        (20_000, 1),
        (70_000, 66_000),
        (50_000, 0),
    ] {
        let bytes: Vec<u8> = (0..length).map(|i| (i + offset) as u8 | 1).collect();
        let wrote = file.write(offset as u64, &bytes);
        report.equal("write", "how many", wrote.ok(), Some(length));
        if length > 0 {
            want.resize(want.len().max(offset + length), 0);
            want[offset..offset + length].copy_from_slice(&bytes);
        }
        let got = file.all();
        report.check("write", got.is_ok_and(|got| got == want), || {
            std::format!("{length} bytes at {offset}: other content")
        });
    }
    let size = want.len() as u64;
    report.equal(
        "write",
        "size by node",
        kit.attributes(node).map(|a| a.size).ok(),
        Some(size),
    );
    report.equal("write", "size by file", file.size().ok(), Some(size));
    let other = kit.open(node, OpenFlags::READ_WRITE);
    if let Some(other) = report.works("seen-by-all", "a second open", other) {
        report.works("seen-by-all", "write by the second", other.write(1, b"!"));
        report.equal(
            "seen-by-all",
            "read by the first",
            file.read(1, 1).ok(),
            Some(b"!".to_vec()),
        );
    }
    if let Some(driven) = file.driven() {
        let faulting = |good| FaultingSource { good, left: 5000 };
        report.refused(
            "faults",
            "write from bad memory",
            driven.write_at(0, &mut faulting(0)),
            Errno::EFAULT,
        );
        let part = driven.write_at(0, &mut faulting(4500)).ok();
        report.check(
            "faults",
            part.is_some_and(|count| (1..=4500).contains(&count)),
            || std::format!("write from memory that is bad after 4500 bytes: {part:?}"),
        );
        report.works("sync", "sync", driven.sync(false));
        report.works("sync", "flush", driven.flush());
    }
}

pub(super) fn append(kit: &Kit<'_>, report: &mut Report) {
    let Some((node, file)) = report.works("append", "a file", kit.create(kit.root, b"a", 0o644))
    else {
        return;
    };
    let Some(file) = file.driven() else { return };
    report.equal(
        "append",
        "to an empty file",
        file.append(&mut &b"one"[..]).ok(),
        Some((0, 3)),
    );
    report.equal(
        "append",
        "again",
        file.append(&mut &b"two"[..]).ok(),
        Some((3, 3)),
    );
    report.equal(
        "append",
        "content",
        kit.content(node).ok(),
        Some(b"onetwo".to_vec()),
    );
}

pub(super) fn truncate(kit: &Kit<'_>, report: &mut Report) {
    let Some((node, file)) = report.works("truncate", "a file", kit.create(kit.root, b"a", 0o644))
    else {
        return;
    };
    report.works("truncate", "write", file.write(0, &[b'x'; 10_000]));
    let by_node = |size| {
        let changes = SetAttributes {
            size: Some(size),
            ..SetAttributes::default()
        };
        kit.driver.set_attributes(&super::caller(), node, &changes)
    };
    for (size, by) in [
        (5000, true),
        (9000, false),
        (100, false),
        (200, true),
        (0, true),
        (4096, false),
    ] {
        let kept = file.read(0, size as usize).unwrap_or_default().len();
        let before = file.read(0, kept).unwrap_or_default();
        let place = std::format!("to {size} by {}", if by { "node" } else { "file" });
        match by {
            true => {
                let is = report.works("truncate", &place, by_node(size));
                report.equal("truncate", &place, is.map(|is| is.size), Some(size));
            }
            false => {
                report.works("truncate", &place, file.resize(size));
            }
        }
        let mut want = before;
        want.resize(size as usize, 0);
        report.check("truncate", file.all().is_ok_and(|got| got == want), || {
            std::format!("{place}: other content (what was cut off must not come back)")
        });
    }
    report.works("truncate", "write", file.write(0, b"x"));
    let flags = OpenFlags::WRITE.with(OpenFlags::TRUNCATE);
    report.works(
        "open-truncates",
        "open with O_TRUNC",
        kit.open(node, flags).map(drop),
    );
    report.equal("open-truncates", "size", file.size().ok(), Some(0));
    if let Some(dir) = report.works("truncate", "a directory", kit.mkdir(kit.root, b"d")) {
        let changes = SetAttributes {
            size: Some(0),
            ..SetAttributes::default()
        };
        let cut = kit.driver.set_attributes(&super::caller(), dir, &changes);
        report.refused("truncate", "a directory", cut, Errno::EISDIR);
    }
}

pub(super) fn holes_and_copies(kit: &Kit<'_>, report: &mut Report) {
    let Some((_, handle)) = report.works("write", "a file", kit.create(kit.root, b"a", 0o644))
    else {
        return;
    };
    let Some(file) = handle.driven() else { return };
    const MIB: u64 = 1 << 20;
    report.works("write", "after a gap", handle.write(MIB, b"end"));
    let size = MIB + 3;
    for (offset, whence) in [
        (size, Whence::Data),
        (size, Whence::Hole),
        (1 << 40, Whence::Data),
    ] {
        report.refused(
            "seek",
            "at the end",
            file.seek(offset, whence),
            Errno::ENXIO,
        );
    }
    let data = file.seek(0, Whence::Data).unwrap_or(u64::MAX);
    report.check("seek", data <= MIB, || {
        std::format!("data from {data} on, written at {MIB}")
    });
    let hole = file.seek(MIB, Whence::Hole).ok();
    report.equal("seek", "hole after the data", hole, Some(size));

    let extended = file.allocate(0, 0, 2 * MIB);
    if !lacking(&extended) {
        report.works("allocate", "beyond the end", extended);
        report.equal("allocate", "size", handle.size().ok(), Some(2 * MIB));
        report.equal(
            "allocate",
            "content",
            handle.read(MIB, 5).ok(),
            Some(b"end\0\0".to_vec()),
        );
    }
    const KEEP_SIZE_PUNCH_HOLE: u32 = 3;
    let punched = file.allocate(KEEP_SIZE_PUNCH_HOLE, MIB + 1, 1);
    if !lacking(&punched) {
        report.works("allocate", "punch", punched);
        report.equal(
            "allocate",
            "a punched hole",
            handle.read(MIB, 3).ok(),
            Some(b"e\0d".to_vec()),
        );
    }
    copies(kit, report);
}

fn copies(kit: &Kit<'_>, report: &mut Report) {
    let files = kit.create(kit.root, b"from", 0o644).and_then(|(_, from)| {
        from.write(0, b"0123456789")?;
        Ok((from, kit.create(kit.root, b"to", 0o644)?.1))
    });
    let Some((from, to)) = report.works("copy-range", "two files", files) else {
        return;
    };
    let (Some(from), Some(to)) = (from.driven(), to.driven()) else {
        return;
    };
    let copied = from.copy_range(2, to, 3, 100);
    if lacking(&copied) || copied.as_ref().is_err_and(|e| e.errno() == Errno::EXDEV) {
        return;
    }
    report.equal("copy-range", "up to the end", copied.ok(), Some(8));
    let mut bytes = vec![0; 20];
    let read = to.read_at(0, &mut bytes.as_mut_slice()).unwrap_or(0);
    report.equal(
        "copy-range",
        "content",
        String::from_utf8_lossy(&bytes[..read]).as_ref(),
        "\0\0\x0023456789",
    );
    let overlap = from.copy_range(0, from, 1, 5);
    report.refused(
        "copy-range",
        "overlapping in one file",
        overlap,
        Errno::EINVAL,
    );
}

//! What files, links and extended attributes hold.

use super::{Found, Kit, caller};
use crate::{
    Errno, File, FileKind, OpenFlags, Opened, Sink, Whence,
    testing::{Report, sinks},
};
use std::{format, os::unix::fs::FileExt, vec, vec::Vec};

pub(super) fn check(kit: &Kit<'_>, report: &mut Report) {
    for found in kit.of_kind(FileKind::Regular) {
        let opened = kit.driver.open(&caller(), found.node, OpenFlags::READ);
        let want = found.expected.content.bytes();
        match report.works("open", &found.place, opened) {
            Some(Opened::Driven(file)) => {
                driven(report, &found, &*file, &want);
                if let Some(attributes) =
                    report.works("open", &found.place, file.attributes(&caller()))
                {
                    let said = (attributes.node, attributes.size, attributes.kind);
                    let is = (found.node, want.len() as u64, FileKind::Regular);
                    report.equal(
                        "attributes-agree",
                        &format!("{} open", found.place),
                        said,
                        is,
                    );
                }
            }
            Some(Opened::Backed(fd)) => {
                let fd = crate::testing::of_std(fd);
                let mut bytes = vec![0; want.len() + 1];
                let count = std::fs::File::from(fd).read_at(&mut bytes, 0).unwrap_or(0);
                report.check("content", bytes[..count] == want, || {
                    format!("{}: the descriptor holds something else", found.place)
                });
            }
            None => {}
        }
    }
}

/// Offsets at which reads begin: all edges, and a few places in between.
fn offsets(size: usize) -> Vec<usize> {
    let mut offsets = vec![0, 1, 4095, 4096, 65535, size / 3, size / 2];
    offsets.extend([size.saturating_sub(1), size.saturating_sub(4096)]);
    offsets.retain(|&offset| offset < size);
    offsets.sort_unstable();
    offsets.dedup();
    offsets
}

fn driven(report: &mut Report, found: &Found<'_>, file: &dyn File, want: &[u8]) {
    let place = &found.place;
    let size = want.len();
    let mut read = |rule, offset: usize, count: usize| {
        let got = sinks::read(file, offset as u64, count);
        let place = format!("{place}: {count} bytes from {offset}");
        if let Some(got) = report.works(rule, &place, got) {
            let part = &want[offset.min(size)..offset.saturating_add(count).min(size)];
            report.equal(rule, &format!("{place}: how many"), got.len(), part.len());
            report.check(rule, got == part, || format!("{place}: other bytes"));
        }
    };
    read("content", 0, size + 1);
    read("content", 0, size);
    for offset in offsets(size) {
        for count in [0, 1, 7, 4096, 10_000] {
            read("read-anywhere", offset, count);
        }
    }
    // Backwards in odd steps: nothing may depend on reading in order.
    for offset in (0..size).rev().step_by(1 + size / 13) {
        read("read-anywhere", offset, 1 + size / 11);
    }
    for offset in [
        size,
        size + 1,
        size + 4096,
        1 << 40,
        i64::MAX as usize - 4096,
    ] {
        for count in [0, 1, 4096] {
            read("read-past-end", offset, count);
        }
    }
    faults(report, found, file, want);
    seeks(report, found, file, want);
}

/// Bad memory ends a read after what fitted, or with `EFAULT` when nothing did.
fn faults(report: &mut Report, found: &Found<'_>, file: &dyn File, want: &[u8]) {
    if want.is_empty() {
        return;
    }
    for room in [0, 1, want.len() / 2, want.len() - 1] {
        let mut sink = sinks::Memory::faulting(want.len(), room);
        let place = format!("{}: memory that is bad after {room} bytes", found.place);
        let read = file.read_at(0, &mut sink);
        match room {
            0 => report.refused("faults", &place, read, Errno::EFAULT),
            _ => {
                if let Some(count) = report.works("faults", &place, read) {
                    report.equal("faults", &place, count, room);
                    report.check("faults", sink.bytes == want[..room], || {
                        format!("{place}: other bytes")
                    });
                }
            }
        }
    }
    let mut sink = sinks::Memory::new(want.len());
    let half = want.len() / 2;
    sink.wanted = half;
    let first = file.read_at(0, &mut sink);
    sink.wanted = want.len();
    sink.room = want.len();
    let second = file.read_at(half as u64, &mut sink);
    let counts = (first.ok(), second.ok());
    report.equal(
        "content",
        &found.place,
        counts,
        (Some(half), Some(want.len() - half)),
    );
    report.check(
        "content",
        sink.bytes == want && sink.remaining() == 0,
        || format!("{}: two halves are not the whole", found.place),
    );
}

/// Holes read as zeroes, data and holes take turns, and both end at the end.
fn seeks(report: &mut Report, found: &Found<'_>, file: &dyn File, want: &[u8]) {
    let (place, size) = (&found.place, want.len() as u64);
    for past in [size, size + 1, i64::MAX as u64] {
        for whence in [Whence::Data, Whence::Hole] {
            let place = format!("{place}: {whence:?} from {past}");
            report.refused("seek", &place, file.seek(past, whence), Errno::ENXIO);
        }
    }
    let mut at = 0;
    for _ in 0..1000 {
        if at >= size {
            return;
        }
        let place = format!("{place}: from {at}");
        let data = match file.seek(at, Whence::Data) {
            Ok(data) => data,
            Err(error) if error.errno() == Errno::ENXIO => size,
            Err(error) => return report.fail("seek", format!("{place}: data: {error:?}")),
        };
        let good = data >= at && data <= size;
        report.check("seek", good, || {
            format!("{place}: data at {data} of {size}")
        });
        if !good {
            return;
        }
        let zeroes = want[at as usize..data as usize].iter().all(|&b| b == 0);
        report.check("seek", zeroes, || {
            format!("{place}: a hole up to {data} that holds data")
        });
        if data == size {
            return;
        }
        let Some(hole) = report.works("seek", &place, file.seek(data, Whence::Hole)) else {
            return;
        };
        let good = hole > data && hole <= size;
        report.check("seek", good, || {
            format!("{place}: a hole at {hole}, data at {data}, end {size}")
        });
        if !good {
            return;
        }
        at = hole;
    }
}

pub(super) fn check_links(kit: &Kit<'_>, report: &mut Report) {
    for found in kit.found() {
        let target = kit.driver.readlink(&caller(), found.node);
        match found.expected.kind {
            FileKind::Symlink => {
                if let Some(target) = report.works("readlink", &found.place, target) {
                    let want = found.expected.content.bytes();
                    report.equal("readlink", &found.place, target, want);
                }
            }
            _ => report.refused("readlink", &found.place, target, Errno::EINVAL),
        }
    }
    let capabilities = kit.driver.capabilities();
    if let Some(statfs) = report.works("statfs", "statfs", kit.driver.statfs()) {
        let sane = statfs.block_size.is_power_of_two()
            && statfs.blocks_free <= statfs.blocks
            && statfs.blocks_available <= statfs.blocks_free
            && statfs.files_free <= statfs.files
            && statfs.read_only == capabilities.read_only;
        report.check("statfs", sane, || format!("{statfs:?}"));
        let longest = kit.expected.paths.keys();
        let longest = longest
            .flat_map(|path| path.split(|&b| b == b'/'))
            .map(<[u8]>::len)
            .max();
        report.check(
            "statfs",
            longest.unwrap_or(0) <= statfs.name_max as usize,
            || format!("a name of {longest:?} bytes, name_max {}", statfs.name_max),
        );
    }
}

pub(super) fn check_xattrs(kit: &Kit<'_>, report: &mut Report) {
    let none = match kit.driver.capabilities().xattrs {
        true => Errno::ENODATA,
        false => Errno::EOPNOTSUPP,
    };
    for found in kit.found() {
        let place = &found.place;
        let absent = kit
            .driver
            .get_xattr(&caller(), found.node, b"user.culvert-has-no-such");
        report.refused("xattrs", place, absent, none);
        let list = kit.driver.list_xattr(&caller(), found.node);
        let Some(list) = report.works("xattrs", place, list) else {
            continue;
        };
        report.check("xattrs", list.is_empty() || list.ends_with(b"\0"), || {
            format!("{place}: the list of names does not end with NUL")
        });
        let mut names: Vec<_> = list
            .split_terminator(|b| *b == 0)
            .map(<[u8]>::to_vec)
            .collect();
        names.sort();
        for name in &names {
            let value = kit.driver.get_xattr(&caller(), found.node, name);
            report.works(
                "xattrs",
                &format!("{place}: {}", name.escape_ascii()),
                value,
            );
        }
        let Some(expected) = &found.expected.xattrs else {
            continue;
        };
        let want: Vec<_> = expected.keys().cloned().collect();
        report.equal("xattrs", &format!("{place}: names"), names, want);
        for (name, want) in expected {
            let place = format!("{place}: {}", name.escape_ascii());
            let got = kit.driver.get_xattr(&caller(), found.node, name);
            if let Some(got) = report.works("xattrs", &place, got) {
                report.equal("xattrs", &place, &got, want);
            }
        }
    }
}

/// Split at NUL, the last piece being a terminator's.
trait SplitTerminator {
    fn split_terminator(&self, end: fn(&u8) -> bool) -> impl Iterator<Item = &[u8]>;
}

impl SplitTerminator for Vec<u8> {
    fn split_terminator(&self, end: fn(&u8) -> bool) -> impl Iterator<Item = &[u8]> {
        let body = self.strip_suffix(b"\0").unwrap_or(self);
        body.split(end).filter(|name| !name.is_empty())
    }
}

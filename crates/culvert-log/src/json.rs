//! A JSON object for each operation, a line each.
//!
//! | member | of | |
//! |---|---|---|
//! | `time` | all | when it began, RFC 3339 in UTC |
//! | `op` | all | its name in the driver API, or `release` |
//! | `path` | all | below the mount; `?NUMBER` where nobody has found the node yet |
//! | `pid`, `program`, `uid`, `gid` | all | on whose behalf |
//! | `us` | all | how long it took, microseconds |
//! | `error` | failures | the errno's number |
//! | `to` | rename, link, symlink | the other path, or the link's text |
//! | `offset`, `wanted`, `bytes` | reads, writes | of the operation |
//! | `flags`, `mode`, `rdev` | open, create, mkdir, mknod | as in the system call |
//! | `mode`, `uid_to`, `gid_to`, `size`, `times` | set_attributes | what was changed |
//! | `name` | extended attributes | which one |
//! A line `{"time":...,"dropped":N,"lost":M}` says that N operations did not fit in the pipe before
//! it, and M lines could not be written.

use crate::{action::Action, escape::for_json, time};
use culvert::Operation;
use culvert_drivers::log::record::{Record, What};
use std::fmt::Write;

/// Adds the line that says what is missing before it, at the time `now`.
pub fn gap(now: u64, dropped: u64, lost: u64, out: &mut Vec<u8>) {
    let moment = time::utc(now);
    let line = format!("{{\"time\":\"{moment}\",\"dropped\":{dropped},\"lost\":{lost}}}\n");
    out.extend_from_slice(line.as_bytes());
}

/// Adds the line of `record`, which is about `action`, to `out`.
pub fn add(action: &Action, record: &Record<'_>, program: &[u8], out: &mut Vec<u8>) {
    let operation = match record.what {
        What::Operation(operation) => Some(operation),
        _ => None,
    };
    let (pid, uid, gid) = record.caller;
    let mut line = format!(
        "{{\"time\":\"{}\",\"op\":\"{}\",\"path\":{},\"pid\":{pid},\"program\":{},\"uid\":{uid},\"gid\":{gid},\"us\":{}.{:03}",
        time::utc(record.began),
        operation.map_or("release", Operation::name),
        for_json(&action.path),
        for_json(program),
        record.took / 1000,
        record.took % 1000
    );
    let mut member = |name: &str, value: &dyn std::fmt::Display| {
        let _ = write!(line, ",\"{name}\":{value}");
    };
    if record.errno != 0 {
        member("error", &record.errno);
    }
    let [first, second, third, fourth] = record.numbers;
    match operation {
        Some(Operation::Rename | Operation::Link | Operation::Symlink) => {
            member("to", &for_json(&action.other));
        }
        Some(Operation::ReadAt | Operation::WriteAt | Operation::Append | Operation::CopyRange) => {
            member("offset", &first);
            member("wanted", &second);
            member("bytes", &third);
        }
        Some(Operation::Open) => member("flags", &first),
        Some(Operation::Create | Operation::Tmpfile) => {
            member("flags", &first);
            member("mode", &second);
        }
        Some(Operation::Mkdir | Operation::Access) => member("mode", &first),
        Some(Operation::Mknod) => {
            member("mode", &first);
            member("rdev", &second);
        }
        Some(Operation::Allocate) => {
            member("offset", &first);
            member("wanted", &second);
        }
        Some(Operation::SetAttributes) => {
            if first & 1 != 0 {
                member("mode", &second);
            }
            if first & 2 != 0 {
                member("uid_to", &(third as u32));
            }
            if first & 4 != 0 {
                member("gid_to", &(third >> 32));
            }
            if first & 8 != 0 {
                member("size", &fourth);
            }
            if first & 16 != 0 {
                member("times", &true);
            }
        }
        Some(Operation::GetXattr | Operation::SetXattr | Operation::RemoveXattr) => {
            member("name", &for_json(record.other));
        }
        _ => {}
    }
    line.push_str("}\n");
    out.extend_from_slice(line.as_bytes());
}

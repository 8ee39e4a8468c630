//! What a record says in LoggedFS's words: by these a configuration chooses.

use crate::paths::Paths;
use culvert::Operation;
use culvert_drivers::log::record::{Record, What};

/// The kinds of changes of attributes, in the order of their bits in a record.
pub const CHANGES: [&str; 4] = ["chmod", "chown", "truncate", "utimens"];

/// One action. An operation may be several: fchownat(2) and chmod by one call of FUSE, a read that
/// is announced and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Its word: `open`, `getattr`.
    pub word: &'static str,
    /// What it is about, below the mount.
    pub path: Vec<u8>,
    /// Another path below the mount, or a link's text.
    pub other: Vec<u8>,
}

/// The word of `operation`.
const fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Lookup | Operation::Attributes => "getattr",
        Operation::Open | Operation::Restore | Operation::Tmpfile => "open",
        Operation::OpenDirectory => "opendir",
        Operation::ReadDirectory => "readdir",
        Operation::SyncDirectory => "fsyncdir",
        Operation::GetXattr => "getxattr",
        Operation::ListXattr => "listxattr",
        Operation::SetXattr => "setxattr",
        Operation::RemoveXattr => "removexattr",
        Operation::Create => "create",
        Operation::ReadAt => "read",
        Operation::WriteAt | Operation::Append => "write",
        Operation::Sync => "fsync",
        Operation::Allocate => "fallocate",
        Operation::Seek => "lseek",
        Operation::CopyRange => "copy_file_range",
        Operation::GetLock | Operation::SetLock => "lock",
        other => other.name(),
    }
}

/// The actions of `record`; none of one that is no operation.
pub fn actions(record: &Record<'_>, paths: &Paths) -> Vec<Action> {
    let one = |word, path, other| vec![Action { word, path, other }];
    let operation = match record.what {
        What::Operation(operation) => operation,
        What::Release => return one("release", paths.of(record.node), Vec::new()),
        What::Process | What::Forked | What::End => return Vec::new(),
    };
    let path = match record.name {
        b"" => paths.of(record.node),
        name => paths.below(record.node, name),
    };
    match operation {
        Operation::SetAttributes => {
            let bits = record.numbers[0];
            let is = [bits & 1 != 0, bits & 6 != 0, bits & 8 != 0, bits & 16 != 0];
            let changed = CHANGES.into_iter().zip(is).filter(|(_, is)| *is);
            changed
                .map(|(word, _)| Action {
                    word,
                    path: path.clone(),
                    other: Vec::new(),
                })
                .collect()
        }
        Operation::Rename => {
            let to = paths.below(record.node2, record.other);
            one("rename", path, to)
        }
        Operation::Link => one("link", path, paths.of(record.node2)),
        _ => one(word(operation), path, record.other.to_vec()),
    }
}

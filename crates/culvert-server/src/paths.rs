//! What the table of paths of an author's extension is told of each request.

use crate::attributes::Numbers;
use culvert::Change;
use culvert_extend::{Moving, Paths};
use culvert_wire::{
    Answer, DirectoryEntriesPlus, Operation,
    structures::{EntryOut, InHeader},
};

/// `RENAME_EXCHANGE`.
const EXCHANGE: u32 = 2;
/// `RENAME_WHITEOUT`.
const WHITEOUT: u32 = 4;

/// A request that is being answered.
pub(crate) struct Named<'n> {
    paths: &'n Paths,
    operation: &'n Operation<'n>,
    node: u64,
    moving: Option<Moving>,
    before: u64,
}

impl<'n> Named<'n> {
    /// Before `operation` is carried out.
    pub fn new(paths: &'n Paths, header: &InHeader, operation: &'n Operation<'n>) -> Self {
        let node = header.nodeid;
        let before = paths.before();
        let moving = match operation {
            Operation::Unlink { name } | Operation::Rmdir { name } => {
                Some(paths.begin([Some((node, name.bytes())), None], [false; 2], 0))
            }
            Operation::Link { link, .. } => {
                Some(paths.begin([None; 2], [false; 2], link.oldnodeid))
            }
            Operation::Rename {
                rename,
                name,
                new_name,
            } => {
                let to = (rename.newdir, new_name.bytes());
                let names = [Some((node, name.bytes())), Some(to)];
                Some(paths.begin(names, [true, false], 0))
            }
            Operation::Rename2 {
                rename,
                name,
                new_name,
            } => {
                let to = (rename.newdir, new_name.bytes());
                let names = [Some((node, name.bytes())), Some(to)];
                let exchanges = rename.flags & EXCHANGE != 0;
                Some(paths.begin(names, [true, exchanges], 0))
            }
            _ => None,
        };
        Self {
            paths,
            operation,
            node,
            moving,
            before,
        }
    }

    /// After it, before `answer` is given.
    pub fn end(self, answer: &Answer<'_>) {
        let (paths, node) = (self.paths, self.node);
        if let Some(moving) = self.moving {
            let to = match (self.operation, answer) {
                (
                    Operation::Rename {
                        rename, new_name, ..
                    },
                    Answer::Done {},
                ) => Some((rename.newdir, new_name.bytes())),
                (
                    Operation::Rename2 {
                        rename, new_name, ..
                    },
                    Answer::Done {},
                ) if rename.flags & (EXCHANGE | WHITEOUT) == 0 => {
                    Some((rename.newdir, new_name.bytes()))
                }
                _ => None,
            };
            paths.end(moving, to);
        }
        match (self.operation, answer) {
            (
                Operation::Lookup { name }
                | Operation::Symlink { name, .. }
                | Operation::Mknod { name, .. }
                | Operation::Mkdir { name, .. }
                | Operation::Create { name, .. }
                | Operation::Link { name, .. },
                Answer::Entry { entry } | Answer::Created { entry, .. },
            ) => paths.entry(node, name.bytes(), entry, self.before),
            // A name that leads nowhere.
            (Operation::Lookup { name }, Answer::Error(_)) => {
                paths.entry(node, name.bytes(), &EntryOut::default(), self.before);
            }
            (Operation::Readdirplus { .. }, Answer::Data { data }) => {
                for (entry, listed) in DirectoryEntriesPlus(data.0).map_while(Result::ok) {
                    if entry.nodeid != 0 && !matches!(listed.name, b"." | b"..") {
                        paths.entry(node, listed.name, &entry, self.before);
                    }
                }
            }
            // It has no name.
            (_, Answer::Created { entry, .. }) => paths.unknown(entry.nodeid),
            _ => {}
        }
    }
}

/// `change` was made by others.
pub(crate) fn changed(paths: &Paths, change: &Change, numbers: Numbers) {
    match change {
        Change::Everything => paths.changed(None),
        Change::Name { dir, name }
        | Change::Doubtful { dir, name }
        | Change::Removed { dir, name, .. } => paths.changed(Some((numbers.number(*dir), name))),
        Change::Attributes(_) | Change::Content(_) | Change::Unneeded(_) => {}
    }
}

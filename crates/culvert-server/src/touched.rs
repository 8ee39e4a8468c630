//! What the extension is told of each request: its program must not answer what a request changes,
//! and may answer what the kernel may believe.

use crate::attributes::Numbers;
use culvert::{Change, Errno};
use culvert_extend::{Before, Extension, Touched};
use culvert_wire::{
    Answer, DirectoryEntriesPlus, Operation,
    structures::{EntryOut, InHeader},
};

/// A request that is being answered.
pub(crate) struct Watched<'w> {
    extension: &'w Extension,
    operation: &'w Operation<'w>,
    node: u64,
    uid: u32,
    touched: Touched<'w>,
    /// Which nodes the names led to.
    led: [Option<u64>; 2],
    before: Option<Before>,
}

impl<'w> Watched<'w> {
    /// Before `operation` is carried out.
    pub fn new(
        extension: &'w Extension,
        header: &InHeader,
        operation: &'w Operation<'w>,
    ) -> Option<Self> {
        let node = header.nodeid;
        let touched = touched(node, operation);
        let asks = matches!(
            operation,
            Operation::Lookup { .. }
                | Operation::Getattr { .. }
                | Operation::Getxattr { .. }
                | Operation::Listxattr { .. }
        );
        if touched.is_none() && !asks {
            return None;
        }
        let touched = touched.unwrap_or_default();
        let tells = asks
            || touched.names[0].is_some()
            || matches!(
                operation,
                Operation::Readdirplus { .. } | Operation::Setattr { .. }
            );
        let before = tells.then(|| extension.before());
        let led = extension.begin(&touched);
        Some(Self {
            extension,
            operation,
            node,
            uid: header.uid,
            touched,
            led,
            before,
        })
    }

    /// After it, before `answer` is given. `valid`: how long what a node has may be believed,
    /// nanoseconds.
    /// Says whose attributes are not kept any more and may be asked for next; 0: nobody's.
    pub fn end(self, answer: &Answer<'_>, valid: impl Fn() -> u64) -> [u64; 2] {
        let extension = self.extension;
        match (self.operation, answer, &self.before) {
            (Operation::Lookup { name }, Answer::Entry { entry }, Some(before)) => {
                extension.entry(self.node, name.bytes(), entry, before);
            }
            // What was known of the name before holds no more, whatever the reason.
            (Operation::Lookup { name }, Answer::Error(error), Some(before))
                if *error == Errno::ENOENT.raw() =>
            {
                extension.entry(self.node, name.bytes(), &EntryOut::default(), before);
            }
            (Operation::Lookup { name }, _, _) => extension.unknown(self.node, name.bytes()),
            (Operation::Getattr { .. }, Answer::Attributes { attributes }, Some(before)) => {
                extension.attributes(self.node, attributes, before);
            }
            (Operation::Getxattr { name, .. }, Answer::Error(error), Some(before))
                if *error == Errno::ENODATA.raw() =>
            {
                extension.xattr(self.node, name.bytes(), None, valid(), before);
            }
            (Operation::Getxattr { name, .. }, Answer::Data { data }, Some(before)) => {
                extension.xattr(self.node, name.bytes(), Some(data.0), valid(), before);
            }
            // Others are not shown all of it.
            (Operation::Listxattr { .. }, Answer::Data { data }, Some(before)) if self.uid == 0 => {
                extension.xattr(self.node, b"", Some(data.0), valid(), before);
            }
            (_, Answer::Created { entry, .. }, _) => extension.open(entry.nodeid),
            (Operation::Open { .. }, Answer::Opened { .. }, _) => {}
            (Operation::Open { .. }, _, _) => extension.close(self.node),
            _ => {}
        }
        extension.end(&self.touched);
        if matches!(answer, Answer::Error(error) if *error == Errno::ESTALE.raw()) {
            let touched = self.touched.nodes.into_iter();
            for node in touched.filter(|node| ![0, self.node].contains(node)) {
                extension.stale(node);
            }
            extension.stale(self.node);
        }
        let next = self.outdated(answer);
        self.tell_names(answer);
        next
    }

    /// A file that was closed, directories in which names came or went.
    fn outdated(&self, answer: &Answer<'_>) -> [u64; 2] {
        let [first, second, _] = self.touched.nodes;
        match self.operation {
            _ if matches!(answer, Answer::Error(_)) => [0; 2],
            Operation::Release { .. } => [first, 0],
            Operation::Rename { .. } | Operation::Rename2 { .. } => [first, second],
            _ if self.touched.names[0].is_some() => [first, 0],
            _ => [0; 2],
        }
    }

    /// What an operation that has changed something tells of names: a listing, whatever makes
    /// something, a rename.
    fn tell_names(self, answer: &Answer<'_>) {
        let extension = self.extension;
        let Some(before) = self.before else { return };
        let before = before.and(&self.touched);
        let keeps_all = |flags: u32| flags & !RENAME_NOREPLACE == 0;
        match (self.operation, answer) {
            (Operation::Readdirplus { .. }, Answer::Data { data }) => {
                for (entry, listed) in DirectoryEntriesPlus(data.0).map_while(Result::ok) {
                    // Node 0: nothing is said of the name.
                    if entry.nodeid != 0 && !matches!(listed.name, b"." | b"..") {
                        extension.entry(self.node, listed.name, &entry, &before);
                    }
                }
            }
            (
                Operation::Symlink { name, .. }
                | Operation::Mknod { name, .. }
                | Operation::Mkdir { name, .. }
                | Operation::Create { name, .. }
                | Operation::Link { name, .. },
                Answer::Entry { entry } | Answer::Created { entry, .. },
            ) => extension.entry(self.node, name.bytes(), entry, &before),
            (Operation::Setattr { .. }, Answer::Attributes { attributes }) => {
                extension.attributes(self.node, attributes, &before);
            }
            (Operation::Rename { .. }, Answer::Done {}) => {
                extension.renamed(&self.touched, self.led, &before);
            }
            (Operation::Rename2 { rename, .. }, Answer::Done {}) if keeps_all(rename.flags) => {
                extension.renamed(&self.touched, self.led, &before);
            }
            _ => {}
        }
    }
}

/// `RENAME_NOREPLACE`; the others leave something at the old name.
const RENAME_NOREPLACE: u32 = 1;

/// What `operation`, on `node`, changes; none: nothing.
fn touched<'n>(node: u64, operation: &'n Operation<'n>) -> Option<Touched<'n>> {
    let nodes = |nodes| Touched {
        nodes,
        ..Touched::default()
    };
    let one = nodes([node, 0, 0]);
    let xattrs = Touched {
        xattrs: true,
        ..one
    };
    Some(match operation {
        // The mode is a part of the ACL.
        Operation::Setattr { .. }
        | Operation::Setxattr { .. }
        | Operation::Removexattr { .. }
        | Operation::Ioctl { .. } => xattrs,
        // Reading changes the time of access.
        Operation::Read { .. }
        | Operation::Write { .. }
        | Operation::Readlink {}
        | Operation::Readdir { .. }
        | Operation::Readdirplus { .. }
        | Operation::Fallocate { .. }
        | Operation::Tmpfile { .. } => one,
        Operation::CopyFileRange { copy } | Operation::CopyFileRange64 { copy } => {
            nodes([node, copy.nodeid_out, 0])
        }
        // The kernel reads and writes backing files by itself.
        Operation::Open { .. } => Touched {
            opened: node,
            ..one
        },
        Operation::Release { .. } => Touched {
            closed: node,
            ..one
        },
        Operation::Symlink { name, .. }
        | Operation::Mknod { name, .. }
        | Operation::Mkdir { name, .. }
        | Operation::Create { name, .. } => Touched {
            names: [Some((node, name.bytes())), None],
            ..one
        },
        Operation::Link { link, name } => Touched {
            nodes: [node, link.oldnodeid, 0],
            names: [Some((node, name.bytes())), None],
            ..one
        },
        Operation::Unlink { name } | Operation::Rmdir { name } => Touched {
            names: [Some((node, name.bytes())), None],
            behind: true,
            ..one
        },
        Operation::Rename {
            rename,
            name,
            new_name,
        } => renamed(node, rename.newdir, [name.bytes(), new_name.bytes()]),
        Operation::Rename2 {
            rename,
            name,
            new_name,
        } => renamed(node, rename.newdir, [name.bytes(), new_name.bytes()]),
        _ => return None,
    })
}

fn renamed<'n>(from: u64, to: u64, [name, new_name]: [&'n [u8]; 2]) -> Touched<'n> {
    Touched {
        nodes: [from, to, 0],
        names: [Some((from, name)), Some((to, new_name))],
        behind: true,
        ..Touched::default()
    }
}

/// `change` was made by others.
pub(crate) fn changed(extension: &Extension, change: &Change, numbers: Numbers) {
    let nodes = |node| [numbers.number(node), 0, 0];
    let touched = match change {
        Change::Everything => return extension.everything(),
        Change::Name { dir, name } | Change::Doubtful { dir, name } => Touched {
            nodes: nodes(*dir),
            names: [Some((numbers.number(*dir), name)), None],
            behind: true,
            ..Touched::default()
        },
        Change::Removed { dir, name, node } => {
            extension.stale(numbers.number(*node));
            Touched {
                nodes: [numbers.number(*dir), numbers.number(*node), 0],
                names: [Some((numbers.number(*dir), name)), None],
                ..Touched::default()
            }
        }
        Change::Attributes(node) | Change::Content(node) => Touched {
            nodes: nodes(*node),
            xattrs: true,
            ..Touched::default()
        },
        Change::Unneeded(_) => return,
    };
    extension.changed(&touched);
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::{Name, structures::RenameIn};

    #[test]
    fn a_rename_touches_both_directories_and_what_the_names_lead_to() {
        let rename = Operation::Rename {
            rename: RenameIn { newdir: 8 },
            name: Name::new(b"a").expect("a name"),
            new_name: Name::new(b"b").expect("a name"),
        };
        let touched = touched(7, &rename).expect("a change");
        assert_eq!(touched.nodes, [7, 8, 0]);
        let names: [Option<(u64, &[u8])>; 2] = [Some((7, b"a")), Some((8, b"b"))];
        assert!(touched.names == names && touched.behind);
    }

    #[test]
    fn looking_touches_nothing() {
        let name = Name::new(b"a").expect("a name");
        assert!(touched(7, &Operation::Lookup { name }).is_none());
        assert!(touched(7, &Operation::Statfs {}).is_none());
    }
}

//! The writing half: files are made, changed and removed on a fresh file system.

mod content;
mod handle;
mod links;
mod names;
mod renames;
mod rights;
mod together;

use super::{Report, caller};
use crate::{Attributes, Entry, Errno, FileSystem, Node, OpenFlags, Result};
use handle::Handle;
use std::{boxed::Box, vec::Vec};

/// Checks the writing half of the contract on file systems that `make` gives: a fresh, empty,
/// writable one at each call.
///
/// Operations that a driver may lack (links, special files, unnamed files, extended attributes,
/// holes) are left out where it refuses them with the errno of their default;
/// [`Capabilities`](crate::Capabilities) that claim them make them compulsory.
pub fn writing(make: &dyn Fn() -> Box<dyn FileSystem>) -> Report {
    let mut report = Report::default();
    let parts: [(&str, Part); 17] = [
        ("create", names::create),
        ("create what exists", names::create_existing),
        ("unlink", names::unlink),
        ("directories", names::directories),
        ("write", content::write),
        ("append", content::append),
        ("truncate", content::truncate),
        ("holes and copies", content::holes_and_copies),
        ("rename", renames::rename),
        ("rename over something", renames::replace),
        ("rename flags", renames::flags),
        ("links", links::links),
        ("special files", links::special),
        ("unnamed files", links::unnamed),
        ("times, owners and privileges", rights::check),
        ("extended attributes", rights::xattrs),
        ("all at once", together::check),
    ];
    for (name, part) in parts {
        report.part(name, |report| {
            let driver = make();
            let root = driver.root();
            part(
                &Kit {
                    driver: &*driver,
                    root,
                },
                report,
            );
        });
    }
    report
}

type Part = fn(&Kit<'_>, &mut Report);

struct Kit<'a> {
    driver: &'a dyn FileSystem,
    root: Node,
}

impl Kit<'_> {
    /// A new file, open for reading and writing; one reference on it.
    fn create(&self, dir: Node, name: &[u8], mode: u32) -> Result<(Node, Handle)> {
        let flags = OpenFlags::READ_WRITE.with(OpenFlags::EXCLUSIVE);
        let (entry, opened) = self.driver.create(&caller(), dir, name, flags, mode)?;
        Ok((entry.attributes.node, opened.into()))
    }

    /// A new file with `content`, closed.
    fn make(&self, dir: Node, name: &[u8], content: &[u8]) -> Result<Node> {
        let (node, file) = self.create(dir, name, 0o644)?;
        file.write(0, content)?;
        Ok(node)
    }

    fn mkdir(&self, dir: Node, name: &[u8]) -> Result<Node> {
        let entry = self.driver.mkdir(&caller(), dir, name, 0o755)?;
        Ok(entry.attributes.node)
    }

    fn open(&self, node: Node, flags: OpenFlags) -> Result<Handle> {
        Ok(self.driver.open(&caller(), node, flags)?.into())
    }

    fn content(&self, node: Node) -> Result<Vec<u8>> {
        self.open(node, OpenFlags::READ)?.all()
    }

    /// The node of a name, without keeping a reference.
    fn find(&self, dir: Node, name: &[u8]) -> Result<Node> {
        let Entry { attributes } = self.driver.lookup(&caller(), dir, name)?;
        self.driver.forget(attributes.node, 1);
        Ok(attributes.node)
    }

    fn attributes(&self, node: Node) -> Result<Attributes> {
        self.driver.attributes(&caller(), node)
    }

    fn listing(&self, dir: Node) -> Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        self.driver
            .read_directory(&caller(), dir, 0, &mut |entry| {
                names.push(entry.name.to_vec());
                true
            })?;
        names.sort();
        Ok(names)
    }
}

/// Whether `result` says that the driver does not have the operation at all.
fn lacking<T>(result: &Result<T>) -> bool {
    let errno = result.as_ref().err().map(crate::Error::errno);
    matches!(
        errno,
        Some(Errno::ENOSYS | Errno::EPERM | Errno::EOPNOTSUPP)
    )
}

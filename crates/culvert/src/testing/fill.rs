//! Makes what a [`Tree`] describes.

use super::{Tree, caller};
use crate::{Errno, FileKind, FileSystem, Node, OpenFlags, Opened, Result, SetAttributes, Source};
use std::{collections::HashMap, os::unix::fs::FileExt, vec::Vec};

/// Makes on `driver`, by its own operations, what `tree` describes: the start of a test of a driver
/// that writes, which [`super::reading`] then compares. Holds a reference on every node made.
pub fn fill(driver: &dyn FileSystem, tree: &Tree) -> Result<()> {
    let who = &caller();
    let mut nodes = HashMap::<Vec<u8>, Node>::new();
    let mut files = HashMap::<u64, Node>::new();
    for (path, expected) in &tree.paths {
        let (dir, name) = match path.iter().rposition(|&b| b == b'/') {
            None => (driver.root(), &path[..]),
            Some(at) => (
                *nodes.get(&path[..at]).ok_or(Errno::ENOENT)?,
                &path[at + 1..],
            ),
        };
        let mode = expected.permissions.unwrap_or(0o755);
        let content = expected.content.bytes();
        let entry = match (files.get(&expected.file), expected.kind) {
            (Some(&node), _) => driver.link(who, node, dir, name)?,
            (None, FileKind::Directory) => driver.mkdir(who, dir, name, mode)?,
            (None, FileKind::Symlink) => driver.symlink(who, dir, name, &content)?,
            (None, FileKind::Regular) => {
                let flags = OpenFlags::WRITE.with(OpenFlags::EXCLUSIVE);
                let (entry, opened) = driver.create(who, dir, name, flags, mode)?;
                write(opened, &content)?;
                entry
            }
            (None, kind) => driver.mknod(who, dir, name, kind as u32 | mode, 0)?,
        };
        let node = entry.attributes.node;
        nodes.insert(path.clone(), node);
        files.insert(expected.file, node);
        for (name, value) in expected.xattrs.iter().flatten() {
            driver.set_xattr(who, node, name, value, 0)?;
        }
    }
    // Attributes last, deepest first: what is made in a directory changes its times.
    for (path, expected) in tree.paths.iter().rev() {
        let owner = expected.owner;
        let changes = SetAttributes {
            permissions: expected
                .permissions
                .filter(|_| expected.kind != FileKind::Symlink),
            uid: owner.map(|(uid, _)| uid),
            gid: owner.map(|(_, gid)| gid),
            mtime: expected.mtime,
            ..SetAttributes::default()
        };
        driver.set_attributes(who, nodes[path], &changes)?;
    }
    Ok(())
}

fn write(opened: Opened, content: &[u8]) -> Result<()> {
    match opened {
        Opened::Driven(file) => {
            let mut source = content;
            while source.remaining() > 0 {
                let offset = (content.len() - source.remaining()) as u64;
                if file.write_at(offset, &mut source)? == 0 {
                    return Err(Errno::EIO.into());
                }
            }
            file.flush()
        }
        Opened::Backed(fd) => {
            let fd = crate::testing::of_std(fd);
            let written = std::fs::File::from(fd).write_all_at(content, 0);
            written.map_err(|_| Errno::EIO.into())
        }
    }
}

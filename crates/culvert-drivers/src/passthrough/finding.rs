//! What names, paths and descriptors are: nodes of the tree.

use super::attributes::attributes;
use super::filesystem::PassthroughFs;
use super::kernel::{self, Name};
use super::nodes::Place;
use super::object::Object;
use crate::descriptor::OwnedFd;
use alloc::{sync::Arc, vec::Vec};
use culvert::{Entry, Errno, FileKind, Node, Reached, Result};
use culvert_sys::fd::BorrowedFd;

impl PassthroughFs {
    /// What `name` in `dir` is now, with one reference.
    pub(super) fn find(&self, dir: Node, object: &Object, name: &Name) -> Result<Entry> {
        self.look_at((dir, object), name, false)
    }

    /// The same; with `seen` it need not be opened.
    fn look_at(&self, (dir, object): (Node, &Object), name: &Name, seen: bool) -> Result<Entry> {
        let asked = self.nodes.now();
        let status = kernel::status(object.fd(), Some(name))?;
        let place = Some((dir, name));
        let node = self.nodes.refer(&status, asked, place);
        let node = node.or_else(|| self.nodes.see(&status, place.filter(|_| seen)?));
        if let Some(node) = node {
            let attributes = attributes(node, &status)?;
            return Ok(Entry { attributes });
        }
        let found = kernel::open_place(object.fd(), name)?;
        self.entry(found, place)
    }

    /// The directory `path` below `from`, passing no link, with one reference; it stays open for a
    /// while.
    ///
    /// - `ELOOP`, `EXDEV`, `EAGAIN`, `ENOSYS`, `EPERM`: as `find_below`.
    fn directory_below(
        &self,
        (from, object): (Node, &Object),
        path: &[u8],
    ) -> Result<(Node, Arc<Object>)> {
        let is_one = !path.contains(&b'/');
        let asked = self.nodes.now();
        let found = match is_one {
            true => None,
            false => Some(kernel::open_directory_below(object.fd(), path)?),
        };
        let name = match is_one {
            true => Some(Name::new(path)?),
            false => None,
        };
        let of = found.as_ref().map_or(object.fd(), OwnedFd::borrow);
        let status = kernel::status(of, name.as_ref())?;
        match kernel::kind(&status)? {
            FileKind::Directory => {}
            FileKind::Symlink => return Err(Errno::ELOOP.into()),
            _ => return Err(Errno::ENOTDIR.into()),
        }
        let place = name.as_ref().map(|name| (from, name));
        let node = match (self.nodes.refer(&status, asked, place), found, &name) {
            (Some(node), ..) => node,
            (None, Some(found), _) => self.entry(found, None)?.attributes.node,
            (None, None, Some(name)) => {
                let found = kernel::open_place(object.fd(), name)?;
                self.entry(found, place)?.attributes.node
            }
            (None, None, None) => return Err(Errno::EIO.into()),
        };
        let object = self.directory(node).map_err(|_| {
            self.nodes.forget(node, 1);
            // It is something else by now: the path is walked.
            Errno::EAGAIN
        })?;
        self.nodes.looked_in(node);
        Ok((node, object))
    }

    /// What `path` below `from` is, and its directory, with one reference on each.
    ///
    /// - `ELOOP`, `EXDEV`: a link is on the way.
    /// - `EAGAIN`: something was renamed meanwhile.
    /// - `ENOSYS`, `EPERM`: there is no openat2(2), or a filter that does not know it.
    pub(super) fn find_below(&self, from: Node, path: &[u8]) -> Result<Reached> {
        let from_object = self.directory(from)?;
        let (parent, object, name) = match path.iter().rposition(|&byte| byte == b'/') {
            None => (from, from_object, Name::new(path)?),
            Some(slash) => {
                let name = Name::new(path.get(slash + 1..).unwrap_or_default())?;
                let above = path.get(..slash).unwrap_or_default();
                let (parent, object) = self.directory_below((from, &from_object), above)?;
                (parent, object, name)
            }
        };
        let found = self.look_at((parent, &object), &name, true);
        let entry = match found {
            Ok(entry) => Some(entry),
            Err(error) if error.errno() == Errno::ENOENT => None,
            Err(error) => {
                if parent != from {
                    self.nodes.forget(parent, 1);
                }
                return Err(error);
            }
        };
        Ok(Reached { entry, parent })
    }

    /// What `descriptor` is, opened with `O_PATH`, with one reference.
    pub(super) fn entry(&self, descriptor: OwnedFd, place: Option<Place<'_>>) -> Result<Entry> {
        let status = kernel::status(&descriptor, None)?;
        let node = self.nodes.insert(descriptor, &status, place)?;
        let attributes = attributes(node, &status)?;
        Ok(Entry { attributes })
    }

    /// Whether what `fd` is lies in the source. Its path says so in one call, but only up to
    /// `PATH_MAX` (`d_path`, fs/d_path.c); a directory deeper than that is climbed from, up to the
    /// root or past it.
    pub(super) fn holds(&self, fd: BorrowedFd<'_>) -> Result<bool> {
        match kernel::path_of(fd) {
            Ok(path) => return Ok(self.below_root(&path)?.is_some()),
            Err(error) if error.errno() != Errno::ENAMETOOLONG => return Err(error),
            Err(_) => {}
        }
        let root = kernel::place(self.nodes.root().1.fd())?;
        let mut here = kernel::place(fd)?;
        let mut above = None;
        while here != root {
            let from = above.as_ref().map_or(fd, OwnedFd::borrow);
            let next = kernel::open_parent(from)?;
            let there = kernel::place(&next)?;
            // The root of the process, which is its own parent.
            if there == here {
                return Ok(false);
            }
            (here, above) = (there, Some(next));
        }
        Ok(true)
    }

    /// `path` below the root, when it lies there.
    pub(super) fn below_root(&self, path: &[u8]) -> Result<Option<Vec<u8>>> {
        let root = kernel::path_of(self.nodes.root().1.fd())?;
        let root = root.strip_suffix(b"/").unwrap_or(&root);
        let Some(rest) = path.strip_prefix(root) else {
            return Ok(None);
        };
        Ok(match rest {
            [] => Some(Vec::new()),
            [b'/', rest @ ..] => Some(rest.to_vec()),
            _ => None,
        })
    }
}

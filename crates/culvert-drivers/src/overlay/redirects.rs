//! Redirects: marks of directories that were renamed, and of copies without bytes, that say where
//! lower layers are asked.

use super::marks::{Look, Mark, Marks};
use super::state::{Core, Part};
use alloc::vec::Vec;
use culvert::{Caller, Errno, Error, FileKind, Node, Result};

impl Core {
    /// Where `marks` lead what is of this `kind`, should they count (`ovl_check_redirect`,
    /// fs/overlayfs/namei.c).
    pub fn redirect(&self, marks: &Marks, kind: FileKind) -> Result<Option<Vec<u8>>> {
        let counts = match kind {
            FileKind::Directory => !marks.opaque,
            _ => marks.metacopy,
        };
        match marks.redirect.as_ref().filter(|_| counts) {
            Some(path) if !is_redirect(path) => {
                let why = "its mark redirect is no path";
                Err(Error::because(Errno::EINVAL, why))
            }
            Some(_) if !self.follows() => {
                let why = "it was renamed, which is followed with redirect_dir=follow or on alone";
                Err(Error::because(Errno::EPERM, why))
            }
            redirect => Ok(redirect.cloned()),
        }
    }

    /// What `path` leads to in layer `index`, from its root. What is on the way may say that layers
    /// below are asked by another path, which it is then, or not at all: the search `ends`
    /// (`ovl_lookup_layer`, fs/overlayfs/namei.c).
    pub fn walk_layer(&self, index: usize, path: &mut Vec<u8>, ends: &mut bool) -> Result<Look> {
        let layer = &self.layers[index];
        let mut here = Part {
            layer: index,
            node: layer.root,
            attribute_whiteouts: false,
        };
        let asked = path.clone();
        let mut rest = &asked[..];
        let mut given = None;
        loop {
            let end = rest.iter().position(|&byte| byte == b'/');
            let name = &rest[..end.unwrap_or(rest.len())];
            let found = self.look_in(&here, name);
            if let Some(node) = given.take() {
                layer.fs.forget(node, 1);
            }
            let (attributes, end) = match (found?, end) {
                (Look::Found(attributes), Some(end)) => (attributes, end),
                (found, _) => return Ok(found),
            };
            let node = attributes.node;
            if attributes.kind != FileKind::Directory {
                layer.fs.forget(node, 1);
                *ends = true;
                return Ok(Look::Nothing);
            }
            let marks = self.marks(index, node, attributes.kind).and_then(|marks| {
                let redirect = self.redirect(&marks, attributes.kind)?;
                Ok((marks, redirect))
            });
            let (marks, redirect) = marks.inspect_err(|_| layer.fs.forget(node, 1))?;
            *ends |= marks.opaque;
            if let Some(redirect) = redirect {
                let before = &path[..path.len() - rest.len()];
                *path = match redirect.strip_prefix(b"/") {
                    Some(from_root) => {
                        *ends = false;
                        [from_root, &rest[end..]].concat()
                    }
                    None => [before, &redirect, &rest[end..]].concat(),
                };
            }
            here = Part {
                layer: index,
                node,
                attribute_whiteouts: marks.attribute_whiteouts,
            };
            given = Some(node);
            rest = &rest[end + 1..];
        }
    }

    /// The redirect for what is `name` in `dir`, a directory of the upper layer: its path as lower
    /// layers have it, which redirects of the directories above may say (`ovl_get_redirect`,
    /// fs/overlayfs/dir.c).
    pub fn redirect_to(&self, dir: Node, name: &[u8]) -> Result<Vec<u8>> {
        let upper = self.upper()?;
        let path = self.path_of(dir)?;
        let mut told = Vec::new();
        let mut here = self.layers[0].root;
        let mut given = None;
        let names = path.split(|&byte| byte == b'/');
        for name in names.filter(|name| !name.is_empty()) {
            let found = upper.lookup(&Caller::SYSTEM, here, name);
            if let Some(node) = given.take() {
                upper.forget(node, 1);
            }
            here = found?.attributes.node;
            given = Some(here);
            let mark = self.mark(0, here, Mark::Redirect);
            match mark.inspect_err(|_| upper.forget(here, 1))? {
                Some(path) if path.first() == Some(&b'/') => told = path,
                Some(beside) => told = [&told, &b"/"[..], &beside].concat(),
                None => told = [&told, &b"/"[..], name].concat(),
            }
        }
        if let Some(node) = given {
            upper.forget(node, 1);
        }
        Ok([&told, &b"/"[..], name].concat())
    }
}

/// Whether `path` may be where a redirect leads: from the root of a layer, or a name beside.
fn is_redirect(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && name.len() <= 255;
    match path.strip_prefix(b"/") {
        Some(below) => below.split(|&byte| byte == b'/').all(is_name),
        None => is_name(path) && !path.contains(&b'/'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_nowhere_else() {
        for path in ["/a", "/a/b", "a"] {
            assert!(is_redirect(path.as_bytes()), "{path}");
        }
        for path in ["", "/", "a/b", "..", "/a/../b", "/a//b", "/a/"] {
            assert!(!is_redirect(path.as_bytes()), "{path}");
        }
    }
}

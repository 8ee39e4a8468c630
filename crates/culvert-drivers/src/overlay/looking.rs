//! What names are: the upper layer is asked first, then the lower ones, until one hides the rest.

use super::marks::{Look, Mark, Marks};
use super::nodes::Seen;
use super::options::Redirects;
use super::state::{Core, Part, Parts, both};
use alloc::vec::Vec;
use culvert::{Attributes, Entry, Errno, Error, FileKind, Node, Result};

/// What a name is.
pub struct Found {
    /// What it is, with one reference of each part's layer.
    pub seen: Seen,
    /// The attributes of the uppermost part.
    pub attributes: Attributes,
    /// The node that has it already, with one reference of the table's; `seen` has no parts then.
    known: Option<Node>,
}

/// What the upper layer has in a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// Nothing.
    Nothing,
    /// A whiteout.
    Whiteout,
    /// Something.
    Something,
}

/// Where lower layers are asked.
pub enum Search {
    /// In these directories, by this name.
    Beside(Vec<u8>),
    /// From their roots, by this path.
    FromRoot(Vec<u8>),
}

impl Search {
    /// Goes on where the redirect `to` leads: a path, or another name in the same directory.
    fn redirect(&mut self, to: &[u8]) {
        match (to.strip_prefix(b"/"), self) {
            (Some(path), search) => *search = Self::FromRoot(path.to_vec()),
            (None, Self::Beside(name)) => *name = to.to_vec(),
            (None, Self::FromRoot(path)) => {
                let end = path.iter().rposition(|&byte| byte == b'/');
                path.truncate(end.map_or(0, |slash| slash + 1));
                path.extend_from_slice(to);
            }
        }
    }
}

impl Core {
    /// What `name` in `dir` is; none: nothing.
    pub fn find(&self, dir: Node, name: &[u8]) -> Result<Option<Found>> {
        let parts = self.directory(dir)?;
        self.find_in((dir, &parts), name)
    }

    /// The same, where `dir` is `parts`.
    pub fn find_in(&self, (dir, parts): (Node, &Parts), name: &[u8]) -> Result<Option<Found>> {
        if self.is_hidden(dir, name) {
            return Ok(None);
        }
        let mut search = Search::Beside(name.to_vec());
        let mut found: Option<Found> = None;
        if let Some(above) = &parts.upper {
            match self.look_in(above, name)? {
                Look::Nothing => {}
                Look::Whiteout => return Ok(None),
                Look::Found(attributes) => {
                    let part = Part {
                        layer: 0,
                        node: attributes.node,
                        attribute_whiteouts: false,
                    };
                    if let Some(node) = self
                        .nodes
                        .refer(part, |known| known.kind == attributes.kind && !known.gone)
                    {
                        // It has one reference already.
                        self.fs(part).forget(part.node, 1);
                        return Ok(Some(Found::known(node, attributes)));
                    }
                    let (one, next) = self.found_above((dir, name), attributes)?;
                    match next {
                        None => return Ok(Some(one)),
                        Some(next) => {
                            found = Some(one);
                            search = next;
                        }
                    }
                }
            }
        }
        self.find_below((dir, parts), name, search, found)
    }

    /// What was found in the upper layer, and where lower ones are asked, if they are.
    pub fn found_above(
        &self,
        (dir, name): (Node, &[u8]),
        attributes: Attributes,
    ) -> Result<(Found, Option<Search>)> {
        let marks = self
            .marks(0, attributes.node, attributes.kind)
            .and_then(|mut marks| {
                let lowers = self.nodes.with(dir, |known| known.parts.is_merged());
                if self.follows() || lowers.unwrap_or(true) {
                    marks.redirect = self.redirect(&marks, attributes.kind)?;
                }
                Ok(marks)
            })
            .inspect_err(|_| self.layers[0].fs.forget(attributes.node, 1))?;
        let part = Part {
            layer: 0,
            node: attributes.node,
            attribute_whiteouts: marks.attribute_whiteouts,
        };
        let own = self.number(0, attributes.node);
        let number = match &marks.origin {
            Some(origin) => self.origin(origin).unwrap_or(own),
            // Links and devices cannot have `user.` attributes: the lower one of the name is its
            // origin.
            None if self.settings.user_xattr && !has_attributes(attributes.kind) => {
                self.namesake((dir, name), attributes.kind)?.unwrap_or(own)
            }
            None => own,
        };
        let next = match attributes.kind {
            FileKind::Directory if !marks.opaque => Some(()),
            FileKind::Regular if marks.metacopy => Some(()),
            _ => None,
        };
        let next = next.map(|()| {
            let mut search = Search::Beside(name.to_vec());
            marks.redirect.iter().for_each(|to| search.redirect(to));
            search
        });
        let found = Found {
            attributes,
            known: None,
            seen: Seen {
                number: match attributes.kind {
                    FileKind::Directory => own,
                    _ => number,
                },
                kind: attributes.kind,
                parts: Parts {
                    upper: Some(part),
                    lowers: Vec::new(),
                },
                impure: marks.impure,
            },
        };
        Ok((found, next))
    }

    /// Goes on in lower layers, from what was `found` in the upper one.
    fn find_below(
        &self,
        (dir, parts): (Node, &Parts),
        name: &[u8],
        search: Search,
        mut found: Option<Found>,
    ) -> Result<Option<Found>> {
        match self.search_below((dir, parts), name, search, &mut found) {
            Ok(()) => Ok(found),
            Err(error) => {
                if let Some(found) = found {
                    self.leave(found);
                }
                Err(error)
            }
        }
    }

    fn search_below(
        &self,
        (dir, parts): (Node, &Parts),
        name: &[u8],
        mut search: Search,
        found: &mut Option<Found>,
    ) -> Result<()> {
        let is_file = |found: &Found| found.seen.kind == FileKind::Regular;
        let mut lacks_bytes = found.as_ref().is_some_and(is_file);
        let mut ends = false;
        let lowest_upper = usize::from(self.settings.upper);
        for index in lowest_upper..self.layers.len() {
            if ends {
                break;
            }
            let here = match &mut search {
                Search::Beside(name) => {
                    let over = parts.lowers.iter().find(|part| part.layer == index);
                    match over {
                        Some(over) => self.look_in(over, name)?,
                        None => continue,
                    }
                }
                Search::FromRoot(path) => self.walk_layer(index, path, &mut ends)?,
            };
            let attributes = match here {
                Look::Nothing => continue,
                Look::Whiteout => break,
                Look::Found(attributes) => attributes,
            };
            let is_directory = attributes.kind == FileKind::Directory;
            let fs = &*self.layers[index].fs;
            let fits = match &found {
                None => true,
                Some(found) if is_file(found) => attributes.kind == FileKind::Regular,
                Some(_) => is_directory,
            };
            if !fits {
                fs.forget(attributes.node, 1);
                break;
            }
            let top = found.is_none();
            let mut part = Part {
                layer: index,
                node: attributes.node,
                attribute_whiteouts: false,
            };
            let is_last = match self.follows() {
                true => index + 1 == self.layers.len(),
                false => parts.lowers.last().is_none_or(|part| part.layer <= index),
            };
            let marks = self.marks_below(index, &attributes, is_last);
            let marks = marks.inspect_err(|_| fs.forget(attributes.node, 1))?;
            part.attribute_whiteouts = marks.attribute_whiteouts;
            let number = self.lower_number(index, &attributes, (dir, name));
            let found = found.get_or_insert_with(|| Found {
                attributes,
                known: None,
                seen: Seen {
                    number,
                    kind: attributes.kind,
                    parts: Parts::default(),
                    impure: false,
                },
            });
            // A directory's number is that of the first of its lower parts.
            if is_directory && found.seen.parts.lowers.is_empty() {
                found.seen.number = number;
            }
            match (is_directory, top, marks.metacopy) {
                // Of a file whose bytes are elsewhere, only these are wanted.
                (false, false, true) => fs.forget(attributes.node, 1),
                _ => found.seen.parts.lowers.push(part),
            }
            if !is_directory {
                lacks_bytes = marks.metacopy;
                ends = false;
            }
            let goes_on = match is_directory {
                true => !marks.opaque,
                false => marks.metacopy,
            };
            if !goes_on || is_last {
                break;
            }
            if let Some(path) = marks.redirect {
                ends &= path.first() != Some(&b'/');
                search.redirect(&path);
            }
        }
        // Another process may have fetched them meanwhile.
        let upper = found.as_ref().and_then(|found| found.seen.parts.upper);
        let lacks_bytes = lacks_bytes
            && match upper {
                Some(part) => self.has_mark(0, part.node, Mark::Metacopy)?,
                None => true,
            };
        match lacks_bytes {
            true => Err(Error::because(
                Errno::EIO,
                "no lower layer has the bytes of this copy",
            )),
            false => Ok(()),
        }
    }

    /// The marks of what was `found` in lower layer `index`; where it leads only if it is not the
    /// `last`.
    fn marks_below(&self, index: usize, found: &Attributes, last: bool) -> Result<Marks> {
        let is_directory = found.kind == FileKind::Directory;
        let mut marks = match is_directory || self.may_lack_bytes(index, found) {
            true => self.lower_marks(index, found)?,
            false => Marks::default(),
        };
        if !last {
            marks.redirect = self.redirect(&marks, found.kind)?;
        }
        Ok(marks)
    }

    /// Whether what was `found` in lower layer `index` may have its bytes elsewhere: a file of what
    /// the kernel shows as a directory, with less on disk than its size, but for its attributes.
    fn may_lack_bytes(&self, index: usize, found: &Attributes) -> bool {
        const BLOCK: u64 = 512;
        const OF_ATTRIBUTES: u64 = 16;
        found.kind == FileKind::Regular
            && found.size > 0
            && self.layers[index].device.is_some()
            && (found.blocks <= OF_ATTRIBUTES || found.blocks.saturating_mul(BLOCK) < found.size)
    }

    /// The number of a lower file that was found as `name` in `dir`. Each name of a file with
    /// several has its own: the first change of one of them parts them.
    pub fn lower_number(
        &self,
        index: usize,
        found: &Attributes,
        (dir, name): (Node, &[u8]),
    ) -> Node {
        let number = self.number(index, found.node);
        match found.links > 1 && found.kind != FileKind::Directory && !self.settings.read_only {
            true => {
                let name = name.iter().fold(dir.0, |sum, &byte| both(sum, byte.into()));
                Node(both(number.0, name) | super::MADE)
            }
            false => number,
        }
    }

    /// The number of the lower file of that place, if it is of this `kind`.
    fn namesake(&self, (dir, name): (Node, &[u8]), kind: FileKind) -> Result<Option<Node>> {
        let parts = self.directory(dir)?;
        for part in &parts.lowers {
            match self.look_in(part, name)? {
                Look::Nothing => {}
                Look::Whiteout => break,
                Look::Found(found) => {
                    self.fs(*part).forget(found.node, 1);
                    let number = self.lower_number(part.layer, &found, (dir, name));
                    return Ok((found.kind == kind).then_some(number));
                }
            }
        }
        Ok(None)
    }

    /// Whether `name` in `dir` is the overlay's own.
    pub fn is_hidden(&self, dir: Node, name: &[u8]) -> bool {
        dir == self.root && self.settings.below.is_none() && name == super::HIDDEN
    }

    /// What the upper layer has as `name` in `dir`, which is `parts`.
    pub fn above(&self, parts: &Parts, name: &[u8]) -> Result<Above> {
        let Some(upper) = &parts.upper else {
            return Ok(Above::Nothing);
        };
        Ok(match self.look_in(upper, name)? {
            Look::Nothing => Above::Nothing,
            Look::Whiteout => Above::Whiteout,
            Look::Found(found) => {
                self.fs(*upper).forget(found.node, 1);
                Above::Something
            }
        })
    }

    /// Whether a lower layer has `name` in the directory `parts`, which shows as soon as the upper
    /// one hides it no more.
    pub fn is_below(&self, parts: &Parts, name: &[u8]) -> Result<bool> {
        for part in &parts.lowers {
            match self.look_in(part, name)? {
                Look::Nothing => {}
                Look::Whiteout => return Ok(false),
                Look::Found(found) => {
                    self.fs(*part).forget(found.node, 1);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The entry of what was `found` in `place`, with one reference of the front end's.
    pub fn enter(&self, place: Option<(Node, &[u8])>, found: Found, checked: u64) -> Result<Entry> {
        let attributes = found.attributes;
        if let Some(node) = found.known {
            if let Some((dir, name)) = place {
                self.give_back(self.nodes.renamed(node, (dir, name)));
            }
            let parts = self.nodes.with(node, |known| known.parts.clone())?;
            let attributes = self.complete(self.shown(node, &parts, attributes), &parts)?;
            return Ok(Entry { attributes });
        }
        let parts = found.seen.parts.clone();
        match self.nodes.enter(place, found.seen, checked) {
            Ok((node, returned)) => {
                self.give_back(returned);
                let attributes = self.complete(self.shown(node, &parts, attributes), &parts)?;
                Ok(Entry { attributes })
            }
            Err(error) => {
                for part in parts.all() {
                    self.fs(*part).forget(part.node, 1);
                }
                Err(error)
            }
        }
    }

    /// Gives back what was `found`.
    pub fn leave(&self, found: Found) {
        match found.known {
            Some(node) => self.give_back(self.nodes.forget(node, 1)),
            None => {
                for part in found.seen.parts.all() {
                    self.fs(*part).forget(part.node, 1);
                }
            }
        }
    }

    /// `shown` with what a file without its bytes has elsewhere.
    fn complete(&self, shown: Attributes, parts: &Parts) -> Result<Attributes> {
        match (shown.kind, parts.upper, parts.lowers.last()) {
            (FileKind::Regular, Some(_), Some(bytes)) => Ok(Attributes {
                blocks: self.attributes_of(*bytes)?.blocks,
                ..shown
            }),
            _ => Ok(shown),
        }
    }

    /// The attributes of `node`.
    pub fn attributes(&self, node: Node) -> Result<Attributes> {
        let parts = self.parts(node)?;
        let found = self.attributes_of(parts.top()?)?;
        self.complete(self.shown(node, &parts, found), &parts)
    }

    /// Whether directories that a lower layer has may be moved.
    pub fn moves_directories(&self) -> bool {
        self.settings.redirects == Redirects::Made
    }
}

impl Found {
    const fn known(node: Node, attributes: Attributes) -> Self {
        Self {
            attributes,
            known: Some(node),
            seen: Seen {
                number: node,
                kind: attributes.kind,
                parts: Parts {
                    upper: None,
                    lowers: Vec::new(),
                },
                impure: false,
            },
        }
    }

    /// What is new, made in the upper layer with one reference of the layer's.
    pub const fn made(number: Node, attributes: Attributes) -> Self {
        Self {
            attributes,
            known: None,
            seen: Seen {
                number,
                kind: attributes.kind,
                parts: Parts {
                    upper: Some(Part {
                        layer: 0,
                        node: attributes.node,
                        attribute_whiteouts: false,
                    }),
                    lowers: Vec::new(),
                },
                impure: false,
            },
        }
    }
}

/// Whether files of this kind have `user.` attributes.
pub const fn has_attributes(kind: FileKind) -> bool {
    matches!(kind, FileKind::Regular | FileKind::Directory)
}

//! What overlayfs writes on disk: whiteouts, and extended attributes as marks
//! (Documentation/filesystems/overlayfs.rst, fs/overlayfs/overlayfs.h).

use super::state::{Core, Part};
use crate::superuser;
use alloc::{format, vec::Vec};
use culvert::{Attributes, Caller, Errno, Error, FileKind, Node, Result, Rights};

/// What a mark is called behind its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// `y`: what lower layers have of a directory is not shown. `x`: there may be whiteouts in it
    /// that are files with an attribute.
    Opaque,
    /// Where lower layers have a directory, or the bytes of a file.
    Redirect,
    /// The lower file that this one was copied from.
    Origin,
    /// There may be files with an origin in the directory.
    Impure,
    /// The bytes are a lower file's.
    Metacopy,
    /// It is a whiteout.
    Whiteout,
}

impl Mark {
    const fn word(self) -> &'static str {
        match self {
            Self::Opaque => "opaque",
            Self::Redirect => "redirect",
            Self::Origin => "origin",
            Self::Impure => "impure",
            Self::Metacopy => "metacopy",
            Self::Whiteout => "whiteout",
        }
    }
}

/// What begins the names of Docker's whiteouts (image-spec, layer.md).
const DOCKER: &[u8] = b".wh.";

/// The file that makes a directory opaque.
const DOCKER_OPAQUE: &[u8] = b".wh..wh..opq";

/// Whether a layer with Docker's whiteouts shows `name`.
pub fn is_dockers(name: &[u8]) -> bool {
    name.starts_with(DOCKER)
}

/// What a name is in one layer.
pub enum Look {
    /// Nothing.
    Nothing,
    /// It was removed: what lower layers have is not shown.
    Whiteout,
    /// What has these attributes, with one reference of the layer's.
    Found(Attributes),
}

/// What marks say of a directory or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Lower layers are not asked.
    pub opaque: bool,
    /// There may be whiteouts in it that are files with an attribute.
    pub attribute_whiteouts: bool,
    /// As [`Mark::Redirect`].
    pub redirect: Option<Vec<u8>>,
    /// As [`Mark::Origin`].
    pub origin: Option<Vec<u8>>,
    /// As [`Mark::Metacopy`].
    pub metacopy: bool,
    /// As [`Mark::Impure`].
    pub impure: bool,
}

/// Whether what has these attributes is a whiteout whatever its marks say.
pub const fn is_device_whiteout(found: &Attributes) -> bool {
    matches!(found.kind, FileKind::CharacterDevice) && found.rdev == 0
}

impl Core {
    /// The prefix of marks.
    pub fn prefix(&self) -> &'static str {
        match self.settings.user_xattr {
            true => "user.overlay.",
            false => "trusted.overlay.",
        }
    }

    fn name(&self, mark: Mark) -> Vec<u8> {
        format!("{}{}", self.prefix(), mark.word()).into_bytes()
    }

    /// Does `work` as one who sees the marks of layer `index`: the kernel shows `trusted.` ones to
    /// CAP_SYS_ADMIN alone, and says to others that there are none. A server raises that right; a
    /// program of root's run that has given it up sees none (docs/drivers/overlay.md, Limits).
    fn seeing_marks<T>(&self, index: usize, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let is_hidden = || self.hides_marks(index);
        match self.elevates && is_hidden() {
            false => work(),
            true => superuser::with(Rights::SYS_ADMIN, || match is_hidden() {
                true => {
                    let why = "marks are trusted. attributes, which CAP_SYS_ADMIN is needed for";
                    Err(Error::because(Errno::EPERM, why))
                }
                false => work(),
            }),
        }
    }

    /// Whether the kernel shows this program no marks of layer `index`.
    pub fn hides_marks(&self, index: usize) -> bool {
        let of_kernel = self.layers[index].device.is_some();
        of_kernel && !self.settings.user_xattr && !super::may_trust()
    }

    /// The value of `mark` on `node` of layer `index`.
    pub fn mark(&self, index: usize, node: Node, mark: Mark) -> Result<Option<Vec<u8>>> {
        self.seeing_marks(index, || self.value(index, node, mark))
    }

    /// Whether `node` of layer `index` has `mark`. Unlike its value that needs no right to read.
    pub fn has_mark(&self, index: usize, node: Node, mark: Mark) -> Result<bool> {
        self.seeing_marks(index, || {
            let fs = &*self.layers[index].fs;
            let names = match fs.list_xattr(&Caller::SYSTEM, node) {
                Err(error) if error.errno() == Errno::EOPNOTSUPP => return Ok(false),
                names => names?,
            };
            let name = self.name(mark);
            Ok(names.split(|&byte| byte == 0).any(|one| one == name))
        })
    }

    fn value(&self, index: usize, node: Node, mark: Mark) -> Result<Option<Vec<u8>>> {
        let fs = &*self.layers[index].fs;
        match fs.get_xattr(&Caller::SYSTEM, node, &self.name(mark)) {
            Ok(value) => Ok(Some(value)),
            Err(error) => match error.errno() {
                Errno::ENODATA | Errno::EOPNOTSUPP | Errno::EPERM | Errno::ENOENT => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Sets `mark` on `node` of the upper layer. What can have none goes without: links and devices
    /// of `user.` ones.
    pub fn set_mark(&self, node: Node, mark: Mark, value: &[u8]) -> Result<()> {
        let fs = &*self.layers[0].fs;
        match fs.set_xattr(&Caller::SYSTEM, node, &self.name(mark), value, 0) {
            Err(error) if mark == Mark::Origin && error.errno() == Errno::EPERM => Ok(()),
            Err(error)
                if matches!(mark, Mark::Origin | Mark::Impure)
                    && error.errno() == Errno::EOPNOTSUPP =>
            {
                Ok(())
            }
            done => done,
        }
    }

    /// Removes `mark`, which may not be there.
    pub fn remove_mark(&self, node: Node, mark: Mark) -> Result<()> {
        let fs = &*self.layers[0].fs;
        match fs.remove_xattr(&Caller::SYSTEM, node, &self.name(mark)) {
            Err(error) if error.errno() != Errno::ENODATA => Err(error),
            _ => Ok(()),
        }
    }

    /// What the marks of `node` of layer `index` say.
    pub fn marks(&self, index: usize, node: Node, kind: FileKind) -> Result<Marks> {
        self.seeing_marks(index, || self.all_marks(index, node, kind))
    }

    fn all_marks(&self, index: usize, node: Node, kind: FileKind) -> Result<Marks> {
        let layer = &self.layers[index];
        let mut marks = Marks::default();
        let is_directory = kind == FileKind::Directory;
        if is_directory && layer.docker {
            marks.opaque = match layer.fs.lookup(&Caller::SYSTEM, node, DOCKER_OPAQUE) {
                Ok(found) => {
                    layer.fs.forget(found.attributes.node, 1);
                    true
                }
                Err(error) if error.errno() == Errno::ENOENT => false,
                Err(error) => return Err(error),
            };
        }
        let names = match layer.fs.list_xattr(&Caller::SYSTEM, node) {
            Ok(names) => names,
            Err(error) if error.errno() == Errno::EOPNOTSUPP => Vec::new(),
            Err(error) => return Err(error),
        };
        for name in names.split(|&byte| byte == 0) {
            let Some(word) = name.strip_prefix(self.prefix().as_bytes()) else {
                continue;
            };
            let value = |mark| self.value(index, node, mark);
            match word {
                b"opaque" if is_directory => match value(Mark::Opaque)?.as_deref() {
                    Some(b"y") => marks.opaque = true,
                    Some(b"x") => marks.attribute_whiteouts = true,
                    _ => {}
                },
                b"redirect" => marks.redirect = value(Mark::Redirect)?,
                // A `user.` one of a file that may not be read: its own number is shown.
                b"origin" => {
                    marks.origin = match value(Mark::Origin) {
                        Err(error) if error.errno() == Errno::EACCES && !is_directory => None,
                        value => value?,
                    };
                }
                b"metacopy" => marks.metacopy = kind == FileKind::Regular,
                b"impure" => marks.impure = is_directory,
                _ => {}
            }
        }
        Ok(marks)
    }

    /// What `name` is in `dir` of its layer.
    pub fn look_in(&self, dir: &Part, name: &[u8]) -> Result<Look> {
        let layer = &self.layers[dir.layer];
        if layer.docker && is_dockers(name) {
            return Ok(Look::Nothing);
        }
        let lookup = |name: &[u8]| match layer.fs.lookup(&Caller::SYSTEM, dir.node, name) {
            Ok(entry) => Ok(Some(entry.attributes)),
            Err(error) => match error.errno() {
                Errno::ENOENT | Errno::ESTALE | Errno::ENOTDIR => Ok(None),
                _ => Err(error),
            },
        };
        match self.as_mounter(|| lookup(name))? {
            Some(found) => {
                let is_whiteout = is_device_whiteout(&found)
                    || (dir.attribute_whiteouts || self.is_upper(dir))
                        && (found.kind, found.size) == (FileKind::Regular, 0)
                        && self.has_mark(dir.layer, found.node, Mark::Whiteout)?;
                Ok(match is_whiteout {
                    true => {
                        layer.fs.forget(found.node, 1);
                        Look::Whiteout
                    }
                    false => Look::Found(found),
                })
            }
            None if layer.docker && name.len() + DOCKER.len() <= 255 => {
                match lookup(&[DOCKER, name].concat())? {
                    Some(found) => {
                        layer.fs.forget(found.node, 1);
                        Ok(Look::Whiteout)
                    }
                    None => Ok(Look::Nothing),
                }
            }
            None => Ok(Look::Nothing),
        }
    }

    /// The name that programs see of the attribute `name` of a layer; none: it is a mark. What they
    /// call like a mark has one more `overlay.` on disk, as since Linux 6.7.
    pub fn shown_xattr(&self, name: &[u8]) -> Option<Vec<u8>> {
        let prefix = self.prefix().as_bytes();
        match name.strip_prefix(prefix) {
            None => Some(name.to_vec()),
            Some(rest) => Some([prefix, rest.strip_prefix(b"overlay.")?].concat()),
        }
    }

    /// The name that the attribute `name` of a program's has in layers.
    pub fn stored_xattr(&self, name: &[u8]) -> Vec<u8> {
        let prefix = self.prefix().as_bytes();
        match name.strip_prefix(prefix) {
            None => name.to_vec(),
            Some(rest) => [prefix, b"overlay.", rest].concat(),
        }
    }
}

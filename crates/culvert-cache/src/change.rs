//! Changes of files whose shadows follow them ([`follow`](super::follow)): what is done before the
//! file is changed, and after.

use super::OpenFile;
use super::baseline;
use super::bytes::{copy_in, copy_into, set_length};
use super::fill;
use super::follow::{Opened, followed, grow_or_cut};
use super::nodes;
use super::reopen;
use crate::shadow;
use alloc::{boxed::Box, sync::Arc};
use culvert::{Caller, Errno, File};
use culvert_run::task;
use culvert_run::{self as run, ShadowName, stat_descriptor};
use culvert_sys::raw::general::FALLOC_FL_KEEP_SIZE;
use culvert_sys::{BorrowedFd, fs};

/// A change of a file whose shadow follows, about to be made.
pub struct Change<'a> {
    open: &'a dyn OpenFile,
    shadow: Opened,
    reader: Reader,
    /// How long both are.
    length: u64,
}

/// What a file is read by.
enum Reader {
    /// That one.
    Itself,
    /// It may only be written, but another one, that this process has mapped, may be read.
    Mapped(Arc<nodes::Node>),
    /// One that was opened anew.
    Opened(Box<dyn File>),
    /// Nothing: its mode has been changed since it was opened.
    Nothing(Errno),
}

impl Reader {
    fn new(open: &dyn OpenFile) -> Self {
        if open.readable().is_ok() {
            return Self::Itself;
        }
        let name = open.name();
        match nodes::find(name) {
            Some(node) => Self::Mapped(node),
            None => reopen::for_reading(name)
                .map_or_else(|error| Self::Nothing(error.errno()), Self::Opened),
        }
    }

    /// The file to read; `itself`: the one that is changed.
    fn file<'a>(&'a self, itself: &'a dyn File) -> culvert::Result<&'a dyn File> {
        match self {
            Self::Itself => Ok(itself),
            Self::Mapped(node) => Ok(node.open.file()?),
            Self::Opened(file) => Ok(&**file),
            Self::Nothing(errno) => Err((*errno).into()),
        }
    }

    /// Fills what is missing of the shadow in the range: the error of a file that cannot be read
    /// only where something is.
    fn ensure(&self, itself: &dyn File, fd: i32, range: (u64, u64)) -> culvert::Result<()> {
        match self.file(itself) {
            Ok(file) => fill::ensure(file, fd, range),
            Err(error) if fill::lacks(fd, range)? => Err(error),
            Err(_) => Ok(()),
        }
    }
}

/// What of its file a call is about to change.
pub enum Place {
    /// Its length alone, or what the call does not say.
    Unknown,
    /// The bytes from one offset to another.
    Range(u64, u64),
    /// So many bytes behind its end.
    Behind(u64),
}

/// Before the file that is `open` is changed, in `range` where that is known, under its lock
/// ([`OpenFile::lock`]): none when no shadow follows. `ENOSPC` when there is no room for the
/// bytes in the shadow.
pub fn before(
    open: &dyn OpenFile,
    range: Option<(u64, u64)>,
) -> culvert::Result<Option<Change<'_>>> {
    let place = range.map_or(Place::Unknown, |(from, to)| Place::Range(from, to));
    match before_giving(open, place)? {
        Some(Change {
            reader: Reader::Nothing(errno),
            ..
        }) => Err(errno.into()),
        change => Ok(change),
    }
}

/// The same by who can give the shadow what the file gets: where the file cannot be read the change
/// is [blind](Change::is_blind).
pub fn before_giving(open: &dyn OpenFile, place: Place) -> culvert::Result<Option<Change<'_>>> {
    if !open.changes() {
        return Ok(None);
    }
    let name = open.name();
    let Some(shadow) = followed(name)? else {
        return Ok(None);
    };
    // What follows by that name is another file's shadow.
    if open.orphan().is_some() {
        return Ok(None);
    }
    let file = open.file()?;
    let fd = shadow.number();
    baseline::take_if_strangers(name, fd)?;
    let reader = Reader::new(open);
    let size = file.attributes(&Caller::SYSTEM)?.size;
    let length = stat_descriptor(fd)?.st_size as u64;
    // Its length differs when a writer was killed in between, or somebody outside of the run was at
    // it.
    if length != size {
        let file = reader.file(file)?;
        set_length(fd, size)?;
        copy_in(file, fd, (length.min(size), size)).inspect_err(|_| cut_back(fd, length))?;
    }
    let (start, end) = match place {
        Place::Unknown => (0, 0),
        Place::Range(start, end) => (start, end),
        Place::Behind(count) => (size, size.saturating_add(count)),
    };
    if start < end {
        // Room that is made for a page that is missing would look like a page of zeroes.
        reader.ensure(file, fd, (start, end))?;
        let fd = BorrowedFd::number(fd);
        task::limits::without_file_size(end, || {
            match fs::fallocate(fd, FALLOC_FL_KEEP_SIZE, start, end - start) {
                Err(Errno::ENOSPC) => Err(culvert::Error::because(
                    Errno::ENOSPC,
                    "the file is mapped, and the run directory has no room for more of it",
                )),
                // A signal came, or no such call here: the write itself will tell.
                _ => Ok(()),
            }
        })?;
    }
    Ok(Some(Change {
        open,
        shadow,
        reader,
        length: size,
    }))
}

/// What a shadow that has grown to be as long as its file should hold did not get there: it is
/// `length` bytes long again, by which the next who changes the file sees what is missing. Equal
/// lengths would mean that the zeroes there are the file's.
fn cut_back(fd: i32, length: u64) {
    if let Ok(found) = stat_descriptor(fd)
        && found.st_size as u64 > length
    {
        let _ = set_length(fd, length);
    }
}

/// Runs `resize`, which changes the length of a node's file without a description of it and says
/// what it is then; its shadow follows.
pub fn resizing<R>(
    name: ShadowName,
    resize: impl FnOnce() -> Result<(R, u64), Errno>,
) -> Result<R, Errno> {
    let _lock = run::get().node_locks.lock(name);
    let shadow = followed(name)?;
    if let Some(shadow) = &shadow {
        match baseline::take_if_strangers(name, shadow.number()) {
            Err(error) if matches!(error.errno(), Errno::EMFILE | Errno::ENFILE) => {
                return Err(error.errno());
            }
            // It is brought later (the log has the cause); what is cut off need not be, and to cut
            // the file may be what makes room for it.
            Err(_) | Ok(()) => {}
        }
    }
    let (result, size) = resize()?;
    if let Some(shadow) = shadow
        && let Err(error) = grow_or_cut(shadow.number(), size)
    {
        return Err(does_not_follow(name, &error.into()).errno());
    }
    Ok(result)
}

fn does_not_follow(name: ShadowName, error: &culvert::Error) -> culvert::Error {
    culvert_sys::log!("the shadow of {name} does not follow: {error}");
    Errno::EIO.into()
}

impl Change<'_> {
    /// The same call is made for the shadow: a hole of the file is one there, too.
    pub fn punch(&self, mode: u32, offset: u64, length: u64) -> Result<(), Errno> {
        let shadow = culvert_sys::BorrowedFd::number(self.shadow.number());
        culvert_sys::fs::fallocate(shadow, mode, offset, length)
    }

    /// The file has changed in `range`, perhaps in its length too; the same lock is still held.
    ///
    /// An error says that the file has the bytes and its shadow has not: the call must fail, for
    /// what is mapped shows something else.
    pub fn after(mut self, range: (u64, u64)) -> culvert::Result<()> {
        self.followed_by(range, None)
    }

    /// Whether the file cannot be read, so that [`Change::after_giving`] must say what it has got.
    pub fn is_blind(&self) -> bool {
        matches!(self.reader, Reader::Nothing(_))
    }

    /// As [`Change::after`]: it has got `bytes` at `at`.
    pub fn after_giving(&mut self, at: u64, bytes: &[u8]) -> culvert::Result<()> {
        self.followed_by((at, at + bytes.len() as u64), Some(bytes))
    }

    fn followed_by(&mut self, range: (u64, u64), bytes: Option<&[u8]>) -> culvert::Result<()> {
        self.length = self.follow(range, bytes).map_err(|error| {
            cut_back(self.shadow.number(), self.length);
            does_not_follow(self.open.name(), &error)
        })?;
        Ok(())
    }

    /// How long both are then.
    fn follow(&self, range: (u64, u64), bytes: Option<&[u8]>) -> culvert::Result<u64> {
        let file = self.open.file()?;
        let fd = self.shadow.number();
        let size = file.attributes(&Caller::SYSTEM)?.size;
        grow_or_cut(fd, size)?;
        // The file has the bytes: for want of a descriptor the call must not fail. Then they count
        // as written by strangers, too, and are written once more.
        let baseline = baseline::baseline(self.open.name()).ok().flatten();
        if let Some(baseline) = &baseline {
            baseline.cut(size);
        }
        let mut note = |at, bytes: &[u8]| baseline.as_ref().map_or(Ok(()), |it| it.note(at, bytes));
        match bytes {
            Some(bytes) => {
                shadow::write_all(fd, range.0, bytes)?;
                note(range.0, bytes)?;
            }
            None if range.0 < range.1 => {
                let reader = self.reader.file(file)?;
                fill::ensure(reader, fd, range)?;
                copy_into(reader, fd, (range.0, range.1.min(size)), &mut note)?;
            }
            None => {}
        }
        drop(baseline);
        baseline::mark_if_strangers(file, fd)?;
        Ok(size)
    }
}

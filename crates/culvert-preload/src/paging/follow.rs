//! Shadows that are kept equal to their files: who changes the file changes the shadow too, both under the node's lock.
//!
//! That a shadow is one of these says a bit of its mode; that there are any in a group of nodes, a word in shared memory ([`crate::node_locks::Mapped`]). Every
//! change of a file that could have such a shadow is made under the node's lock from beginning to end, so that none lies between the look at that
//! word and the bytes in the shadow.

use super::bytes::{PAGE, copy_in, copy_into, each_difference, equalise, set_length};
use super::kept::{Kept, kept};
use super::{nodes, pager, records};
use crate::description::{Description, Object};
use crate::looked_at;
use crate::node_locks::NodeLock;
use crate::process;
use crate::resolver::MountId;
use crate::run::{ShadowName, stat_descriptor};
use crate::shadow::{self, Descriptor};
use alloc::{boxed::Box, sync::Arc};
use core::sync::atomic::Ordering::*;
use culvert::{Errno, File};
use culvert_sys::{nr, syscall};

const O_RDWR: u32 = 2;
const O_NOATIME: usize = 0o1000000;

/// A shadow open for reading and writing.
pub enum Opened {
    /// Open for a node that this process maps, and that is not given up before this.
    Mapped(Arc<nodes::Node>, i32),
    /// Kept open because this process changes its user.
    Kept(Arc<Kept>),
    /// Opened for this purpose, closed when dropped.
    Own(ShadowName, Option<Descriptor>),
}

impl Opened {
    /// Its number.
    pub fn number(&self) -> i32 {
        match self {
            Self::Mapped(_, fd) => *fd,
            Self::Kept(kept) => kept.number(),
            Self::Own(_, descriptor) => descriptor.as_ref().map_or(-1, |own| own.0),
        }
    }

    /// The descriptor that was opened for this purpose.
    pub fn into_own(mut self) -> Option<Descriptor> {
        match &mut self {
            Self::Mapped(..) | Self::Kept(_) => None,
            Self::Own(_, descriptor) => descriptor.take(),
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if let Self::Own(name, descriptor) = self
            && let Some(descriptor) = descriptor.take()
        {
            process::get().table.posix_locks.close(*name, descriptor);
        }
    }
}

/// The lock of the node of `description`, where its file may have a shadow that follows.
#[inline]
pub fn lock(description: &Description) -> Option<NodeLock<'static>> {
    description.changes.then(|| {
        let locks = &process::get().node_locks;
        locks.lock(description.mount, description.node)
    })
}

/// Of a group's word: some of its shadows follow their files. The other bits count ([`crate::gone`]).
const FOLLOWS: u32 = 1;

/// Whether some shadow of the node's group follows.
#[inline]
fn may_be_followed(name: ShadowName) -> bool {
    process::get()
        .node_locks
        .mapped(MountId(name.mount), name.node)
        .is_some_and(|group| group.followed.load(Acquire) & FOLLOWS != 0)
}

/// The shadow of `name`, if it is one that follows its file.
pub fn followed(name: ShadowName) -> Result<Option<Opened>, Errno> {
    if !may_be_followed(name) {
        return Ok(None);
    }
    const FLAGS: usize = O_RDWR as usize | O_NOATIME;
    let opened = match nodes::open(name) {
        Some((node, fd)) => Opened::Mapped(node, fd),
        None => {
            let open = || shadow::open_path(name, &process::get().run.shadow(name), FLAGS);
            match shadow::parked(name, FLAGS).map_or_else(open, Ok) {
                Ok(opened) => Opened::Own(name, Some(opened)),
                Err(Errno::ENOENT) => return Ok(None),
                Err(error) => Opened::Kept(kept(name).ok_or(error)?),
            }
        }
    };
    let found = stat_descriptor(opened.number())?;
    Ok(shadow::is_followed(&found).then_some(opened))
}

/// Makes the shadow of `description` follow its file from now on, and be equal to it. `strangers`: programs that are not intercepted have it already, and
/// what they wrote counts.
///
/// `on_demand`: the caller maps it with `pager::mapped` if it may have holes then; else it has none. `then` is run before the lock is given back: who is going to
/// store into it records that there, since without a record the next one makes it equal to its file again. It is told whether the shadow was filled just now.
pub fn start<R>(
    description: &Description,
    strangers: bool,
    on_demand: bool,
    then: impl FnOnce(Opened, bool) -> culvert::Result<R>,
) -> culvert::Result<R> {
    let (name, file) = (description.name(), description.file()?);
    let locks = &process::get().node_locks;
    let group = locks.mapped(description.mount, description.node);
    // Without shared memory other processes would never know.
    let group = group.ok_or(Errno::ENOMEM)?;
    if let Some(gone) = description.gone() {
        return then(Opened::Own(name, Some(gone.shadow(O_RDWR)?)), false);
    }
    let opened = match nodes::open(name) {
        Some((node, fd)) => Opened::Mapped(node, fd),
        None => Opened::Own(name, Some(shadow::open_shadow(name, O_RDWR)?)),
    };
    let fd = opened.number();
    let is_fresh = |found: &culvert_sys::raw::general::stat| {
        !shadow::is_filled(found) && !pager::fill::is_partly(found) && found.st_size == 0
    };
    // Before the lock, for which the pager may be waiting.
    let lazy = on_demand
        && !strangers
        && stat_descriptor(fd).is_ok_and(|found| is_fresh(&found) && pager::fill::is_fit(&found))
        && pager::lazy(name, file.attributes()?.size);
    let _lock = locks.lock(description.mount, description.node);
    group.followed.fetch_or(FOLLOWS, AcqRel);
    if strangers {
        looked_at::take_changes(name, fd)?;
    }
    let found = stat_descriptor(fd)?;
    // While it is mapped so that it can be written, or strangers may write, what it holds is the truth.
    let decides = shadow::is_followed(&found) && (strangers || records::any(name));
    let mut filled = false;
    if decides || is_current(file, &found)? {
        if !on_demand {
            pager::fill::complete_in_room(file, fd)?;
        }
    } else if lazy && is_fresh(&found) {
        set_length(fd, file.attributes()?.size).map_err(|error| no_room(name, error.into()))?;
        looked_at::mark_equal(file, fd)?;
        shadow::mark_partly(fd, &file.attributes()?, true)?;
    } else if on_demand && !strangers && pager::fill::is_partly(&found) {
        catch_up(file, fd).map_err(|error| no_room(name, error))?;
    } else {
        let now = file.attributes()?;
        make_room(now.size, &found)?;
        equalise(file, fd, is_fresh(&found)).map_err(|error| {
            // What it took is needed elsewhere.
            if !shadow::is_filled(&found) && !pager::fill::is_partly(&found) {
                let _ = set_length(fd, 0);
            }
            no_room(name, error)
        })?;
        shadow::mark_followed(fd, &file.attributes()?)?;
        looked_at::mark_equal_to(&now, fd)?;
        filled = true;
    }
    then(opened, filled)
}

/// The same for a shadow that is being executed, which nobody can open for writing (execve(2), ETXTBSY), nor change then: `fd` is one that may only be read. Who executed it had filled it; it
/// follows its file from now on, for who writes the file when the program has ended.
///
/// `ETXTBSY` where it has other bytes than its file, which somebody outside of the run has changed since.
pub fn start_executed(description: &Description, fd: i32) -> culvert::Result<()> {
    let (name, file) = (description.name(), description.file()?);
    let locks = &process::get().node_locks;
    let group = locks.mapped(description.mount, description.node);
    let group = group.ok_or(Errno::ENOMEM)?;
    let _lock = locks.lock(description.mount, description.node);
    group.followed.fetch_or(FOLLOWS, AcqRel);
    looked_at::take_if_strangers(name, fd);
    let found = stat_descriptor(fd)?;
    if shadow::is_followed(&found) && records::any(name) || is_current(file, &found)? {
        return Ok(());
    }
    let now = file.attributes()?;
    if !shadow::is_filled(&found) || now.size != found.st_size as u64 {
        return Err(Errno::ETXTBSY.into());
    }
    each_difference(file, fd, (0, now.size), &mut |_, _, _| {
        Err(Errno::ETXTBSY.into())
    })?;
    shadow::mark_followed(fd, &now)?;
    looked_at::mark_equal_to(&now, fd)
}

/// Makes what is there of a shadow with holes equal to its file, which has changed since; what is missing is read when it is needed, as before.
fn catch_up(file: &dyn File, fd: i32) -> culvert::Result<()> {
    let now = file.attributes()?;
    grow_or_cut(fd, now.size)?;
    for part in pager::fill::present(fd, (0, now.size))? {
        each_difference(file, fd, part, &mut |place, ours, _| {
            shadow::write_all(fd, place, ours)
        })?;
    }
    shadow::mark_partly(fd, &file.attributes()?, true)?;
    looked_at::mark_equal_to(&now, fd)
}

/// Room for what a shadow with this `struct stat` has not got of a file of `size` bytes.
fn make_room(size: u64, found: &culvert_sys::raw::general::stat) -> Result<(), Errno> {
    super::room::make(size.saturating_sub(found.st_blocks as u64 * 512))
}

fn no_room(name: ShadowName, error: culvert::Error) -> culvert::Error {
    match error.errno() {
        Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG => {
            crate::log!(
                "node {:x} of mount {} cannot be mapped: its bytes find no room in the run directory: {error}",
                name.node.0,
                name.mount
            );
            Errno::ENOMEM.into()
        }
        _ => error,
    }
}

/// Whether a shadow with this `struct stat` that follows has the bytes of `file`, also those that were changed by somebody outside of the run: it was made
/// equal more than a second after the file's last change.
fn is_current(file: &dyn File, found: &culvert_sys::raw::general::stat) -> culvert::Result<bool> {
    if !shadow::is_followed(found) {
        return Ok(false);
    }
    let now = file.attributes()?;
    let modified = (found.st_mtime as i64, found.st_mtime_nsec as u32);
    Ok(now.size == found.st_size as u64
        && (now.mtime.seconds, now.mtime.nanoseconds) == modified
        && now.ctime.seconds + 1 < found.st_ctime as i64)
}

/// A change of a file whose shadow follows, about to be made.
pub struct Change<'a> {
    description: &'a Description,
    shadow: Opened,
    reader: Reader,
    /// How long both are.
    length: u64,
}

/// What the file of a description is read by.
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
    fn new(description: &Description) -> Self {
        if description.readable().is_ok() {
            return Self::Itself;
        }
        let name = description.name();
        match nodes::find(name) {
            Some(node) => Self::Mapped(node),
            None => looked_at::opened(name, 0)
                .map_or_else(|error| Self::Nothing(error.errno()), Self::Opened),
        }
    }

    /// The file to read; `itself`: the description's.
    fn file<'a>(&'a self, itself: &'a dyn File) -> culvert::Result<&'a dyn File> {
        match self {
            Self::Itself => Ok(itself),
            Self::Mapped(node) => Ok(node.description.file()?),
            Self::Opened(file) => Ok(&**file),
            Self::Nothing(errno) => Err((*errno).into()),
        }
    }

    /// Fills what is missing of the shadow in the range: the error of a file that cannot be read only where something is.
    fn ensure(&self, itself: &dyn File, fd: i32, range: (u64, u64)) -> culvert::Result<()> {
        match self.file(itself) {
            Ok(file) => pager::fill::ensure(file, fd, range),
            Err(error) if pager::fill::lacks(fd, range)? => Err(error),
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

/// Before the file of `description` is changed, in `range` where that is known, under its [`lock`]: none when no shadow follows. `ENOSPC` when there is no
/// room for the bytes in the shadow.
pub fn before(
    description: &Description,
    range: Option<(u64, u64)>,
) -> culvert::Result<Option<Change<'_>>> {
    let place = range.map_or(Place::Unknown, |(from, to)| Place::Range(from, to));
    match before_giving(description, place)? {
        Some(Change {
            reader: Reader::Nothing(errno),
            ..
        }) => Err(errno.into()),
        change => Ok(change),
    }
}

/// The same by who can give the shadow what the file gets: where the file cannot be read the change is [blind](Change::is_blind).
pub fn before_giving(
    description: &Description,
    place: Place,
) -> culvert::Result<Option<Change<'_>>> {
    let Object::File(file) = &description.object else {
        return Ok(None);
    };
    if !description.changes {
        return Ok(None);
    }
    let name = description.name();
    let Some(shadow) = followed(name)? else {
        return Ok(None);
    };
    let fd = shadow.number();
    looked_at::take_if_strangers(name, fd);
    let reader = Reader::new(description);
    let size = file.attributes()?.size;
    let length = stat_descriptor(fd)?.st_size as u64;
    // Its length differs when a writer was killed in between, or somebody outside of the run was at it.
    if length != size {
        let file = reader.file(&**file)?;
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
        reader.ensure(&**file, fd, (start, end))?;
        const FALLOC_FL_KEEP_SIZE: usize = 1;
        let arguments = [
            fd as usize,
            FALLOC_FL_KEEP_SIZE,
            start as usize,
            (end - start) as usize,
        ];
        process::limits::without_file_size(end, || {
            // SAFETY: touches no memory of ours.
            match unsafe { syscall::call(nr::FALLOCATE, arguments) } {
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
        description,
        shadow,
        reader,
        length: size,
    }))
}

/// What a shadow that has grown to be as long as its file should hold did not get there: it is `length` bytes long again, by which the next who changes the file
/// sees what is missing. Equal lengths would mean that the zeroes there are the file's.
fn cut_back(fd: i32, length: u64) {
    if let Ok(found) = stat_descriptor(fd)
        && found.st_size as u64 > length
    {
        let _ = set_length(fd, length);
    }
}

/// Runs `resize`, which changes the length of a node's file without a description of it and says what it is then; its shadow follows.
pub fn resizing<R>(
    mount: MountId,
    node: culvert::Node,
    resize: impl FnOnce() -> Result<(R, u64), Errno>,
) -> Result<R, Errno> {
    let name = ShadowName {
        mount: mount.0,
        node,
    };
    let _lock = process::get().node_locks.lock(mount, node);
    let shadow = followed(name)?;
    if let Some(shadow) = &shadow {
        looked_at::take_if_strangers(name, shadow.number());
    }
    let (result, size) = resize()?;
    if let Some(shadow) = shadow
        && let Err(error) = grow_or_cut(shadow.number(), size)
    {
        return Err(does_not_follow(name, &error.into()).errno());
    }
    Ok(result)
}

/// Gives a shadow the length `size`. What was stored behind the old end of the file, in its last page, is not part of it.
fn grow_or_cut(fd: i32, size: u64) -> Result<(), Errno> {
    let old = stat_descriptor(fd)?.st_size as u64;
    let end = old.next_multiple_of(PAGE).min(size);
    // A page that is missing is the file's when it is filled.
    if end > old && !pager::fill::is_missing(fd, old)? {
        let zeroes = [0u8; PAGE as usize];
        set_length(fd, end)?;
        let tail = (end - old) as usize;
        shadow::write_all(fd, old, &zeroes[..tail]).map_err(|error| error.errno())?;
    }
    match size == old {
        true => Ok(()),
        false => set_length(fd, size),
    }
}

fn does_not_follow(name: ShadowName, error: &culvert::Error) -> culvert::Error {
    crate::log!(
        "the shadow of node {:x} of mount {} does not follow: {error}",
        name.node.0,
        name.mount
    );
    Errno::EIO.into()
}

impl Change<'_> {
    /// The same call is made for the shadow: a hole of the file is one there, too.
    pub fn punch(&self, mode: u32, offset: u64, length: u64) -> Result<(), Errno> {
        let fd = self.shadow.number() as usize;
        let arguments = [fd, mode as usize, offset as usize, length as usize];
        // SAFETY: touches no memory of ours.
        unsafe { syscall::call(nr::FALLOCATE, arguments) }.map(|_| ())
    }

    /// The file has changed in `range`, perhaps in its length too; the same lock is still held.
    ///
    /// An error says that the file has the bytes and its shadow has not: the call must fail, for what is mapped shows something else.
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
            does_not_follow(self.description.name(), &error)
        })?;
        Ok(())
    }

    /// How long both are then.
    fn follow(&self, range: (u64, u64), bytes: Option<&[u8]>) -> culvert::Result<u64> {
        let file = self.description.file()?;
        let fd = self.shadow.number();
        let size = file.attributes()?.size;
        grow_or_cut(fd, size)?;
        let given = looked_at::given(self.description.name());
        if let Some(given) = &given {
            given.cut(size);
        }
        let mut note = |at, bytes: &[u8]| given.as_ref().map_or(Ok(()), |it| it.note(at, bytes));
        match bytes {
            Some(bytes) => {
                shadow::write_all(fd, range.0, bytes)?;
                note(range.0, bytes)?;
            }
            None if range.0 < range.1 => {
                let reader = self.reader.file(file)?;
                pager::fill::ensure(reader, fd, range)?;
                copy_into(reader, fd, (range.0, range.1.min(size)), &mut note)?;
            }
            None => {}
        }
        drop(given);
        looked_at::mark_if_strangers(file, fd)?;
        Ok(size)
    }
}

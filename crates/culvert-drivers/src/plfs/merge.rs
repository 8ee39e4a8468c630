//! From the droppings of a container to its merged index.

use super::container::{Chunk, Container, Dropping, MOST_OPEN, State, Subdir};
use super::host;
use super::index::Numbered;
use super::layout::{self, HOSTDIR, INDEX, Record};
use crate::OwnedFd;
use crate::archive::warning::printable;
use crate::passthrough::kernel;
use alloc::{collections::BTreeSet, format, vec::Vec};
use culvert::{Errno, Error, Result};
use culvert_sys::raw::general as linux;

/// For how long what strangers write may stay unseen while a file is open, nanoseconds.
const UNSEEN: u64 = 100_000_000;
/// A directory that was changed this short before it was listed may change again with the same
/// time: the kernel's clock has ticks (`current_time`, fs/inode.c). Nanoseconds.
const TICK: u64 = 50_000_000;
/// Most droppings and data droppings of a container.
const MOST_DROPPINGS: usize = 1 << 20;
/// Records read at once.
const BATCH: usize = 4096;

impl Container {
    /// Opens what the metalink `name` leads to; none where that is not there, as a part of another
    /// node's that this one does not see.
    pub fn metalink(&self, name: &[u8]) -> Result<Option<OwnedFd>> {
        let text = host::read_link(self.dir.fd(), name)?;
        let (backend, path) = self.resolved(name, &text)?;
        match host::place(self.setup.root(backend), &path) {
            Ok(found) => match host::is_directory(&kernel::status(&found, None)?) {
                true => Ok(Some(found)),
                false => Err(self.wrong(name, "a metalink to what is no directory")),
            },
            Err(error) if error.errno() == Errno::ENOENT => Ok(None),
            Err(error) if matches!(error.errno(), Errno::ELOOP | Errno::ENOTDIR | Errno::EXDEV) => {
                Err(self.wrong(name, "a metalink to a link"))
            }
            Err(error) => Err(error),
        }
    }

    /// The back end, and the path there, that the metalink `name` with this text means.
    pub fn resolved(&self, name: &[u8], text: &[u8]) -> Result<(usize, Vec<u8>)> {
        let bad = |why| self.wrong(name, why);
        let (length, target) = layout::metalink(text).ok_or_else(|| bad("no metalink"))?;
        let known = self
            .setup
            .backends
            .iter()
            .position(|one| one.path == target);
        let backend = known.ok_or_else(|| bad("a metalink to none of the mount's back ends"))?;
        // First: it says on which back end that is.
        let below = self.path()?;
        let own = &self.setup.backends[self.canonical()].path;
        let full = [own, &b"/"[..], &below, b"/", name].concat();
        let rest = full
            .get(length..)
            .ok_or_else(|| bad("a metalink longer than its path"))?;
        let start = rest
            .iter()
            .position(|&byte| byte != b'/')
            .unwrap_or(rest.len());
        let path = rest[start..].to_vec();
        let inside = !path.is_empty() && path.split(|&byte| byte == b'/').all(|part| part != b"..");
        match inside {
            true => Ok((backend, path)),
            false => Err(bad("a metalink out of its back end")),
        }
    }

    /// The subdirectory called `name` that is open as `fd`; its number.
    pub fn keep_subdir(&self, state: &mut State, name: &[u8], fd: OwnedFd) -> usize {
        if let Some(known) = state.subdirs.iter().position(|one| one.name == name) {
            return known;
        }
        state.subdirs.push(Subdir {
            name: name.to_vec(),
            fd: self.setup.keeper.keep(fd),
            listed: 0,
        });
        state.subdirs.len() - 1
    }

    /// Opens the directories of droppings that are new.
    pub fn list_subdirs(&self, state: &mut State) -> Result<()> {
        for (name, _) in host::names(self.dir.fd())? {
            let number = name.strip_prefix(HOSTDIR).and_then(layout::number);
            if number.is_none() || state.subdirs.iter().any(|one| one.name == name) {
                continue;
            }
            let opened = match host::status(self.dir.fd(), &name) {
                Ok(status) if host::is_link(&status) => self.metalink(&name)?,
                Ok(status) if host::is_directory(&status) => {
                    let flags = linux::O_PATH | linux::O_DIRECTORY;
                    Some(host::open(self.dir.fd(), &name, flags, 0)?)
                }
                Ok(_) => return Err(self.wrong(&name, "neither a directory nor a metalink")),
                Err(error) if error.errno() == Errno::ENOENT => None,
                Err(error) => return Err(error),
            };
            // The same directory by two metalinks would count everything twice, which is the same.
            if let Some(opened) = opened {
                self.keep_subdir(state, &name, opened);
            }
        }
        Ok(())
    }

    /// The droppings that are new in subdirectory `at`.
    pub fn list_droppings(&self, state: &mut State, at: usize) -> Result<()> {
        let known = state.droppings.iter().filter(|one| one.subdir == at);
        let known: BTreeSet<&[u8]> = known.map(|one| &one.name[..]).collect();
        let mut names = host::names(state.subdirs[at].fd.fd())?;
        names.retain(|(name, _)| name.starts_with(INDEX) && !known.contains(&name[..]));
        for (name, _) in names {
            if layout::dropping(INDEX, &name).is_none() {
                return Err(self.wrong(&name, "an index dropping of no writer"));
            }
            if state.droppings.len() >= MOST_DROPPINGS {
                return Err(self.wrong(&name, "too many droppings"));
            }
            state.droppings.push(Dropping {
                subdir: at,
                name,
                seen: 0,
                changed: 0,
                synced: None,
                chunks: Vec::new(),
                fd: None,
            });
        }
        Ok(())
    }

    /// The same in all subdirectories.
    fn list_new(&self, state: &mut State, now: u64) -> Result<()> {
        for at in 0..state.subdirs.len() {
            let status = kernel::status_now(state.subdirs[at].fd.fd(), None)?;
            let changed = host::changed(&status);
            if changed != state.subdirs[at].listed || state.subdirs[at].listed == 0 {
                self.list_droppings(state, at)?;
                state.subdirs[at].listed = settled(changed, now);
            }
        }
        Ok(())
    }

    /// Finds all droppings that there are, and reads none.
    pub fn list(&self, state: &mut State) -> Result<()> {
        let changed = host::changed(&kernel::status_now(self.dir.fd(), None)?);
        // What is read next has to see, too, that it has changed.
        if changed != state.listed || state.listed == 0 {
            self.list_subdirs(state)?;
        }
        self.list_new(state, self.setup.nanoseconds())
    }

    /// Makes the index right: with all that processes of the run have written, and what strangers
    /// had a moment ago. Whether the back end was asked.
    pub fn refresh(&self, state: &mut State) -> Result<bool> {
        let shared = &self.setup.shared;
        let now = self.setup.nanoseconds();
        if state.loaded
            && state.stamp == shared.changes(self.inode)
            && now.wrapping_sub(state.checked) < UNSEEN
        {
            return Ok(false);
        }
        let (stamp, cuts) = (shared.changes(self.inode), shared.cuts(self.inode));
        // Looked for at open and sync.
        let waits = self.setup.at_sync && state.checked != 0;
        if waits && state.loaded && cuts == state.cuts {
            return Ok(false);
        }
        if cuts != state.cuts {
            state.forget(self.setup.extents);
        }
        state.push(&self.setup)?;
        let was_loaded = state.loaded;
        // A dropping that has become shorter, or gone, was cut: all is read anew, once. So it is
        // where there are too many extents: records that were read together may be runs.
        let again = |read: &Result<bool>| match read {
            Ok(whole) => !whole,
            Err(error) => was_loaded && error.errno() == Errno::ENOMEM,
        };
        let mut read = self.extend(state, now);
        if again(&read) {
            state.forget(self.setup.extents);
            read = self.extend(state, now);
        }
        let whole = read.inspect_err(|_| {
            // Some records were read and are not in the index.
            state.forget(self.setup.extents);
        })?;
        if !whole {
            return Err(Error::because(
                Errno::EIO,
                "the container changes all the time",
            ));
        }
        (state.stamp, state.cuts, state.checked) = (stamp, cuts, now);
        state.loaded = true;
        Ok(true)
    }

    /// Reads what is new; false where something has been taken away.
    pub fn extend(&self, state: &mut State, now: u64) -> Result<bool> {
        let own = kernel::status_now(self.dir.fd(), None)?;
        if host::changed(&own) != state.listed || state.listed == 0 {
            // It may have been cut, which a dropping that has grown since does not tell.
            if state.droppings.iter().any(|one| one.seen > 0) {
                return Ok(false);
            }
            self.list_subdirs(state)?;
            state.listed = settled(host::changed(&own), now);
        }
        self.list_new(state, now)?;
        for at in 0..state.droppings.len() {
            let dropping = &state.droppings[at];
            let dir = state.subdirs[dropping.subdir].fd.fd();
            let (length, changed) = match host::status_now(dir, &dropping.name) {
                Ok(status) => (status.stx_size, host::changed(&status)),
                Err(error) if error.errno() == Errno::ENOENT => return Ok(false),
                Err(error) => return Err(error),
            };
            // Shorter, or other records than before.
            let same = length == dropping.seen && dropping.changed != 0;
            if length < dropping.seen || same && changed != dropping.changed {
                return Ok(false);
            }
            state.droppings[at].changed = changed;
            self.read_tail(state, at, length)?;
        }
        Ok(true)
    }

    /// Adds the records of dropping `at` up to `length`.
    pub fn read_tail(&self, state: &mut State, at: usize, length: u64) -> Result<()> {
        const SIZE: u64 = Record::SIZE as u64;
        let mut buffer = Vec::new();
        let opened = match length / SIZE > state.droppings[at].seen / SIZE {
            true => Some(self.open_index(state, at)?),
            false => None,
        };
        while let Some(fd) = &opened
            && length / SIZE > state.droppings[at].seen / SIZE
        {
            let first = state.droppings[at].seen / SIZE;
            let count = ((length / SIZE - first) as usize).min(BATCH);
            buffer.resize(count * Record::SIZE, 0);
            let read = host::read_at(fd, first * SIZE, &mut buffer)?;
            if read / Record::SIZE == 0 {
                return Ok(());
            }
            let mut numbered = Vec::with_capacity(read / Record::SIZE);
            for (number, bytes) in buffer[..read].chunks_exact(Record::SIZE).enumerate() {
                let number = first + number as u64;
                let Some(record) = Record::decode(bytes) else {
                    let name = state.droppings[at].name.clone();
                    return Err(self.wrong(&name, &format!("record {number} is of no write")));
                };
                let chunk = self.chunk(state, at, record.id)?;
                numbered.push(Numbered {
                    record,
                    chunk,
                    from: (at as u32, number),
                });
            }
            state.droppings[at].seen += (read / Record::SIZE) as u64 * SIZE;
            let added = state.index.add_all(numbered.into_iter());
            added.map_err(|error| {
                error.within(&format!("{}", printable(&self.path().unwrap_or_default())))
            })?;
        }
        state.index.settle()
    }

    pub fn open_index(&self, state: &State, at: usize) -> Result<OwnedFd> {
        let dropping = &state.droppings[at];
        let dir = state.subdirs[dropping.subdir].fd.fd();
        host::open(dir, &dropping.name, linux::O_RDONLY | linux::O_NONBLOCK, 0)
    }

    /// The number of the data dropping of writer `id` beside dropping `at`.
    pub fn chunk(&self, state: &mut State, at: usize, id: u32) -> Result<u32> {
        let dropping = &state.droppings[at];
        if let Some((_, chunk)) = dropping.chunks.iter().find(|(known, _)| *known == id) {
            return Ok(*chunk);
        }
        // One is right, but several threads of PLFS may have shared an index.
        if state.chunks.len() >= MOST_DROPPINGS || dropping.chunks.len() >= 4096 {
            return Err(self.wrong(&dropping.name, "records of too many writers"));
        }
        let own = layout::dropping(INDEX, &dropping.name);
        let own =
            own.ok_or_else(|| self.wrong(&dropping.name, "an index dropping of no writer"))?;
        let (name, subdir) = (layout::data_name(&own, id), dropping.subdir);
        let chunk = state.chunks.len() as u32;
        state.chunks.push(Chunk {
            subdir,
            name,
            fd: None,
        });
        state.droppings[at].chunks.push((id, chunk));
        Ok(chunk)
    }

    /// Opens data dropping `chunk`, if it is not open.
    pub fn open_chunk(&self, state: &mut State, chunk: usize) -> Result<()> {
        if state.chunks[chunk].fd.is_some() {
            return Ok(());
        }
        while state.open_chunks.len() >= MOST_OPEN {
            let oldest = state.open_chunks.remove(0);
            state.chunks[oldest].fd = None;
        }
        let dir = state.subdirs[state.chunks[chunk].subdir].fd.fd();
        let flags = linux::O_RDONLY | linux::O_NONBLOCK;
        let opened = host::open(dir, &state.chunks[chunk].name, flags, 0);
        let opened = opened.map_err(|error| match error.errno() {
            Errno::ENOENT => self.wrong(&state.chunks[chunk].name, "the data dropping is missing"),
            _ => error,
        })?;
        state.chunks[chunk].fd = Some(self.setup.keeper.keep(opened));
        state.open_chunks.push(chunk);
        Ok(())
    }
}

/// `changed` of a directory listed `now`, or 0 where it may change again within the same tick.
fn settled(changed: u64, now: u64) -> u64 {
    match now.saturating_sub(changed) < TICK {
        true => 0,
        false => changed,
    }
}

//! The droppings of one directory's files: what all have written, read on from where it was read
//! to; and those of this process, to which it appends.
//!
//! No descriptor is kept: a child of vfork(2), which has this memory and descriptors of its own,
//! may do all of it.

use super::files::{File, Files, Found};
use super::format;
use super::format::{DATA, Entry, Event, INDEX, NAME, Named, STATUS};
use crate::OwnedFd;
use crate::archive::warning::printable;
use crate::passthrough::kernel;
use crate::plfs::forks::forks;
use crate::plfs::host::{self, Dir};
use crate::plfs::layout;
use crate::plfs::setup::Setup;
use alloc::collections::{BTreeMap, BinaryHeap};
use alloc::{format, vec::Vec};
use core::cmp::Reverse;
use culvert::{Errno, Error, Result, sync::Mutex};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::flags::AtFlags;
use culvert_sys::fs;
use culvert_sys::raw::general as linux;

/// For how long what strangers write may stay unseen, nanoseconds.
const UNSEEN: u64 = 100_000_000;
/// So many droppings are looked at for each name; of more, what others do is seen later.
const FEW: usize = 64;
/// A directory that was changed this short before it was listed may change again with the same
/// time: the kernel's clock has ticks. Nanoseconds.
const TICK: u64 = 50_000_000;
/// Begins the numbers of what has no name any more, which no name dropping has a record of.
const NAMELESS: u64 = 1 << 63;

/// The directory on each back end; on the first there is always one.
pub type Dirs<'a> = [Option<Dir<'a>>];

/// See the module.
pub struct Pack {
    /// The device and the inode of its directory on the first back end.
    pub identity: (u64, u64),
    pub state: Mutex<State>,
}

/// A writer's three droppings.
struct Dropping {
    /// The back end.
    at: usize,
    /// What their names have in common.
    suffix: Vec<u8>,
    /// The inode of the name dropping.
    inode: u64,
    /// Bytes that were read of the name dropping and of the index dropping.
    names: u64,
    entries: u64,
}

/// What changes.
#[derive(Default)]
pub struct State {
    droppings: Vec<Dropping>,
    known: BTreeMap<(usize, Vec<u8>), u32>,
    /// When the directories had changed when they were listed; 0: list them again.
    listed: Vec<u64>,
    pub files: Files,
    /// The number of this process's own droppings, and in which process they were made.
    own: Option<(u32, u32)>,
    /// The counter of [`super::super::shared`] at the last look, and when that was.
    stamp: u64,
    checked: u64,
}

/// A call on a pack: its directories, and its state.
pub struct Call<'a> {
    pub setup: &'a Setup,
    pub dirs: &'a Dirs<'a>,
    pub identity: (u64, u64),
    pub state: &'a mut State,
}

impl Call<'_> {
    fn dir(&self, at: usize) -> Result<BorrowedFd<'_>> {
        use culvert_sys::fd::AsFd;
        self.dirs[at]
            .as_ref()
            .map(AsFd::as_fd)
            .ok_or_else(|| Errno::ENOENT.into())
    }

    fn first(&self) -> Result<BorrowedFd<'_>> {
        self.dir(0)
    }

    fn wrong(&self, dropping: u32, prefix: &[u8], text: &str) -> Error {
        let suffix = &self.state.droppings[dropping as usize].suffix;
        let name = [prefix, suffix].concat();
        Error::because(
            Errno::EIO,
            format!("small files, {}: {text}", printable(&name)),
        )
    }

    /// Nobody else makes, removes or renames files, appends or cuts, until what is returned is
    /// dropped; and all that was done before is known.
    pub fn lock(&mut self) -> Result<OwnedFd> {
        // NFS wants a writable descriptor.
        let modes = [linux::O_RDWR, linux::O_WRONLY, linux::O_RDONLY];
        let mut opened = Err(Errno::EACCES.into());
        for mode in modes {
            opened = host::open(self.first()?, STATUS, mode | linux::O_NONBLOCK, 0);
            if !matches!(&opened, Err(error) if error.errno() == Errno::EACCES) {
                break;
            }
        }
        let lock = opened?;
        host::lock(&lock, true, true)?;
        self.state.checked = 0;
        self.refresh()?;
        Ok(lock)
    }

    /// What other runs did to names is known from now on, too, as long as looking is cheap.
    pub fn look(&mut self) -> Result<()> {
        if self.state.droppings.len() <= FEW {
            self.state.checked = 0;
        }
        self.refresh()
    }

    /// Reads what was written since the last time.
    pub fn refresh(&mut self) -> Result<()> {
        let (stamp, now) = (
            self.setup.shared.changes(self.identity.1),
            self.setup.nanoseconds(),
        );
        let young = now.wrapping_sub(self.state.checked) < UNSEEN;
        if self.state.checked != 0 && young && self.state.stamp == stamp {
            return Ok(());
        }
        self.list(now)?;
        let (mut names, mut entries) = (Vec::new(), Vec::new());
        // An entry is written after the record about its file: so they are read before.
        for from in 0..self.state.droppings.len() as u32 {
            let tail = self.tail(from, INDEX)?;
            let whole = tail.len() / Entry::SIZE * Entry::SIZE;
            self.state.droppings[from as usize].entries += whole as u64;
            for bytes in tail[..whole].chunks_exact(Entry::SIZE) {
                let entry = Entry::decode(bytes);
                let entry = entry.ok_or_else(|| self.wrong(from, INDEX, "a wrong entry"))?;
                entries.push((entry, from));
            }
        }
        for from in 0..self.state.droppings.len() as u32 {
            names.push((from, self.tail(from, NAME)?));
        }
        self.merge(&names)?;
        entries.sort_by_key(|(entry, _)| entry.time);
        for (entry, from) in entries {
            self.state.files.entry(from, entry);
        }
        (self.state.stamp, self.state.checked) = (stamp, now);
        Ok(())
    }

    /// Finds droppings.
    fn list(&mut self, now: u64) -> Result<()> {
        self.state.listed.resize(self.dirs.len(), 0);
        for at in 0..self.dirs.len() {
            let Ok(dir) = self.dir(at) else { continue };
            let changed = host::changed(&kernel::status(dir, None)?);
            if self.state.listed[at] == changed {
                continue;
            }
            let names = host::names(dir)?;
            let suffix = |name: &[u8]| name.strip_prefix(NAME).map(<[u8]>::to_vec);
            let found: Vec<_> = names.iter().filter_map(|(name, _)| suffix(name)).collect();
            let there =
                |known: &&(usize, Vec<u8>)| known.0 != at || found.binary_search(&known.1).is_ok();
            if !self.state.known.keys().all(|known| there(&known)) {
                // The directory was removed, and is another one.
                *self.state = State::default();
                return self.list(now);
            }
            for suffix in found {
                if self.state.known.contains_key(&(at, suffix.clone())) {
                    continue;
                }
                let status = host::status(self.dir(at)?, &[NAME, &suffix].concat())?;
                self.add(at, suffix, status.stx_ino);
            }
            let settled = now.saturating_sub(changed) > TICK;
            self.state.listed[at] = if settled { changed } else { 0 };
        }
        Ok(())
    }

    fn add(&mut self, at: usize, suffix: Vec<u8>, inode: u64) -> u32 {
        let number = self.state.droppings.len() as u32;
        self.state.known.insert((at, suffix.clone()), number);
        self.state.droppings.push(Dropping {
            at,
            suffix,
            inode,
            names: 0,
            entries: 0,
        });
        number
    }

    /// What was not read yet of a dropping.
    fn tail(&self, from: u32, prefix: &[u8]) -> Result<Vec<u8>> {
        let dropping = &self.state.droppings[from as usize];
        let read = if prefix == NAME {
            dropping.names
        } else {
            dropping.entries
        };
        let (dir, name) = (self.dir(dropping.at)?, [prefix, &dropping.suffix].concat());
        let size = match host::status_now(dir, &name) {
            Err(error) if error.errno() == Errno::ENOENT => return Ok(Vec::new()),
            status => status?.stx_size,
        };
        if size < read {
            return Err(self.wrong(from, prefix, "it has become shorter"));
        }
        if (size - read) / 96 > self.setup.extents as u64 {
            let text = "more records than index_memory allows";
            return Err(Error::because(Errno::ENOMEM, text));
        }
        let mut bytes = alloc::vec![0; (size - read) as usize];
        if bytes.is_empty() {
            return Ok(bytes);
        }
        let file = host::open(dir, &name, linux::O_RDONLY | linux::O_NONBLOCK, 0)?;
        let count = host::read_at(&file, read, &mut bytes)?;
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Takes in records of several droppings as PLFS does: always the earliest of the next ones.
    fn merge(&mut self, tails: &[(u32, Vec<u8>)]) -> Result<()> {
        let mut next = BinaryHeap::new();
        let decode = |call: &Self, at: usize, from: usize| {
            let (dropping, bytes) = &tails[at];
            Named::decode(&bytes[from..]).map_err(|text| call.wrong(*dropping, NAME, text))
        };
        for at in 0..tails.len() {
            if let Some((record, _)) = decode(self, at, 0)? {
                next.push(Reverse((record.time, at, 0)));
            }
        }
        while let Some(Reverse((_, at, from))) = next.pop() {
            let Some((record, length)) = decode(self, at, from)? else {
                continue;
            };
            let number = tails[at].0;
            let dropping = &mut self.state.droppings[number as usize];
            let place = (number, dropping.inode, dropping.names);
            dropping.names += length as u64;
            self.state.files.named(place, &record);
            if let Some((record, _)) = decode(self, at, from + length)? {
                next.push(Reverse((record.time, at, from + length)));
            }
        }
        Ok(())
    }

    /// The file of this name.
    pub fn named(&self, name: &[u8]) -> Option<u64> {
        self.state.files.names.get(name).copied()
    }

    pub fn file(&self, number: u64) -> Result<&File> {
        self.state
            .files
            .get(number)
            .ok_or_else(|| Errno::ESTALE.into())
    }

    /// The time for a record: later than all that are known.
    fn time(&self) -> u64 {
        let (seconds, nanoseconds) = self.setup.clock.now();
        let now = (seconds as u64) << 32 | u64::from(nanoseconds / 1000);
        now.max(self.state.files.latest.saturating_add(1))
    }

    /// The number of this process's droppings, which are made where there are none.
    fn own(&mut self) -> Result<u32> {
        if let Some((own, made)) = self.state.own
            && made == forks()
        {
            return Ok(own);
        }
        let pid = host::own_pid();
        let at = pid as usize % self.dirs.len();
        let at = if self.dirs[at].is_some() { at } else { 0 };
        loop {
            let (seconds, nanoseconds) = self.setup.clock.now();
            let time = layout::time_text(seconds, nanoseconds);
            let pid = host::decimal(pid.into());
            let suffix = [time.as_bytes(), b".", &self.setup.host, b".", &pid].concat();
            let flags = linux::O_WRONLY | linux::O_CREAT | linux::O_EXCL;
            let made = host::open(
                self.dir(at)?,
                &[NAME, &suffix].concat(),
                flags,
                format::MODE,
            );
            let inode = match made {
                // One that began in the same microsecond.
                Err(error) if error.errno() == Errno::EEXIST => continue,
                made => fs::fstat(&made?)?.st_ino,
            };
            let own = self.add(at, suffix, inode);
            self.state.own = Some((own, forks()));
            return Ok(own);
        }
    }

    /// Appends `bytes`, all or nothing, to the own dropping of this kind: where.
    fn append_to(&self, own: u32, prefix: &[u8], bytes: &[u8]) -> Result<u64> {
        let (place, count) = self.append_some(own, prefix, bytes)?;
        if count < bytes.len() {
            self.cut_back(own, prefix, place)?;
            return Err(Errno::ENOSPC.into());
        }
        Ok(place)
    }

    fn open_own(&self, own: u32, prefix: &[u8]) -> Result<OwnedFd> {
        let dropping = &self.state.droppings[own as usize];
        let name = [prefix, &dropping.suffix].concat();
        let flags = linux::O_WRONLY | linux::O_APPEND | linux::O_CREAT;
        host::open(self.dir(dropping.at)?, &name, flags, format::MODE)
    }

    fn cut_back(&self, own: u32, prefix: &[u8], place: u64) -> Result<()> {
        Ok(fs::ftruncate(&self.open_own(own, prefix)?, place)?)
    }

    /// The same of as many bytes as there is room for: where, and how many.
    fn append_some(&self, own: u32, prefix: &[u8], bytes: &[u8]) -> Result<(u64, usize)> {
        let file = self.open_own(own, prefix)?;
        let place = fs::fstat(&file)?.st_size as u64;
        let room = host::file_size_limit().saturating_sub(place);
        let wanted = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        if wanted == 0 && !bytes.is_empty() {
            return Err(Errno::EFBIG.into());
        }
        match host::write_at(&file, place, &bytes[..wanted]) {
            (0, Err(errno)) => Err(errno.into()),
            (count, _) => {
                if self.setup.syncs {
                    fs::waiting::fdatasync(&file)?;
                }
                Ok((place, count))
            }
        }
    }

    /// Others of the run are to look; this process has seen it.
    fn changed(&mut self) {
        let before = self.setup.shared.changed(self.identity.1);
        if self.state.stamp == before {
            self.state.stamp = before.wrapping_add(1);
        }
    }

    /// Writes a record about a name, for who has the lock.
    pub fn record(&mut self, event: Event<'_>) -> Result<()> {
        self.record_at(event, self.time())?;
        if !matches!(event, Event::Open(_)) {
            // The directory has changed. Who may not set its time has changed it all the same.
            let _ = fs::utimensat(self.first()?, Some(c".."), None, AtFlags::empty());
        }
        Ok(())
    }

    fn record_at(&mut self, event: Event<'_>, time: u64) -> Result<()> {
        let own = self.own()?;
        let bytes = Named { time, event }.encode();
        self.append_to(own, NAME, &bytes)?;
        self.changed();
        self.merge(&[(own, bytes)])
    }

    /// Sets the time of file `number`, seconds and nanoseconds, for who has the lock.
    pub fn set_time(&mut self, number: u64, (seconds, nanoseconds): (i64, u32)) -> Result<()> {
        let Some(name) = self.file(number)?.name.clone() else {
            return Ok(());
        };
        let whole = seconds.clamp(0, u32::MAX.into()) as u64;
        let time = whole << 32 | u64::from(nanoseconds / 1000);
        let late = time > self.time();
        self.record_at(Event::Times(&name), time)?;
        if late {
            // PLFS would take all that follows in this dropping for as late.
            self.state.own = None;
        }
        Ok(())
    }

    /// The number of file `number` in the own droppings.
    fn place(&mut self, number: u64, locked: bool) -> Result<(u32, u64)> {
        let own = self.own()?;
        if let Some(place) = self.file(number)?.place_in(own) {
            return Ok((own, place));
        }
        let _lock = if locked { None } else { Some(self.lock()?) };
        let own = self.own()?;
        match self.file(number)?.name.clone() {
            Some(name) => self.record(Event::Open(&name))?,
            None => self.state.files.place(number, (own, number | NAMELESS)),
        }
        let place = self.file(number)?.place_in(own);
        place
            .map(|place| (own, place))
            .ok_or_else(|| Errno::EIO.into())
    }

    /// Writes `bytes` at `offset` of file `number`: how many. `locked`: for who has the lock.
    pub fn write(&mut self, number: u64, offset: u64, bytes: &[u8], locked: bool) -> Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let room = (i64::MAX as u64).saturating_sub(offset);
        if room == 0 {
            return Err(Errno::EFBIG.into());
        }
        let bytes = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let (own, place) = self.place(number, locked)?;
        let (physical, count) = self.append_some(own, DATA, bytes)?;
        self.entry(own, place, offset, count as u64, Some(physical))?;
        Ok(count)
    }

    /// Cuts file `number`, or makes it longer, for who has the lock.
    pub fn truncate(&mut self, number: u64, size: u64) -> Result<()> {
        if size > i64::MAX as u64 {
            return Err(Errno::EFBIG.into());
        }
        let (own, place) = self.place(number, true)?;
        self.entry(own, place, size, 0, None)
    }

    fn entry(
        &mut self,
        own: u32,
        file: u64,
        offset: u64,
        length: u64,
        physical: Option<u64>,
    ) -> Result<()> {
        let time = self.time();
        let entry = Entry {
            file,
            offset,
            length,
            time,
            physical,
        };
        let at = self.append_to(own, INDEX, &entry.encode())?;
        self.changed();
        let dropping = &mut self.state.droppings[own as usize];
        if dropping.entries == at {
            dropping.entries += Entry::SIZE as u64;
            self.state.files.entry(own, entry);
        }
        Ok(())
    }

    /// Reads from `offset` of file `number` on: how many bytes.
    pub fn read(&self, number: u64, offset: u64, out: &mut [u8]) -> Result<usize> {
        let (file, mut done) = (self.file(number)?, 0);
        while done < out.len() {
            let left = &mut out[done..];
            let part = |length: u64| {
                left.len()
                    .min(usize::try_from(length).unwrap_or(usize::MAX))
            };
            match file.find(offset + done as u64) {
                Found::End => break,
                Found::Hole(length) => {
                    let count = part(length);
                    left[..count].fill(0);
                    done += count;
                }
                Found::Data(one) => {
                    let count = part(one.length);
                    let dropping = &self.state.droppings[one.dropping as usize];
                    let name = [DATA, &dropping.suffix].concat();
                    let flags = linux::O_RDONLY | linux::O_NONBLOCK;
                    let data = host::open(self.dir(dropping.at)?, &name, flags, 0)?;
                    if host::read_at(&data, one.physical, &mut left[..count])? < count {
                        let text = "the data dropping ends before its index says";
                        return Err(self.wrong(one.dropping, DATA, text));
                    }
                    done += count;
                }
            }
        }
        Ok(done)
    }

    /// fsync(2) of all that was written.
    pub fn sync(&self) -> Result<()> {
        for dropping in &self.state.droppings {
            for prefix in [DATA, INDEX, NAME] {
                let name = [prefix, &dropping.suffix].concat();
                let flags = linux::O_RDONLY | linux::O_NONBLOCK;
                match host::open(self.dir(dropping.at)?, &name, flags, 0) {
                    Err(error) if error.errno() == Errno::ENOENT => {}
                    file => fs::waiting::fdatasync(&file?)?,
                }
            }
        }
        for at in 0..self.dirs.len() {
            if let Ok(dir) = self.dir(at) {
                fs::waiting::fsync(&kernel::open_directory(dir, 0, 0)?)?;
            }
        }
        Ok(())
    }
}

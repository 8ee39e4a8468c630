//! What one process writes into a container: its own data dropping and its own index dropping.
//!
//! A write is answered when its record stands in the index dropping, so that a process that is
//! killed loses nothing that was answered: first the bytes, then the 48 bytes that say what they
//! are. With `index=lazy` records wait, as in PLFS itself, which saves a system call for each write
//! and loses them with the process.

use super::forks::forks;
use super::layout::{self, Meta, Record};
use super::setup::Setup;
use super::{host, locks, meta};
use crate::KeptFd;
use alloc::{format, vec::Vec};
use culvert::{Errno, Error, Result, Source};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::fs;
use culvert_sys::raw::general::{self as linux, statx};

/// Records that wait at most with `index=lazy`, and for how many nanoseconds.
const MOST_WAITING: usize = 1024;
const LONGEST_WAIT: u64 = 1_000_000_000;
/// Fewer bytes than this are written together with what follows them.
const SMALL: usize = 4096;
/// How often it is borne that somebody has locked an index dropping before its writer.
const MOST_LOCKED: usize = 64;
/// How often the access file's times are set by writes at most, nanoseconds: a tick of the kernel's
/// own clock for times of files.
const TOUCH: u64 = 4_000_000;
/// The same where that is a message to a server, which others may see as late as this anyway:
/// clients keep attributes for a second.
const TOUCH_FAR: u64 = 1_000_000_000;
/// How wrong a back end's clock for times of files may be, nanoseconds.
const TICK: u64 = 10_000_000;

/// What the writer itself needs of its droppings, whatever the umask is.
const OWNERS: u32 = 0o600;

/// The largest file.
pub const LARGEST: u64 = i64::MAX as u64;

/// Data that have no record yet. The next ones take their place, unless they get one.
pub struct Written {
    /// When their write began, seconds.
    begin: f64,
    /// Bytes.
    pub length: u64,
}

/// Times of the access file, nanoseconds, as its back end has them.
#[derive(Clone, Copy)]
pub struct Times {
    modified: u64,
    changed: u64,
}

impl Times {
    pub fn of(status: &statx) -> Self {
        let time = &status.stx_ctime;
        let seconds = (time.tv_sec as u64).wrapping_mul(1_000_000_000);
        Self {
            modified: host::changed(status),
            changed: seconds.wrapping_add(time.tv_nsec.into()),
        }
    }
}

/// See the module.
pub struct Writer {
    /// The container's.
    inode: u64,
    data: KeptFd,
    index: KeptFd,
    pub index_name: Vec<u8>,
    /// The process it belongs to, as [`forks`] counts them.
    pub made: u32,
    pid: u32,
    physical: u64,
    /// Records made.
    records: u64,
    /// How long the index dropping is; none: it is appended to.
    end: Option<u64>,
    /// How far its records reach.
    pub reach: u64,
    bytes: u64,
    /// How often the file had been cut when it began.
    cuts: u64,
    /// When its last record ended: a later one is later, whatever the clock says.
    last: f64,
    when: (i64, u32),
    touched: u64,
    /// When something was written since, nanoseconds.
    stale: Option<u64>,
    /// The times of the access file after they were set then.
    times: Option<Times>,
    /// The record of being open is its own.
    own: bool,
    /// Data may be so large before the limit of the process is asked for again.
    room: u64,
    waiting: Vec<u8>,
    waiting_since: u64,
}

impl Writer {
    /// A writer whose droppings are made in `dir`, of the container `inode` in `container`.
    pub fn make(
        setup: &Setup,
        container: BorrowedFd<'_>,
        inode: u64,
        dir: BorrowedFd<'_>,
    ) -> Result<Self> {
        let pid = host::own_pid();
        // What was flattened is not the whole file any more.
        match host::unlink(container, layout::GLOBAL, false) {
            Err(error) if error.errno() != Errno::ENOENT => return Err(error),
            _ => {}
        }
        let own = meta::open(container, &setup.host, pid)?;
        let made = Self::begin(setup, container, inode, dir, (pid, own));
        // Else who looks for writers would find one for ever.
        made.inspect_err(|_| {
            if own {
                let _ = meta::forget(container, &setup.host, pid);
            }
        })
    }

    /// The droppings of process `pid`, whose record of being open is its `own`.
    fn begin(
        setup: &Setup,
        container: BorrowedFd<'_>,
        inode: u64,
        dir: BorrowedFd<'_>,
        (pid, own): (u32, bool),
    ) -> Result<Self> {
        let access = host::status(container, layout::ACCESS)?;
        let shared = u32::from(access.stx_mode) & 0o022 != 0;
        let mut locked_by_others = 0;
        let new = linux::O_CREAT | linux::O_EXCL;
        let (data, index, index_name) = loop {
            let (seconds, nanoseconds) = setup.clock.now();
            let time = layout::time_text(seconds, nanoseconds);
            let rest = [
                time.as_bytes(),
                b".",
                &setup.host,
                b".",
                &host::decimal(pid.into()),
            ]
            .concat();
            let index_name = [layout::INDEX, &rest].concat();
            // Clients of network file systems join writes at offsets, not those of O_APPEND, for
            // which they ask how long the file is. Nobody else changes the length while it is
            // locked.
            let append = if setup.syncs { 0 } else { linux::O_APPEND };
            let flags = linux::O_RDWR | append | new;
            let index = match host::open(dir, &index_name, flags, layout::DROPPING_MODE) {
                // A writer of this process that began in the same microsecond.
                Err(error) if error.errno() == Errno::EEXIST => continue,
                index => index?,
            };
            // Whoever cuts the file sees by it that somebody still writes; who was first to look
            // removes an index that nothing stands in. It is not waited for: anybody who may read
            // it can lock it. Where there are no locks, there are none.
            if host::lock(&index, false, false) == Err(Errno::EAGAIN) {
                let _ = host::unlink(dir, &index_name, false);
                locked_by_others += 1;
                match locked_by_others < MOST_LOCKED {
                    true => continue,
                    false => {
                        let text = "somebody locks each new index dropping";
                        return Err(Error::because(Errno::EAGAIN, text));
                    }
                }
            }
            let made = fs::fstat(&index)?;
            if made.st_nlink == 0 {
                continue;
            }
            let narrow = made.st_mode & OWNERS != OWNERS;
            if narrow {
                host::for_owner(&index, OWNERS)?;
            }
            if shared {
                // Who may not give it away keeps it: others cannot cut it then.
                let _ = locks::belongs(&index, &access);
                let _ = fs::fchmod(&index, layout::shared_mode(access.stx_mode.into()));
            }
            let index = setup.keeper.keep(index);
            let data_name = [layout::DATA, &rest].concat();
            let flags = linux::O_WRONLY | new;
            let data = host::open_kept(setup.keeper, dir, &data_name, flags, layout::DROPPING_MODE);
            let whole = |data: KeptFd| match narrow {
                true => host::for_owner(data.fd(), OWNERS).map(|()| data),
                false => Ok(data),
            };
            break match data.and_then(whole) {
                Ok(data) => (data, index, index_name),
                Err(error) => {
                    let _ = host::unlink(dir, &index_name, false);
                    return Err(error);
                }
            };
        };
        setup.shared.begin_growth(inode, &index_name);
        setup.shared.changed(inode);
        Ok(Self {
            inode,
            data,
            index,
            index_name,
            made: forks(),
            pid,
            physical: 0,
            records: 0,
            end: setup.syncs.then_some(0),
            reach: 0,
            bytes: 0,
            cuts: locks::cuts(container)?,
            last: 0.0,
            when: (0, 0),
            touched: 0,
            stale: None,
            times: None,
            own,
            room: host::file_size_limit(),
            waiting: Vec::new(),
            waiting_since: 0,
        })
    }

    /// Writes what `from` has behind its other data; less where space or the program's memory ends.
    /// It is no part of the file before [`Self::record`].
    pub fn data(&mut self, setup: &Setup, from: &mut dyn Source) -> Result<Written> {
        let begin = setup.seconds();
        let length = match from.remaining() {
            0 => 0,
            count => self.append(from, count)?,
        };
        Ok(Written { begin, length })
    }

    /// What was written last becomes the bytes at `offset`, as far as a file may reach. Whether the
    /// record may wait is `lazy`.
    pub fn record(
        &mut self,
        setup: &Setup,
        offset: u64,
        written: &Written,
        lazy: bool,
    ) -> Result<Record> {
        let room = LARGEST.saturating_sub(offset);
        if room == 0 {
            return Err(Errno::EFBIG.into());
        }
        let end = later(self.last, setup.seconds());
        let record = Record {
            logical: offset,
            physical: self.physical,
            length: written.length.min(room),
            begin: written.begin,
            end,
            id: self.pid,
        };
        self.done(setup, &record, lazy)?;
        self.last = end;
        Ok(record)
    }

    /// The file reaches to `size` from now on: its last byte is a zero that is older than all else.
    /// Not by a record without length, as PLFS 2.5 does it: it does not find what is later written
    /// around such a one.
    pub fn extend(&mut self, setup: &Setup, size: u64) -> Result<Record> {
        let length = self.append(&mut &[0][..], 1)?;
        let record = Record {
            logical: size.saturating_sub(1),
            physical: self.physical,
            length,
            begin: 0.0,
            end: 0.0,
            id: self.pid,
        };
        self.done(setup, &record, false)?;
        Ok(record)
    }

    /// Adds `count` bytes to the data dropping: how many, all or as many as there is room for.
    fn append(&mut self, from: &mut dyn Source, count: usize) -> Result<u64> {
        let end = self.physical.saturating_add(count as u64);
        if end > self.room {
            // The kernel would end the program by SIGXFSZ, for a file that it knows nothing of.
            self.room = host::file_size_limit();
            if end > self.room {
                return Err(Errno::ENOSPC.into());
            }
        }
        let mut done = 0;
        while done < count {
            let at = self.physical + done as u64;
            let direct = from.write_to(self.data.raw(), at, count - done);
            let direct = direct.min(count - done);
            done += direct;
            // Many small parts are one call of the kernel's, and a copy.
            if direct < SMALL && done < count {
                match self.copy(from, self.physical + done as u64, count - done) {
                    Err(error) if done == 0 => return Err(error),
                    Err(_) | Ok((0, _)) => break,
                    Ok((copied, is_all)) => {
                        done += copied;
                        if !is_all {
                            break;
                        }
                    }
                }
            }
        }
        // Nothing was there to be taken.
        match done {
            0 => Err(Errno::EFAULT.into()),
            done => Ok(done as u64),
        }
    }

    /// A part of `count` bytes, copied to `at`: how many, and whether those are all that were taken
    /// from the source.
    fn copy(&self, from: &mut dyn Source, at: u64, count: usize) -> Result<(usize, bool)> {
        let (mut buffer, mut own) = (Vec::new(), false);
        let (written, failed) = match from.rest() {
            Some(bytes) => {
                own = true;
                host::write_at(self.data.fd(), at, &bytes[..count.min(bytes.len())])
            }
            None => {
                buffer.resize(count.min(host::PIECE), 0);
                let taken = from.take(&mut buffer)?;
                host::write_at(self.data.fd(), at, &buffer[..taken])
            }
        };
        if own {
            from.used(written);
        }
        match written {
            0 => Ok(failed.map(|()| (0, true))?),
            written => Ok((written, failed.is_ok())),
        }
    }

    fn done(&mut self, setup: &Setup, record: &Record, lazy: bool) -> Result<()> {
        self.put(setup, record, lazy)?;
        self.physical += record.length;
        self.records += 1;
        self.reach = self.reach.max(record.reach());
        self.bytes += record.length;
        self.when = setup.clock.now();
        Ok(())
    }

    /// The record goes to the index dropping behind those that wait, or waits.
    fn put(&mut self, setup: &Setup, record: &Record, lazy: bool) -> Result<()> {
        if !lazy && self.waiting.is_empty() {
            return self.add(setup, &record.encode());
        }
        let now = setup.nanoseconds();
        if self.waiting.is_empty() {
            self.waiting_since = now;
        }
        self.waiting.extend_from_slice(&record.encode());
        let full = self.waiting.len() >= MOST_WAITING * Record::SIZE;
        match !lazy || full || now.wrapping_sub(self.waiting_since) > LONGEST_WAIT {
            // A write that fails has no record.
            true => self.push(setup).inspect_err(|_| {
                let rest = self.waiting.len().saturating_sub(Record::SIZE);
                self.waiting.truncate(rest);
            }),
            false => Ok(()),
        }
    }

    /// Adds records to the index dropping, whole ones or none.
    fn add(&mut self, setup: &Setup, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &bytes[done..];
            let written = match self.end {
                Some(end) => fs::pwrite(self.index.fd(), rest, end + done as u64),
                None => fs::write(self.index.fd(), rest),
            };
            match written {
                Ok(count) if count > 0 => done += count,
                Err(Errno::EINTR) => {}
                failed => {
                    // What is left of a record would put all later ones out of step.
                    let length = fs::fstat(self.index.fd())?.st_size as u64;
                    let whole = length.saturating_sub(done as u64);
                    fs::ftruncate(self.index.fd(), whole)?;
                    return Err(failed.err().unwrap_or(Errno::ENOSPC).into());
                }
            }
        }
        if let Some(end) = &mut self.end {
            *end += bytes.len() as u64;
        }
        self.grown(setup);
        Ok(())
    }

    /// Who syncs next does it with what is there now.
    fn grown(&self, setup: &Setup) {
        if let Some(growth) = setup.shared.growth(self.inode, &self.index_name) {
            growth.grown();
        }
    }

    /// fdatasync(2) of the bytes, then of their records.
    pub fn sync(&self) -> Result<()> {
        fs::waiting::fdatasync(self.data.fd())?;
        Ok(fs::waiting::fdatasync(self.index.fd())?)
    }

    /// Pushes records that wait.
    pub fn push(&mut self, setup: &Setup) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = core::mem::take(&mut self.waiting);
        let added = self.add(setup, &waiting);
        self.waiting = waiting;
        added?;
        self.waiting.clear();
        Ok(())
    }

    /// Something was written: whether the times of the access file are to be set, now.
    pub fn must_touch(&mut self, setup: &Setup, now: u64) -> bool {
        let every = if setup.syncs { TOUCH_FAR } else { TOUCH };
        let due = now.wrapping_sub(self.touched) >= every;
        if due {
            self.touched = now;
        }
        self.stale = (!due && setup.syncs).then_some(now);
        due
    }

    /// Whether the times of the access file have waited, and are to be set now: when the last write
    /// was, nanoseconds.
    pub fn touch_is_due(&mut self) -> Option<u64> {
        self.stale.take()
    }

    /// The times of the access file, which this process has just set.
    pub fn times_are(&mut self, times: Option<Times>) {
        self.times = times;
    }

    /// The same, which are set now.
    pub fn touched(&mut self, now: u64) {
        self.touched = now;
    }

    /// Whether another process has set `times`, and later than this one wrote, which was at
    /// `written`: so long after it had set them itself, by the back end's clock as by its own.
    /// Where that cannot be told apart, it was before.
    pub fn are_of_others(&self, times: &Times, written: u64) -> bool {
        self.times.is_some_and(|own| {
            let since = written.saturating_sub(self.touched);
            let until = own.changed.saturating_add(since).saturating_add(TICK);
            times.modified != own.modified && times.changed > until
        })
    }

    /// Times were set by utimensat(2): the next write sets them again.
    pub fn times_were_set(&mut self) {
        (self.touched, self.stale) = (0, None);
    }

    /// How many records it has made.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The file was cut: so many records are left, and none waits.
    pub fn left(&mut self, records: u64) {
        self.records = records;
        self.end = self.end.map(|_| records * Record::SIZE as u64);
    }

    /// The file was cut to nothing.
    pub fn empty(&mut self, setup: &Setup) -> Result<()> {
        self.waiting.clear();
        fs::ftruncate(self.index.fd(), 0)?;
        fs::ftruncate(self.data.fd(), 0)?;
        (self.physical, self.reach, self.bytes) = (0, 0, 0);
        self.left(0);
        self.grown(setup);
        Ok(())
    }

    /// Leaves what it knows where stat(2) finds it.
    pub fn close(mut self, setup: &Setup, container: BorrowedFd<'_>, removed: bool) -> Result<()> {
        let pushed = self.push(setup);
        if let Some(growth) = setup.shared.growth(self.inode, &self.index_name) {
            growth.end();
        }
        if removed {
            return pushed;
        }
        let (seconds, nanoseconds) = self.when;
        let name = Meta {
            end: self.reach,
            bytes: self.bytes,
            seconds: seconds as u64,
            micros: u64::from(nanoseconds / 1000),
            host: &setup.host,
        };
        pushed?;
        meta::close(container, &name, self.pid, self.own, || {
            match self.is_as_written(container)? {
                true => Ok(self.reach),
                false => self.reach_of_records(),
            }
        })
    }

    /// Whether nobody has cut what it wrote. Culvert counts cuts behind the last record that goes,
    /// and before it looks for names in `meta`; PLFS leaves another length.
    fn is_as_written(&self, container: BorrowedFd<'_>) -> Result<bool> {
        let found = fs::fstat(self.index.fd())?;
        let length = self.records * Record::SIZE as u64;
        let whole = found.st_nlink > 0 && found.st_size as u64 == length;
        Ok(whole && locks::cuts(container)? == self.cuts)
    }

    /// How far what is in the index dropping reaches, for somebody may have cut it.
    fn reach_of_records(&self) -> Result<u64> {
        let (mut reach, mut at) = (0, 0);
        let mut buffer = alloc::vec![0; 1024 * Record::SIZE];
        loop {
            let read = host::read_at(self.index.fd(), at, &mut buffer)?;
            let whole = read / Record::SIZE * Record::SIZE;
            if whole == 0 {
                return Ok(reach);
            }
            for bytes in buffer[..whole].chunks_exact(Record::SIZE) {
                let end = Record::decode(bytes).map_or(0, |record| record.reach());
                reach = reach.max(end);
            }
            at += whole as u64;
        }
    }
}

/// `now`, or the next time that there is behind `last`.
fn later(last: f64, now: f64) -> f64 {
    match now > last {
        true => now,
        false => f64::from_bits(last.to_bits() + 1),
    }
}

/// For messages.
impl core::fmt::Debug for Writer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&format!("writer {}", self.pid))
    }
}

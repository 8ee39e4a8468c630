//! The table of files that the service holds, and what is locked for that on the back end.
//!
//! | lock (flock(2)) | held by |
//! |---|---|
//! | its file [`HOLDER`], exclusive | the service that holds the file |
//! | the same, shared | who has written beside appends and finds that a service of another user holds the file, until it does not |
//! | its file [`APPENDS`], shared | the service too, and each writer from before it asks for a position until its record is written |
//! | [`APPENDS`], exclusive | who appends without a service, or cuts the file; a service for a moment when it begins to hold it |
//!
//! So a service that begins to hold a file finds no writer under way with a position of another
//! service, and who appends without one finds none of any. What dies lets go, by the kernel.
//! Writers make both files before they ask.

use crate::locks::lock;
use crate::memory::Memory;
use culvert_sync_wire::memory::{FILES, Place, Taken};
use culvert_sync_wire::{APPENDS, Answer, FileId, HOLDER};
use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags, flock, fstat, openat2};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// For how long a file is held at most: so long waits who appends without the service.
pub const LONGEST: Duration = Duration::from_millis(100);
/// For how long a file is held that nobody asks for.
pub const IDLE: Duration = Duration::from_millis(30);
/// For how long the service does not hold a file again that it has released for somebody.
const BARRED: Duration = Duration::from_millis(2);
/// The largest file.
const LARGEST: u64 = i64::MAX as u64;

/// Who waits for an answer.
pub type Waiter = Box<dyn FnOnce(Answer) + Send>;

enum Entry {
    /// The locks are being waited for.
    Pending(Vec<Waiter>),
    Held(Held),
    /// It was released for somebody, then.
    Released(Instant),
}

struct Held {
    turn: u64,
    /// How far positions were given out, or the file reaches.
    end: End,
    /// The same when it was last swept.
    seen: u64,
    since: Instant,
    last: Instant,
    /// Their descriptors are closed with it, which releases both.
    _locks: Locks,
}

enum End {
    /// The service alone knows it.
    Own(u64),
    /// It is in memory that writers share, until this is dropped.
    Shared(Shared),
}

struct Shared(Arc<Memory>, Place);

impl Drop for Shared {
    fn drop(&mut self) {
        self.0.table().close(self.1);
    }
}

struct Locks {
    appends: OwnedFd,
    holder: OwnedFd,
}

/// See the module.
pub struct Files {
    inner: Mutex<Inner>,
    /// There is something to sweep, or it is over.
    stirred: Condvar,
    most: usize,
    memory: Option<Arc<Memory>>,
}

struct Inner {
    table: BTreeMap<FileId, Entry>,
    /// The places of files in the memory, with the last tag. A place stays its file's, for some
    /// writer may still look at it.
    places: BTreeMap<FileId, Place>,
    /// The number of the next turn.
    next: u64,
    over: bool,
}

impl Files {
    /// A table for `most` files, of which writers share the positions in `memory`.
    pub fn new(most: usize, memory: Option<Arc<Memory>>) -> Arc<Self> {
        // Another service's turns, before or after, have other numbers.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let next = since.map_or(1, |since| since.as_nanos() as u64);
        Arc::new(Self {
            inner: Mutex::new(Inner {
                table: BTreeMap::new(),
                places: BTreeMap::new(),
                next,
                over: false,
            }),
            stirred: Condvar::new(),
            most: most.max(1),
            memory,
        })
    }

    /// Turns from now on are of this epoch. Numbers of services without one are times, and larger.
    pub fn begin_epoch(&self, epoch: u64) {
        self.lock().next = (epoch << 32) + 1;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds `file`, whose container is at `path`, and tells `waiter`: at once, where nobody else
    /// has the locks, or later.
    pub fn hold(self: &Arc<Self>, file: FileId, path: &[u8], waiter: Waiter) {
        let barred = {
            let mut inner = self.lock();
            match inner.table.get_mut(&file) {
                Some(Entry::Pending(waiting)) => return waiting.push(waiter),
                Some(Entry::Held(held)) => {
                    held.last = Instant::now();
                    let answer = held.answer();
                    drop(inner);
                    return waiter(answer);
                }
                found => {
                    let since = match found {
                        Some(Entry::Released(since)) => Some(*since),
                        _ => None,
                    };
                    inner.make_room(self.most);
                    let waiting = Entry::Pending(Vec::from([waiter]));
                    inner.table.insert(file, waiting);
                    since
                }
            }
        };
        let locks = match open(file, path) {
            Ok(locks) => locks,
            Err(errno) => return self.refuse(file, errno),
        };
        let left = barred.map_or(Duration::ZERO, |since| {
            BARRED.saturating_sub(since.elapsed())
        });
        if left.is_zero() {
            match locks.take(false) {
                Ok(()) => return self.held(file, locks),
                Err(Errno::WOULDBLOCK) => {}
                Err(errno) => return self.refuse(file, errno),
            }
        }
        let files = Arc::clone(self);
        let waits = move || {
            std::thread::sleep(left);
            match locks.take(true) {
                Ok(()) => files.held(file, locks),
                Err(errno) => files.refuse(file, errno),
            }
        };
        // Not by a worker: those whom it waits for may ask meanwhile.
        if std::thread::Builder::new().spawn(waits).is_err() {
            self.refuse(file, Errno::AGAIN);
        }
    }

    /// The locks of `file` were taken: a turn begins.
    fn held(&self, file: FileId, locks: Locks) {
        let mut inner = self.lock();
        let (turn, now) = (inner.next, Instant::now());
        inner.next += 1;
        // Writers take no positions from a service of which the kernel would not say that it died.
        let living = self.memory.as_ref().filter(|memory| memory.table().lives());
        let shared = living.and_then(|memory| {
            let place = inner.place(file)?;
            memory.table().open(place, turn);
            Some(End::Shared(Shared(Arc::clone(memory), place)))
        });
        let held = Held {
            turn,
            end: shared.unwrap_or(End::Own(0)),
            seen: 0,
            since: now,
            last: now,
            _locks: locks,
        };
        let answer = held.answer();
        let before = inner.table.insert(file, Entry::Held(held));
        drop(inner);
        self.stirred.notify_all();
        tell(before, answer);
    }

    fn refuse(&self, file: FileId, errno: Errno) {
        let before = self.lock().table.remove(&file);
        tell(before, Answer::Refused(errno.raw_os_error() as u32));
    }

    /// A position for `count` bytes in `file`, which reaches to `size` at least.
    pub fn append(&self, file: FileId, turn: u64, count: u64, size: u64) -> Answer {
        let mut inner = self.lock();
        let Some(Entry::Held(held)) = inner.table.get_mut(&file) else {
            return Answer::NotHeld;
        };
        if held.turn != turn {
            return Answer::NotHeld;
        }
        held.last = Instant::now();
        held.take(count, size)
    }

    /// `file` reaches to `size` at least.
    pub fn reach(&self, file: FileId, size: u64) -> Answer {
        match self.lock().table.get_mut(&file) {
            Some(Entry::Held(held)) => {
                held.reach(size);
                Answer::Done
            }
            _ => Answer::NotHeld,
        }
    }

    /// Lets go of `file`, and does not hold it again for a moment.
    pub fn release(&self, file: FileId) {
        let mut inner = self.lock();
        if matches!(inner.table.get(&file), Some(Entry::Held(_))) {
            let released = Entry::Released(Instant::now());
            inner.table.insert(file, released);
        }
    }

    /// Lets go of all files: there are no clients.
    pub fn release_all(&self) {
        let mut inner = self.lock();
        inner
            .table
            .retain(|_, entry| matches!(entry, Entry::Pending(_)));
    }

    /// Lets go of what was held long enough, as long as the service lives.
    pub fn sweep(&self) {
        let mut inner = self.lock();
        while !inner.over {
            let now = Instant::now();
            inner.table.retain(|_, entry| {
                entry.look(now);
                entry.stays(now)
            });
            let idle = inner
                .table
                .values()
                .all(|entry| matches!(entry, Entry::Pending(_)));
            inner = match idle {
                true => self.stirred.wait(inner),
                false => self
                    .stirred
                    .wait_timeout(inner, IDLE / 3)
                    .map(|(inner, _)| inner)
                    .map_err(|poisoned| PoisonError::new(poisoned.into_inner().0)),
            }
            .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets go of everything and ends [`Files::sweep`].
    pub fn end(&self) {
        self.release_all();
        self.lock().over = true;
        self.stirred.notify_all();
    }
}

impl Inner {
    /// The place of `file` for its next turn; none: they are all others'.
    fn place(&mut self, file: FileId) -> Option<Place> {
        let next = self.places.len() as u32;
        let place = match self.places.get_mut(&file) {
            Some(place) => place,
            None if next < FILES => self.places.entry(file).or_insert(Place {
                number: next,
                tag: 0,
            }),
            None => return None,
        };
        // 0: it is not held.
        place.tag = place.tag.checked_add(1).unwrap_or(1);
        Some(*place)
    }

    /// Lets go of the file that nobody has asked for longest, if there are `most`.
    fn make_room(&mut self, most: usize) {
        if self.table.len() < most {
            return;
        }
        let held = self.table.iter().filter_map(|(file, entry)| match entry {
            Entry::Held(held) => Some((held.last, *file)),
            Entry::Released(since) => Some((*since, *file)),
            Entry::Pending(_) => None,
        });
        if let Some((_, oldest)) = held.min() {
            self.table.remove(&oldest);
        }
    }
}

impl Held {
    fn answer(&self) -> Answer {
        let place = match &self.end {
            End::Own(_) => None,
            End::Shared(shared) => Some(shared.1),
        };
        Answer::Held(self.turn, place)
    }

    fn end(&self) -> u64 {
        match &self.end {
            End::Own(end) => *end,
            End::Shared(Shared(memory, place)) => memory.table().end(*place),
        }
    }

    /// The service's own from now on: who looks for it in the memory asks again. The end.
    fn own(&mut self) -> &mut u64 {
        if let End::Shared(Shared(memory, place)) = &self.end {
            self.end = End::Own(memory.table().close(*place));
        }
        match &mut self.end {
            End::Own(end) => end,
            // It was made its own above.
            End::Shared(_) => &mut self.seen,
        }
    }

    /// A position for `count` bytes, in a file that reaches to `size` at least.
    fn take(&mut self, count: u64, size: u64) -> Answer {
        if let End::Shared(Shared(memory, place)) = &self.end
            && let Taken::Position(at) = memory.table().take(*place, self.turn, count, size)
        {
            return Answer::Position(at);
        }
        let known = self.own();
        *known = (*known).max(size);
        match known.checked_add(count).filter(|end| *end <= LARGEST) {
            Some(end) => Answer::Position(std::mem::replace(known, end)),
            None => Answer::TooLarge,
        }
    }

    /// The file reaches to `size` at least.
    fn reach(&mut self, size: u64) {
        if let End::Shared(Shared(memory, place)) = &self.end
            && let Taken::Position(_) = memory.table().reach(*place, size)
        {
            return;
        }
        let known = self.own();
        *known = (*known).max(size);
    }
}

impl Entry {
    /// Whether positions were taken in the memory since it was last looked at.
    fn look(&mut self, now: Instant) {
        if let Self::Held(held) = self {
            let end = held.end();
            if held.seen != end {
                (held.seen, held.last) = (end, now);
            }
        }
    }

    fn stays(&self, now: Instant) -> bool {
        match self {
            Self::Pending(_) => true,
            Self::Held(held) => {
                now.saturating_duration_since(held.since) < LONGEST
                    && now.saturating_duration_since(held.last) < IDLE
            }
            Self::Released(since) => now.saturating_duration_since(*since) < BARRED,
        }
    }
}

fn tell(entry: Option<Entry>, answer: Answer) {
    if let Some(Entry::Pending(waiting)) = entry {
        for waiter in waiting {
            waiter(answer);
        }
    }
}

/// Opens the container at `path`, if it is `file`.
fn open(file: FileId, path: &[u8]) -> Result<Locks, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let directory = openat2(rustix::fs::CWD, path, flags, Mode::empty(), resolve)?;
    let found = fstat(&directory)?;
    if (found.st_dev, found.st_ino) != (file.device, file.inode) {
        return Err(Errno::STALE);
    }
    let resolve = resolve | ResolveFlags::BENEATH;
    // NFS wants a descriptor that can be read and written for both kinds of locks.
    let open = |name: &str| {
        let flags = OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = |mode| openat2(&directory, name, flags | mode, Mode::empty(), resolve);
        match open(OFlags::RDWR) {
            Err(Errno::ACCESS) => open(OFlags::WRONLY),
            opened => opened,
        }
    };
    Ok(Locks {
        appends: open(APPENDS)?,
        holder: open(HOLDER)?,
    })
}

impl Locks {
    /// Takes both; `wait`s, if it is to. Writers that were under way are done then.
    fn take(&self, wait: bool) -> Result<(), Errno> {
        let taken = lock(&self.holder, true, wait)
            .and_then(|()| lock(&self.appends, true, wait))
            // The kernel may give it to another one in between, who then appends without us: nobody
            // has a position from us yet.
            .and_then(|()| lock(&self.appends, false, wait));
        if taken.is_err() {
            let _ = flock(&self.appends, FlockOperation::Unlock);
            let _ = flock(&self.holder, FlockOperation::Unlock);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::channel;

    struct Container(PathBuf);

    impl Container {
        fn new(name: &str) -> Self {
            let path =
                std::env::temp_dir().join(format!("culvert-sync-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            for name in [APPENDS, HOLDER] {
                File::create(path.join(name)).unwrap();
            }
            Self(path.canonicalize().unwrap())
        }

        fn file(&self) -> FileId {
            let found = std::fs::metadata(&self.0).unwrap();
            FileId {
                device: found.dev(),
                inode: found.ino(),
            }
        }

        fn hold(&self, files: &Arc<Files>) -> Answer {
            let (tell, told) = channel();
            let waiter = Box::new(move |answer| tell.send(answer).unwrap());
            files.hold(self.file(), self.0.as_os_str().as_bytes(), waiter);
            told.recv().unwrap()
        }

        fn appends(&self) -> File {
            File::open(self.0.join(APPENDS)).unwrap()
        }
    }

    impl Drop for Container {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// A table whose positions are in memory.
    fn files(most: usize) -> Arc<Files> {
        Files::new(most, Some(living()))
    }

    /// Memory of a service that lives as long as the test.
    fn living() -> Arc<Memory> {
        let memory = Memory::new().unwrap();
        memory.table().life().store(1, SeqCst);
        Arc::new(memory)
    }

    fn turn(answer: Answer) -> u64 {
        match answer {
            Answer::Held(turn, _) => turn,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn positions_follow_each_other_from_the_size_on() {
        for files in [files(9), Files::new(9, None)] {
            positions(&files);
        }
    }

    fn positions(files: &Arc<Files>) {
        let container = Container::new("positions");
        let file = container.file();
        let turn = turn(container.hold(files));
        let ask = |count, size| files.append(file, turn, count, size);
        assert_eq!(ask(10, 100), Answer::Position(100));
        assert_eq!(ask(5, 0), Answer::Position(110));
        // What others write beside makes it longer, and never shorter.
        assert_eq!(files.reach(file, 200), Answer::Done);
        assert_eq!(files.reach(file, 20), Answer::Done);
        assert_eq!(ask(1, 0), Answer::Position(200));
        assert_eq!(ask(1, 7), Answer::Position(201));
        assert_eq!(ask(LARGEST, 0), Answer::TooLarge);
        assert_eq!(ask(1, 0), Answer::Position(202));
        assert_eq!(files.append(file, turn + 1, 1, 0), Answer::NotHeld);
        files.release(file);
        assert_eq!(files.reach(file, 1), Answer::NotHeld);
    }

    #[test]
    fn who_appends_without_a_service_waits_until_it_lets_go() {
        let (container, files) = (Container::new("locks"), files(9));
        let first = turn(container.hold(&files));
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        let appends = container.appends();
        assert_eq!(flock(&appends, exclusive), Err(Errno::WOULDBLOCK));
        // Writers with a position do not.
        assert!(flock(&appends, FlockOperation::NonBlockingLockShared).is_ok());
        files.release(container.file());
        assert!(flock(&appends, exclusive).is_ok());
        // And the other way round: it is held again when that one is done.
        let (tell, told) = channel();
        let waiter = Box::new(move |answer| tell.send(answer).unwrap());
        files.hold(container.file(), container.0.as_os_str().as_bytes(), waiter);
        assert!(told.try_recv().is_err());
        drop(appends);
        assert_ne!(turn(told.recv().unwrap()), first);
    }

    #[test]
    fn two_services_hold_a_file_one_after_the_other() {
        let container = Container::new("two");
        let (one, two) = (files(9), files(9));
        let first = turn(container.hold(&one));
        let second = std::thread::scope(|scope| {
            let waits = scope.spawn(|| turn(container.hold(&two)));
            one.release(container.file());
            waits.join().unwrap()
        });
        let refused = one.append(container.file(), first, 1, 0);
        assert_eq!(refused, Answer::NotHeld);
        let given = two.append(container.file(), second, 1, 0);
        assert_eq!(given, Answer::Position(0));
    }

    #[test]
    fn a_writer_under_way_keeps_the_next_service_from_beginning() {
        let (container, files) = (Container::new("under-way"), files(9));
        let writer = container.appends();
        flock(&writer, FlockOperation::LockShared).unwrap();
        let (tell, told) = channel();
        let waiter = Box::new(move |answer| tell.send(answer).unwrap());
        files.hold(container.file(), container.0.as_os_str().as_bytes(), waiter);
        let early = files.append(container.file(), 0, 1, 0);
        assert_eq!(early, Answer::NotHeld);
        assert!(told.try_recv().is_err());
        drop(writer);
        turn(told.recv().unwrap());
    }

    #[test]
    fn a_service_that_cannot_be_seen_to_die_is_asked_for_each_position() {
        let container = Container::new("unseen");
        let files = Files::new(9, Some(Arc::new(Memory::new().unwrap())));
        let held = container.hold(&files);
        assert_eq!(held, Answer::Held(turn(held), None));
        let given = files.append(container.file(), turn(held), 5, 0);
        assert_eq!(given, Answer::Position(0));
    }

    #[test]
    fn writers_and_the_service_take_positions_of_one_file() {
        let memory = living();
        let files = Files::new(9, Some(Arc::clone(&memory)));
        let (container, table) = (Container::new("shared"), memory.table());
        let file = container.file();
        let Answer::Held(turn, Some(place)) = container.hold(&files) else {
            panic!("no place");
        };
        assert_eq!(table.take(place, turn, 10, 100), Taken::Position(100));
        assert_eq!(files.append(file, turn, 5, 0), Answer::Position(110));
        assert_eq!(table.take(place, turn, 1, 0), Taken::Position(115));
        // What the memory has no room for is the service's from then on.
        let large = 1 << 60;
        assert_eq!(table.take(place, turn, 1, large), Taken::Beyond);
        assert_eq!(files.append(file, turn, 1, large), Answer::Position(large));
        assert_eq!(table.take(place, turn, 1, 0), Taken::Over);
        assert_eq!(container.hold(&files), Answer::Held(turn, None));
        assert_eq!(files.append(file, turn, 1, 0), Answer::Position(large + 1));
        files.release(file);
        let Answer::Held(next, Some(later)) = container.hold(&files) else {
            panic!("no place");
        };
        assert_eq!((later.number, later.tag), (place.number, place.tag + 1));
        assert_eq!(table.take(place, turn, 1, 0), Taken::Over);
        assert_eq!(table.take(later, next, 1, 0), Taken::Position(0));
        files.end();
        assert_eq!(table.take(later, next, 1, 0), Taken::Over);
    }

    #[test]
    fn a_full_table_lets_go_of_what_nobody_asked_for_longest() {
        let files = files(2);
        let all: Vec<_> = ["a", "b", "c"]
            .map(|name| Container::new(&format!("full-{name}")))
            .into();
        let turns: Vec<_> = all.iter().map(|one| turn(one.hold(&files))).collect();
        let ask = |at: usize| files.append(all[at].file(), turns[at], 1, 0);
        assert_eq!(ask(0), Answer::NotHeld);
        assert_eq!(ask(1), Answer::Position(0));
        assert_eq!(ask(2), Answer::Position(0));
    }

    #[test]
    fn a_file_is_let_go_of_by_itself() {
        let (container, files) = (Container::new("sweep"), files(9));
        std::thread::scope(|scope| {
            scope.spawn(|| files.sweep());
            turn(container.hold(&files));
            // Ends when the service has let go; it waits as long as that takes.
            flock(container.appends(), FlockOperation::LockExclusive).unwrap();
            files.end();
        });
    }

    #[test]
    fn only_the_container_that_was_meant_is_held() {
        let (container, files) = (Container::new("meant"), files(9));
        let other = Container::new("other");
        let link = container.0.join("link");
        std::os::unix::fs::symlink(&container.0, &link).unwrap();
        let stale = Answer::Refused(Errno::STALE.raw_os_error() as u32);
        let refused = |path: &Path| {
            let (tell, told) = channel();
            let waiter = Box::new(move |answer| tell.send(answer).unwrap());
            files.hold(container.file(), path.as_os_str().as_bytes(), waiter);
            told.recv().unwrap()
        };
        assert_eq!(refused(&other.0), stale);
        assert!(matches!(refused(&link), Answer::Refused(_)));
        assert!(matches!(refused(Path::new("/nowhere")), Answer::Refused(_)));
        turn(refused(&container.0));
    }
}

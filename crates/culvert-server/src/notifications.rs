//! Changes that the driver learns of, and files that have become ready, told to the kernel.
//!
//! By a thread of its own, which exists where the driver tells of anything: the kernel takes a
//! directory's lock to drop a name, and waits for pages that are being read to drop a file's, so
//! who answers requests must never tell. It sleeps until there is something.

use crate::{
    attributes::Numbers, buffer::io_error, channel::Channel, paths, report::report,
    touched::changed,
};
use culvert::{Change, FileSystem, Node, Observed, Observer};
use culvert_extend::{Extension, Paths};
use culvert_sys::{
    Errno, process,
    raw::general::{POLLIN, pollfd},
};
use culvert_wire::{
    Name, Nodes, Notification, Protocol,
    structures::{
        NotifyDeleteOut, NotifyInvalEntryOut, NotifyInvalInodeOut, NotifyPollWakeupOut,
        NotifyPruneOut,
    },
};
use rustix::event::{EventfdFlags, eventfd};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    os::fd::{AsRawFd, OwnedFd},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The version from which on names can be doubted (`FUSE_EXPIRE_ONLY`, 7.38).
const DOUBT: u32 = 38;
/// The version from which on all names can (`FUSE_NOTIFY_INC_EPOCH`, 7.44).
const EPOCH: u32 = 44;
/// The version from which on nodes can be called unneeded (`FUSE_NOTIFY_PRUNE`, 7.45).
const PRUNE: u32 = 45;
/// How often the kernel is told of a node that it does not know yet, each time after twice as many
/// milliseconds as before.
const TRIES: u32 = 10;
/// Nodes in one message.
const BATCH: usize = 512;

/// Whether a kernel that speaks version `minor` hears of all that a driver tells, which is
/// `observed` so: without a word for "everything" the kernel would go on believing what an
/// overflowing list of changes held.
pub const fn tells(observed: Observed, minor: u32) -> bool {
    !matches!(observed, Observed::Descriptor(_)) || minor >= EPOCH
}

/// What waits to be told.
#[derive(Debug)]
pub struct Notifications {
    waiting: Mutex<Waiting>,
    /// Readable when something has come.
    news: OwnedFd,
}

#[derive(Debug, Default)]
struct Waiting {
    changes: BTreeSet<Change>,
    /// Files that may have become ready, by the kernel's numbers.
    ready: BTreeSet<u64>,
    ended: bool,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.ready.is_empty()
    }
}

impl Notifications {
    /// Nothing waits.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            waiting: Mutex::default(),
            news: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // Full is readable, too.
        let _ = rustix::io::write(&self.news, &1_u64.to_ne_bytes());
    }

    /// The connection has ended.
    pub fn end(&self) {
        self.waiting().ended = true;
        self.wake();
    }

    /// Adds something to what waits. Who tells is woken by the first.
    fn add(&self, what: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting();
        let first = waiting.is_empty();
        what(&mut waiting);
        drop(waiting);
        if first {
            self.wake();
        }
    }

    /// The open file that the kernel calls `number` in POLL may have become ready.
    pub fn ready(&self, number: u64) {
        self.add(|waiting| {
            waiting.ready.insert(number);
        });
    }

    /// Tells the kernel by `notifier` what comes, until [`Notifications::end`].
    ///
    /// # Errors
    /// The driver's descriptor cannot be waited for.
    pub fn run(
        &self,
        filesystem: &dyn FileSystem,
        observed: Observed,
        notifier: &mut Notifier<'_>,
    ) -> io::Result<()> {
        loop {
            // The kernel looks at no descriptor that is negative.
            let driver = match observed {
                Observed::Descriptor(fd) => fd,
                _ => -1,
            };
            let mut asked = [self.news.as_raw_fd(), driver].map(|fd| pollfd {
                fd,
                events: POLLIN as i16,
                revents: 0,
            });
            match process::poll(&mut asked, notifier.pause()) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(io_error(error)),
            }
            let told = asked[1].revents as u32;
            if told & POLLIN != 0 {
                filesystem.look();
            } else if told != 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let _ = rustix::io::read(&self.news, &mut [0; 8]);
            if !self.pass_on(notifier) {
                return Ok(());
            }
        }
    }

    /// Tells by `notifier` what waits; false: the connection has ended.
    fn pass_on(&self, notifier: &mut Notifier<'_>) -> bool {
        let waiting = {
            let mut waiting = self.waiting();
            if waiting.ended {
                return false;
            }
            std::mem::take(&mut *waiting)
        };
        // Who is woken asks again, and must not meet what is no longer so.
        notifier.tell(waiting.changes);
        notifier.wake(waiting.ready);
        true
    }
}

impl Observer for Notifications {
    fn tell(&self, change: Change) {
        self.add(|waiting| {
            waiting.changes.insert(change);
        });
    }

    fn report(&self, line: &str) {
        report(format_args!("{line}"));
    }
}

/// Who tells the kernel.
pub struct Notifier<'a> {
    channel: &'a dyn Channel,
    protocol: Protocol,
    numbers: Numbers,
    /// Nodes that the kernel did not know, which have changed: an answer that brings it the node,
    /// as it was before, may be under way.
    unknown: BTreeMap<Node, Unknown>,
    extension: Option<&'a Extension>,
    paths: Option<&'a Paths>,
}

/// A node that the kernel did not know.
#[derive(Clone, Copy, Debug)]
struct Unknown {
    /// Its content has changed, not its attributes alone.
    content: bool,
    /// How often the kernel was told.
    tries: u32,
    /// When it is told again.
    due: Instant,
}

impl<'a> Notifier<'a> {
    /// By `channel`, in words of `protocol`.
    pub const fn new(channel: &'a dyn Channel, protocol: Protocol, numbers: Numbers) -> Self {
        Self {
            channel,
            protocol,
            numbers,
            unknown: BTreeMap::new(),
            extension: None,
            paths: None,
        }
    }

    /// The extension hears of each change before the kernel does, and so does its table of paths.
    pub const fn with_extension(
        mut self,
        extension: Option<&'a Extension>,
        paths: Option<&'a Paths>,
    ) -> Self {
        self.extension = extension;
        self.paths = paths;
        self
    }

    /// When [`Notifier::tell`] is to be called though nothing has changed; none: never.
    fn due(&self) -> Option<Instant> {
        self.unknown.values().map(|one| one.due).min()
    }

    /// How long that is from now, milliseconds; -1: for ever.
    fn pause(&self) -> i32 {
        self.due().map_or(-1, |due| {
            let pause = due.saturating_duration_since(Instant::now());
            pause
                .as_millis()
                .saturating_add(1)
                .try_into()
                .unwrap_or(i32::MAX)
        })
    }

    /// Tells of `changes`, and once more of what the kernel did not know, where that is due.
    pub fn tell(&mut self, changes: BTreeSet<Change>) {
        self.tell_at(changes, Instant::now());
    }

    fn tell_at(&mut self, changes: BTreeSet<Change>, now: Instant) {
        let unknown = self.unknown.iter().filter(|(_, one)| one.due <= now);
        let due: Vec<(Node, Unknown)> = unknown.map(|(&node, &one)| (node, one)).collect();
        for (node, one) in due {
            self.outdated(node, one.content, one.tries, now);
        }
        let mut unneeded = Vec::new();
        for change in changes {
            if let Some(extension) = self.extension {
                changed(extension, &change, self.numbers);
            }
            if let Some(paths) = self.paths {
                paths::changed(paths, &change, self.numbers);
            }
            match change {
                Change::Everything if self.protocol.minor >= EPOCH => {
                    self.send("epoch", &Notification::IncEpoch {});
                }
                Change::Everything => {}
                Change::Name { dir, name } => self.name(dir, &name, 0),
                Change::Doubtful { dir, name } if self.protocol.minor >= DOUBT => {
                    self.name(dir, &name, NotifyInvalEntryOut::EXPIRE_ONLY);
                }
                Change::Doubtful { dir, name } => self.name(dir, &name, 0),
                Change::Removed { dir, name, node } => self.removed(dir, &name, node),
                Change::Attributes(node) => self.outdated(node, false, 0, now),
                Change::Content(node) => self.outdated(node, true, 0, now),
                Change::Unneeded(node) => unneeded.push(self.numbers.number(node)),
            }
        }
        if self.protocol.minor >= PRUNE {
            for batch in unneeded.chunks(BATCH) {
                self.unneeded(batch);
            }
        }
    }

    /// Wakes who waits for the files `numbers`.
    fn wake(&self, numbers: BTreeSet<u64>) {
        for kh in numbers {
            let wakeup = NotifyPollWakeupOut { kh };
            self.send("file that is ready", &Notification::Poll { wakeup });
        }
    }

    fn name(&self, dir: Node, name: &[u8], flags: u32) {
        if let Some(name) = Name::new(name) {
            let entry = NotifyInvalEntryOut {
                parent: self.numbers.number(dir),
                namelen: 0,
                flags,
            };
            self.send("name", &Notification::InvalEntry { entry, name });
        }
    }

    fn removed(&self, dir: Node, name: &[u8], node: Node) {
        if let Some(name) = Name::new(name) {
            let delete = NotifyDeleteOut {
                parent: self.numbers.number(dir),
                child: self.numbers.number(node),
                namelen: 0,
                padding: 0,
            };
            self.send("removed name", &Notification::Delete { delete, name });
        }
    }

    /// `tries`: how often the kernel was told of this change before.
    fn outdated(&mut self, node: Node, content: bool, tries: u32, now: Instant) {
        let before = self.unknown.remove(&node);
        let content = content || before.is_some_and(|before| before.content);
        let inode = NotifyInvalInodeOut {
            ino: self.numbers.number(node),
            off: if content { 0 } else { -1 },
            len: 0,
        };
        let notification = Notification::InvalInode { inode };
        if !self.send("node", &notification) && tries < TRIES {
            let tries = tries + 1;
            let due = now + Duration::from_millis(1 << tries);
            let unknown = Unknown {
                content,
                tries,
                due,
            };
            self.unknown.insert(node, unknown);
        }
    }

    fn unneeded(&self, numbers: &[u64]) {
        let bytes: Vec<u8> = numbers.iter().flat_map(|one| one.to_ne_bytes()).collect();
        if let Some(nodes) = Nodes::new(&bytes) {
            let prune = NotifyPruneOut::default();
            self.send("unneeded nodes", &Notification::Prune { prune, nodes });
        }
    }

    /// Whether the kernel knew what it was told of.
    fn send(&self, what: &str, notification: &Notification<'_>) -> bool {
        let message = notification
            .encode(&self.protocol)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
        let told = message.and_then(|message| self.channel.notify(&message));
        told.unwrap_or_else(|error| {
            report(format_args!("the kernel was not told of a {what}: {error}"));
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::{InitFlags, Message};
    use std::cell::RefCell;

    /// A kernel that writes down what it is told, and knows the nodes below 100.
    #[derive(Default)]
    struct Kernel(RefCell<Vec<String>>);

    const NEWEST: Protocol = Protocol {
        minor: culvert_wire::NEWEST_MINOR,
        flags: InitFlags::NONE,
    };

    impl Channel for Kernel {
        fn send(&self, _: &Message<'_>) -> io::Result<()> {
            Ok(())
        }
        fn notify(&self, message: &Message<'_>) -> io::Result<bool> {
            let mut bytes = vec![0; message.length()];
            message.copy_to(&mut bytes).expect("room");
            let told = Notification::decode(&bytes, &NEWEST).expect("well-formed");
            self.0.borrow_mut().push(match &told {
                Notification::InvalInode { inode } => format!("inode {} {}", inode.ino, inode.off),
                Notification::InvalEntry { entry, name } => {
                    let name = String::from_utf8_lossy(name.bytes()).into_owned();
                    format!("entry {} {name} {}", entry.parent, entry.flags)
                }
                Notification::Delete { delete, .. } => {
                    format!("delete {} {}", delete.parent, delete.child)
                }
                Notification::Prune { nodes, .. } => format!("prune {}", nodes.count()),
                Notification::IncEpoch {} => "epoch".to_owned(),
                Notification::Poll { wakeup } => format!("poll {}", wakeup.kh),
                other => format!("{other:?}"),
            });
            Ok(!matches!(told, Notification::InvalInode { inode } if inode.ino >= 100))
        }
    }

    fn told(minor: u32, changes: &[Change]) -> Vec<String> {
        let kernel = Kernel::default();
        let protocol = Protocol { minor, ..NEWEST };
        let mut notifier = Notifier::new(&kernel, protocol, Numbers::new(Node(7)));
        notifier.tell(changes.iter().cloned().collect());
        kernel.0.into_inner()
    }

    fn name(name: &str) -> (Node, Vec<u8>) {
        (Node(7), name.into())
    }

    #[test]
    fn each_change_is_one_message() {
        let (dir, name) = name("n");
        let node = Node(9);
        let changes = [
            Change::Everything,
            Change::Name {
                dir,
                name: name.clone(),
            },
            Change::Doubtful {
                dir,
                name: name.clone(),
            },
            Change::Removed { dir, name, node },
            Change::Attributes(node),
            Change::Attributes(node),
            Change::Content(dir),
            Change::Unneeded(node),
            Change::Unneeded(Node(10)),
        ];
        let expected = [
            "epoch",
            "entry 1 n 0",
            "entry 1 n 1",
            "delete 1 9",
            "inode 9 -1",
            "inode 1 0",
            "prune 2",
        ];
        assert_eq!(told(culvert_wire::NEWEST_MINOR, &changes), expected);
        // What an old kernel does not know is left out, or said more strongly.
        let expected = [
            "entry 1 n 0",
            "entry 1 n 0",
            "delete 1 9",
            "inode 9 -1",
            "inode 1 0",
        ];
        assert_eq!(told(31, &changes), expected);
    }

    #[test]
    fn what_is_ready_is_told_once_and_after_what_has_changed() {
        let kernel = Kernel::default();
        let notifications = Notifications::new().expect("descriptors");
        let mut notifier = Notifier::new(&kernel, NEWEST, Numbers::new(Node(7)));
        notifications.ready(3);
        notifications.ready(2);
        notifications.ready(3);
        notifications.tell(Change::Attributes(Node(9)));
        assert!(notifications.pass_on(&mut notifier) && notifications.pass_on(&mut notifier));
        notifications.end();
        assert!(!notifications.pass_on(&mut notifier));
        assert_eq!(*kernel.0.borrow(), ["inode 9 -1", "poll 2", "poll 3"]);
    }

    #[test]
    fn what_the_kernel_does_not_know_yet_is_told_again() {
        let kernel = Kernel::default();
        let mut notifier = Notifier::new(&kernel, NEWEST, Numbers::new(Node(7)));
        let (start, count) = (Instant::now(), |what: &str| {
            kernel.0.borrow().iter().filter(|one| *one == what).count()
        });
        let attributes = |node| Change::Attributes(Node(node));
        notifier.tell_at(BTreeSet::from([attributes(100), attributes(9)]), start);
        // What happens elsewhere meanwhile takes none of its times.
        for _ in 0..100 {
            notifier.tell_at(BTreeSet::from([attributes(9)]), start);
        }
        assert_eq!((count("inode 9 -1"), count("inode 100 -1")), (101, 1));
        let (mut rounds, mut last) = (0, start);
        while let Some(due) = notifier.due() {
            assert!(due - last == Duration::from_millis(2 << rounds), "{rounds}");
            notifier.tell_at(BTreeSet::new(), due);
            (rounds, last) = (rounds + 1, due);
        }
        assert_eq!(rounds, TRIES);
        assert_eq!(count("inode 100 -1"), TRIES as usize + 1);
        assert!(last - start > Duration::from_secs(2));
    }

    #[test]
    fn a_change_more_is_told_at_once_and_as_often() {
        let kernel = Kernel::default();
        let mut notifier = Notifier::new(&kernel, NEWEST, Numbers::new(Node(7)));
        let start = Instant::now();
        notifier.tell_at([Change::Content(Node(100))].into(), start);
        notifier.tell_at([Change::Attributes(Node(100))].into(), start);
        // The first is not forgotten for the second.
        assert_eq!(*kernel.0.borrow(), ["inode 100 0", "inode 100 0"]);
        assert_eq!(notifier.due(), Some(start + Duration::from_millis(2)));
    }
}

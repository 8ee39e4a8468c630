//! Option `watch`: what others change in the source is told to the kernel, which may then believe
//! what it knows for long.
//!
//! Each file and directory that the kernel has looked up is watched (inotify(7)) for as long as it
//! knows it: a directory for its names, each for its own attributes and content. The watch begins
//! before the answer's attributes are read, so nothing falls between. What cannot be watched (there
//! are too many, or the caller may not read it) is believed for a second only
//! ([`FileSystem::is_unobserved`](culvert::FileSystem::is_unobserved)).
//!
//! What is changed through the mount makes events too. Those of names are expected: the kernel has
//! changed its own picture already, and would only lose it. Those of attributes and content are not
//! told from others'.

use super::inotify::{
    self, ATTRIB, CREATE, DELETE, DELETE_SELF, MODIFY, MOVE_SELF, MOVED_FROM, MOVED_TO,
};

use super::object::Object;
use crate::descriptor::OwnedFd;
use alloc::{
    collections::{BTreeMap, BTreeSet},
    format,
    sync::Arc,
    vec::Vec,
};
use culvert::{Change, Errno, FileKind, Node, Observer, Result, Validity, sync::Mutex};

/// How long is believed what is watched: a day. Not for ever, which would mean that nobody else
/// changes it.
pub(super) const WATCHED: Validity = {
    const DAY: u64 = 86_400_000_000_000;
    Validity {
        entry: DAY,
        attributes: DAY,
        absent: DAY,
    }
};

/// What happens to names.
const NAMES: u32 = CREATE | DELETE | MOVED_FROM | MOVED_TO;
/// What happens to a file itself.
const SELF: u32 = ATTRIB | DELETE_SELF | MOVE_SELF;

/// An event that a call of this driver's makes: the directory, the name in it, what happens to it.
pub(super) type Own<'a> = (Node, &'a [u8], u32);

/// The watches of a mount.
#[derive(Default)]
pub(super) struct Watch(Mutex<WatchState>);

#[derive(Default)]
struct WatchState {
    active: Option<Active>,
    /// By node.
    watched: BTreeMap<Node, Watched>,
    /// By number of the watch.
    nodes: BTreeMap<i32, Node>,
    /// Events of this driver's own calls that are to come, and how many of each.
    expected: BTreeMap<(Node, Vec<u8>, u32), u32>,
    /// Nodes that the kernel has forgotten, and something else keeps.
    retired: BTreeSet<Node>,
    /// There were too many, and it was said.
    refused: bool,
}

struct Active {
    list: OwnedFd,
    observer: Arc<dyn Observer>,
}

#[derive(Clone, Copy)]
struct Watched {
    watch: i32,
    /// The name by which it was looked up last is in a watched directory.
    named: bool,
}

impl Watch {
    /// Begins with the root; the descriptor that events come from.
    pub fn start(&self, observer: Arc<dyn Observer>, root: (Node, &Object)) -> Result<i32> {
        let list = inotify::open()?;
        let fd = list.raw();
        let mut state = self.0.lock();
        state.active = Some(Active { list, observer });
        state.add(root.0, root.0, root.1);
        Ok(fd)
    }

    /// Whether changes are told.
    pub fn is_active(&self) -> bool {
        self.0.lock().active.is_some()
    }

    /// Whether a change of `node`, or of a name in it, might stay unseen.
    pub fn misses(&self, node: Node) -> bool {
        let state = self.0.lock();
        state.active.is_some()
            && !state
                .watched
                .get(&node)
                .is_some_and(|watched| watched.named)
    }

    /// Watches `node`, which has a name in `dir`; whether it was not watched before. `known`:
    /// answers about it may be under way.
    pub(super) fn add(&self, dir: Node, node: Node, object: &Object, known: bool) -> bool {
        let mut state = self.0.lock();
        let new = state.add(dir, node, object);
        if new && known {
            state.tell(Change::Attributes(node));
        }
        new
    }

    /// Node `node` has another name, in `dir`.
    pub fn linked(&self, node: Node, dir: Node) {
        let mut state = self.0.lock();
        if !state.watched.contains_key(&dir)
            && let Some(watched) = state.watched.get_mut(&node)
        {
            watched.named = false;
        }
    }

    /// The kernel forgets `node`; `references` tells of a node what it still has of it, none: that
    /// nobody keeps it.
    pub fn forgotten(&self, node: Node, references: impl Fn(Node) -> Option<u64>) {
        let mut state = self.0.lock();
        state.retired.insert(node);
        // Looked up under the lock: who finds it again watches it after this, or has found it
        // before.
        let (mut gone, mut kept) = (Vec::new(), Vec::new());
        for &node in &state.retired {
            match references(node) {
                None => gone.push(node),
                Some(0) => {}
                Some(_) => kept.push(node),
            }
        }
        for node in gone {
            state.retired.remove(&node);
            state.remove(node);
        }
        for node in kept {
            state.retired.remove(&node);
        }
    }

    /// Does `call`, which makes the events `own`.
    pub fn own<T>(&self, own: &[Own<'_>], call: impl FnOnce() -> Result<T>) -> Result<T> {
        let expected: Vec<_> = {
            let mut state = self.0.lock();
            let seen = own
                .iter()
                .filter(|(dir, ..)| state.watched.contains_key(dir));
            let expected: Vec<_> = seen
                .map(|&(dir, name, kind)| (dir, name.to_vec(), kind))
                .collect();
            for one in &expected {
                *state.expected.entry(one.clone()).or_default() += 1;
            }
            expected
        };
        call().inspect_err(|_| {
            let mut state = self.0.lock();
            for one in expected {
                // Another's event was taken for it: why it failed, perhaps.
                if !state.take_expected(&one) {
                    state.tell_of_name(one.0, one.1);
                }
            }
        })
    }

    /// Tells of what has happened since.
    pub fn look(&self) {
        let Some(list) = self
            .0
            .lock()
            .active
            .as_ref()
            .map(|active| active.list.raw())
        else {
            return;
        };
        let mut buffer = alloc::vec![0; 16 << 10];
        while let Ok(length @ 1..) = inotify::read(list, &mut buffer) {
            let mut state = self.0.lock();
            for event in inotify::events(buffer.get(..length).unwrap_or_default()) {
                state.happened(&event);
            }
        }
    }

    /// Everything may have changed, `nodes` among it.
    pub fn tell_all(&self, nodes: impl Iterator<Item = Node>) {
        let state = self.0.lock();
        nodes.for_each(|node| state.tell(Change::Content(node)));
        state.tell(Change::Everything);
    }
}

impl WatchState {
    fn tell(&self, change: Change) {
        if let Some(active) = &self.active {
            active.observer.tell(change);
        }
    }

    fn tell_of_name(&self, dir: Node, name: Vec<u8>) {
        self.tell(Change::Name { dir, name });
        self.tell(Change::Content(dir));
    }

    fn add(&mut self, dir: Node, node: Node, object: &Object) -> bool {
        let Some(active) = &self.active else {
            return false;
        };
        let named = dir == node || self.watched.contains_key(&dir);
        if let Some(watched) = self.watched.get_mut(&node) {
            watched.named = named;
            return false;
        }
        let mask = match object.kind {
            FileKind::Directory => NAMES | SELF,
            _ => MODIFY | SELF,
        };
        match inotify::add(&active.list, object.fd(), mask) {
            Ok(watch) => {
                self.watched.insert(node, Watched { watch, named });
                self.nodes.insert(watch, node);
                true
            }
            Err(error) => {
                if error.errno() == Errno::ENOSPC && !self.refused {
                    self.refused = true;
                    active.observer.report(&format!(
                        "watch: no more than {} files and directories can be watched \
                        (fs.inotify.max_user_watches): changes of the rest by others are seen \
                        after a second",
                        self.watched.len()
                    ));
                }
                false
            }
        }
    }

    fn remove(&mut self, node: Node) {
        if let (Some(watched), Some(active)) = (self.watched.remove(&node), &self.active) {
            self.nodes.remove(&watched.watch);
            inotify::remove(&active.list, watched.watch);
            self.expected.retain(|(dir, ..), _| *dir != node);
        }
    }

    /// Whether `one` was expected; once less from here on.
    fn take_expected(&mut self, one: &(Node, Vec<u8>, u32)) -> bool {
        let Some(count) = self.expected.get_mut(one) else {
            return false;
        };
        *count -= 1;
        if *count == 0 {
            self.expected.remove(one);
        }
        true
    }

    fn happened(&mut self, event: &inotify::Event<'_>) {
        if event.mask & (inotify::OVERFLOW | inotify::UNMOUNT) != 0 {
            self.expected.clear();
            for &node in self.watched.keys() {
                self.tell(Change::Content(node));
            }
            self.tell(Change::Everything);
            return;
        }
        if event.mask & inotify::IGNORED != 0 {
            if let Some(node) = self.nodes.remove(&event.watch) {
                self.watched.remove(&node);
                self.tell(Change::Content(node));
            }
            return;
        }
        // Of a watch that has ended.
        let Some(&node) = self.nodes.get(&event.watch) else {
            return;
        };
        if !event.name.is_empty() {
            let kind = event.mask & NAMES;
            let one = (node, event.name.to_vec(), kind);
            // Attributes of what has a name are told by its own watch.
            if kind != 0 && !self.take_expected(&one) {
                self.tell_of_name(node, one.1);
            }
            return;
        }
        self.tell(match event.mask & MODIFY {
            0 => Change::Attributes(node),
            _ => Change::Content(node),
        });
    }
}

//! The ready parts: what their tables are filled with, and when they must not be.

use crate::{
    bpf,
    loaded::Loaded,
    loader,
    log::Log,
    module::{Attached, Counts},
    object::Object,
    parts::{OBJECT, Parts},
    tables::{EVER, Tables, VALUE, words},
};
use culvert_sys::PAGE;
use culvert_wire::structures::{Attr, AttrOut, EntryOut};
use std::{
    collections::HashMap,
    os::fd::BorrowedFd,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

/// Its maps: four tables, then the ring.
const TABLES: usize = 4;
/// Nodes and directories share counters of changes.
const STRIPES: usize = 64;

/// The xattrs whose absence is kept, in the order of the program's.
const XATTRS: [&[u8]; 4] = [
    b"security.capability",
    b"security.selinux",
    b"system.posix_acl_access",
    b"system.posix_acl_default",
];

/// What a request changes, or may change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Touched<'n> {
    /// Nodes whose attributes change; 0: none.
    pub nodes: [u64; 3],
    /// Names that come or go, in a directory each.
    pub names: [Option<(u64, &'n [u8])>; 2],
    /// The nodes behind the names change too.
    pub behind: bool,
    /// So do the extended attributes of the nodes.
    pub xattrs: bool,
    /// A node that is open from here on: nobody hears what the kernel does to its data by itself.
    pub opened: u64,
    /// A node that is open once less.
    pub closed: u64,
}

/// How far changes had come before something was read of the file system.
#[derive(Clone, Debug)]
pub struct Before([u64; STRIPES]);

/// Changes under way in the lower half, beginnings and ends so far in the upper one.
const CHANGE: u64 = 1 << 32;

impl Before {
    /// The same after a change that was begun and ended since, by whoever asks: a listing changes
    /// when its directory was read, and none of its names.
    #[must_use]
    pub fn and(mut self, own: &Touched<'_>) -> Self {
        each_stripe(own, |stripe| {
            self.0[stripe] = self.0[stripe].wrapping_add(2 * CHANGE);
        });
        self
    }
}

/// The extension of a mount.
#[derive(Debug)]
pub struct Extension {
    tables: Tables,
    metadata: bool,
    xattr: bool,
    log: Option<Log>,
    /// Of nodes and directories, by their numbers.
    stripes: [AtomicU64; STRIPES],
    books: Mutex<Books>,
    attached: Option<Attached>,
}

#[derive(Debug, Default)]
struct Books {
    /// How often the program has given a node to the kernel that has not been forgotten since.
    given: HashMap<u64, u64>,
    /// Nodes that the kernel has forgotten and the driver must not: they are in the table, or names
    /// in them are.
    held: HashMap<u64, ()>,
    /// Directories whose names may be believed, and until when.
    dirs: HashMap<u64, u64>,
    open: HashMap<u64, u64>,
    /// What the driver is to forget.
    over: Vec<u64>,
    /// When `held` was last looked through for what is stale.
    looked_through: u64,
}

impl Books {
    /// Whether names in `node` are believed. Of many directories no more is held than of files.
    fn has_names(&self, node: u64, now: u64) -> bool {
        self.dirs.len() <= DIRECTORIES && self.dirs.get(&node).is_some_and(|until| *until > now)
    }
}

/// How many directories may be held for their names alone.
const DIRECTORIES: usize = 4096;
/// How long a node may be held after its attributes went stale, nanoseconds.
const LOOK_THROUGH: u64 = 10_000_000_000;

pub(crate) fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The moment until which an answer holds; none: not at all.
pub(crate) fn until(seconds: u64, nanoseconds: u32) -> Option<u64> {
    let length = seconds.checked_mul(1_000_000_000);
    let length = length.and_then(|length| length.checked_add(u64::from(nanoseconds)));
    match length {
        Some(0) => None,
        Some(length) => Some(length.checked_add(now()).unwrap_or(EVER)),
        None => Some(EVER),
    }
}

const fn stripe(node: u64) -> usize {
    (node ^ node >> 6 ^ node >> 20) as usize % STRIPES
}

/// Calls `change` for the stripe of each node that changes: of one that two of them share twice.
fn each_stripe(what: &Touched<'_>, mut change: impl FnMut(usize)) {
    let dirs = what.names.iter().flatten().map(|(dir, _)| *dir);
    for node in what.nodes.into_iter().chain(dirs).filter(|node| *node != 0) {
        change(stripe(node));
    }
    if what.behind {
        (0..STRIPES).for_each(change);
    }
}

/// Whether the value of an extended attribute may be kept. What the file system behind changes by
/// itself, when a file is written or closed, may not, nor what a driver computes, nor what not
/// everybody is shown.
fn is_kept(name: &[u8], value: Option<&[u8]>) -> bool {
    let by_itself = name.starts_with(b"security.") && !XATTRS.contains(&name);
    let computed = name.starts_with(b"user.mergerfs.");
    let hidden = name.starts_with(b"trusted.");
    let Some(value) = value else {
        return !by_itself && !computed && !hidden;
    };
    // A list, whose names end in a byte 0 each.
    let mut names = value.split(|byte| *byte == 0);
    let lists_hidden = name.is_empty() && names.any(|name| name.starts_with(b"trusted."));
    let own = name == b"security.selinux" || !name.starts_with(b"security.");
    own && !computed && !hidden && !lists_hidden && value.len() <= VALUE
}

/// Whether this process's clock is the machine's, which the program reads (time_namespaces(7)).
fn has_the_clock() -> bool {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let monotonic = offsets.lines().find(|line| line.starts_with("monotonic"));
    monotonic.is_none_or(|line| line.split_whitespace().skip(1).all(|number| number == "0"))
}

impl Extension {
    /// Loads `parts` for the connection that `fuse` is one of.
    ///
    /// # Errors
    /// With what keeps it from that: there is no module, the kernel refuses the program.
    pub fn new(fuse: BorrowedFd<'_>, parts: &Parts) -> Result<Self, String> {
        if !has_the_clock() {
            return Err("the clock of this time namespace is not the kernel's".into());
        }
        let object = Object::read(OBJECT).ok_or("the object is none")?;
        let counts = parts.counts();
        let [names, nodes, xattrs] = counts;
        let entries = [1, names, nodes, xattrs, parts.ring()];
        let sizes = entries.map(|count| count as u32);
        let Loaded { attached, mut maps } = loader::load(OBJECT, &sizes, fuse)?;
        let mut mappings = Vec::new();
        for (n, (name, kind)) in object.maps.iter().enumerate() {
            let (map, count) = maps
                .get(n)
                .zip(entries.get(n))
                .ok_or("a table is missing")?;
            if let Some(size) = Tables::SIZES.get(n) {
                if kind.value_size as usize != *size {
                    let size = kind.value_size;
                    return Err(format!("table {name} has records of {size} bytes"));
                }
                let length = (count * size).next_multiple_of(PAGE);
                let mapped = bpf::mapped(map, length);
                mappings.push(mapped.map_err(|error| format!("table {name}: {error}"))?);
            }
        }
        let mappings = <[_; TABLES]>::try_from(mappings).map_err(|_| "a table is missing")?;
        let mut made = Self::of(Tables::new(mappings, counts), parts);
        if let Some(file) = &parts.log {
            let ring = maps.pop().filter(|_| maps.len() == TABLES);
            made.log = Some(Log::new(
                ring.ok_or("a table is missing")?,
                parts.ring(),
                file,
            )?);
            made.tables.log_users(&parts.users);
        }
        made.tables.begin(parts.bits());
        made.attached = Some(attached);
        Ok(made)
    }

    fn of(tables: Tables, parts: &Parts) -> Self {
        Self {
            tables,
            metadata: parts.metadata,
            xattr: parts.xattr,
            log: None,
            stripes: [const { AtomicU64::new(0) }; STRIPES],
            books: Mutex::default(),
            attached: None,
        }
    }

    /// Writes what the program logs, until [`Extension::end_log`]; at once where there is no log.
    pub fn write_log(&self) {
        if let Some(log) = &self.log {
            log.write(|| self.tables.dropped());
        }
    }

    /// What was logged is written, and [`Extension::write_log`] returns.
    pub fn end_log(&self) {
        if let Some(log) = &self.log {
            log.end();
        }
    }

    /// Bytes of memory that the kernel has for its tables.
    pub fn memory(&self) -> u64 {
        self.attached.as_ref().map_or(0, Attached::memory)
    }

    /// How often the program was asked, and answered.
    pub fn counts(&self) -> Counts {
        let counts = self.attached.as_ref().map(Attached::counts);
        counts.and_then(Result::ok).unwrap_or_default()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What [`Extension::entry`] and the like want to know: taken before the driver is asked.
    pub fn before(&self) -> Before {
        Before(std::array::from_fn(|n| self.stripes[n].load(SeqCst)))
    }

    /// Whether nothing of `node` has changed since.
    fn is_same(&self, node: u64, before: &Before) -> bool {
        let (then, now) = (
            before.0[stripe(node)],
            self.stripes[stripe(node)].load(SeqCst),
        );
        then == now && then & (CHANGE - 1) == 0
    }

    /// Before a change is made. Each is ended by [`Extension::end`]. Which nodes the names led to,
    /// as far as that is known; 0: none.
    pub fn begin(&self, what: &Touched<'_>) -> [Option<u64>; 2] {
        each_stripe(what, |stripe| {
            self.stripes[stripe].fetch_add(CHANGE + 1, SeqCst);
        });
        let mut books = self.books();
        if what.opened != 0 {
            *books.open.entry(what.opened).or_default() += 1;
        }
        self.invalidate(&mut books, what)
    }

    /// After it, before it is answered.
    pub fn end(&self, what: &Touched<'_>) {
        if what.closed != 0 {
            self.close(what.closed);
        }
        each_stripe(what, |stripe| {
            self.stripes[stripe].fetch_add(CHANGE - 1, SeqCst);
        });
    }

    /// A rename that has ended was made, without an exchange: which nodes the names lead to from
    /// here on, as far as that is known. The kernel was told nothing of that, so nobody believes
    /// it; who removes a name knows whose attributes change.
    pub fn renamed(&self, what: &Touched<'_>, led: [Option<u64>; 2], before: &Before) {
        let [Some((from, name)), Some((to, new_name))] = what.names else {
            return;
        };
        let leads = [
            (from, name, Some(0)),
            (to, new_name, led[0].filter(|node| *node != 0)),
        ];
        let mut books = self.books();
        for (dir, name, node) in leads {
            if let (Some(words), Some(node)) = (words(name), node)
                && self.is_same(dir, before)
            {
                self.put_name(&mut books, (dir, &words), node, None);
            }
        }
    }

    fn put_name(
        &self,
        books: &mut Books,
        (dir, words): (u64, &[u64; 8]),
        node: u64,
        until: Option<u64>,
    ) {
        if let Some(until) = until {
            let latest = books.dirs.entry(dir).or_default();
            *latest = until.max(*latest);
        }
        if until.is_some() || self.tables.has_room(dir, words, now()) {
            self.tables.put_name(dir, words, node, until.unwrap_or(0));
        }
    }

    /// Nothing that is kept of `name` holds.
    pub fn unknown(&self, dir: u64, name: &[u8]) {
        let _books = self.books();
        if let Some(words) = words(name) {
            self.tables.drop_name(dir, &words);
        }
    }

    /// Nothing that is kept of `node` holds, nor that names lead to it, nor names in it.
    pub fn stale(&self, node: u64) {
        let mut books = self.books();
        self.let_go(&mut books, node);
        self.empty(&mut books, node, Some(node));
        self.give_back(&mut books, node);
    }

    fn let_go(&self, books: &mut Books, node: u64) {
        books.dirs.remove(&node);
        self.tables.let_go(node);
    }

    /// What happened by itself.
    pub fn changed(&self, what: &Touched<'_>) {
        let _ = self.begin(what);
        self.end(what);
    }

    /// Everything may have changed.
    pub fn everything(&self) {
        for stripe in &self.stripes {
            stripe.fetch_add(CHANGE, SeqCst);
        }
        let mut books = self.books();
        self.tables.drop_names();
        self.tables.drop_xattrs();
        self.outdate_all(&mut books);
    }

    /// A file that was just made is open.
    pub fn open(&self, node: u64) {
        self.changed(&Touched {
            nodes: [node, 0, 0],
            opened: node,
            ..Touched::default()
        });
    }

    /// A file is open once less.
    pub fn close(&self, node: u64) {
        let mut books = self.books();
        if let Some(count) = books.open.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                books.open.remove(&node);
            }
        }
    }

    fn invalidate(&self, books: &mut Books, what: &Touched<'_>) -> [Option<u64>; 2] {
        let mut led = [None; 2];
        for node in what.nodes.into_iter().filter(|node| *node != 0) {
            self.empty(books, node, Some(node));
            if what.xattrs {
                self.tables.xattrs_changed(node);
            }
        }
        let names = what.names.into_iter().zip(&mut led);
        for ((dir, name), led) in names.filter_map(|(name, led)| Some((name?, led))) {
            let Some(words) = words(name) else {
                // A name that is not kept: whose attributes change is not known.
                if what.behind {
                    self.outdate_all(books);
                }
                continue;
            };
            *led = self.tables.named(dir, &words);
            match *led {
                Some(node) if what.behind && node != 0 => {
                    // A directory that is removed is not held for its names.
                    books.dirs.remove(&node);
                    self.empty(books, node, Some(node));
                    self.give_back(books, node);
                }
                None if what.behind => self.outdate_all(books),
                _ => {}
            }
            self.tables.drop_name(dir, &words);
        }
        led
    }

    /// The attributes of all nodes are stale. Those that only the tables have kept are over.
    fn outdate_all(&self, books: &mut Books) {
        self.tables.new_epoch();
        books.dirs.clear();
        let held: Vec<_> = books.held.keys().copied().collect();
        for node in held {
            self.empty(books, node, Some(node));
            self.give_back(books, node);
        }
    }

    /// Empties the place of `node`, if it is of `only`, or of whoever.
    fn empty(&self, books: &mut Books, node: u64, only: Option<u64>) {
        if only.is_some() && !self.tables.has_node(node) {
            return;
        }
        let Some((whose, count)) = self.tables.take_node(node) else {
            return;
        };
        if count > 0 {
            *books.given.entry(whose).or_default() += count;
        }
        // A record that is replaced by a newer one of the same node holds on.
        let stays = only.is_none() && whose == node;
        if !stays && !books.has_names(whose, now()) {
            self.give_back(books, whose);
        }
    }

    /// `whose` is not held any more.
    fn give_back(&self, books: &mut Books, whose: u64) {
        if books.held.remove(&whose).is_some() {
            // The kernel's last references may be those that the driver does not know of: then
            // the one that was held back is one of them.
            match books.given.get_mut(&whose) {
                Some(given) if *given > 1 => *given -= 1,
                Some(_) => drop(books.given.remove(&whose)),
                None => {
                    self.let_go(books, whose);
                    books.over.push(whose);
                }
            }
        }
    }

    /// LOOKUP of `name` in `dir` was answered with `entry`. What cannot be kept takes what was kept
    /// along: the kernel has newer by now.
    pub fn entry(&self, dir: u64, name: &[u8], entry: &EntryOut, before: &Before) {
        if !self.metadata {
            return;
        }
        let mut books = self.books();
        if entry.nodeid != 0 {
            let until = until(entry.attr_valid, entry.attr_valid_nsec);
            self.attributes_of(&mut books, entry.nodeid, &entry.attr, until, before);
        }
        let Some(words) = words(name) else { return };
        if self.is_same(dir, before) {
            let until = until(entry.entry_valid, entry.entry_valid_nsec);
            self.put_name(&mut books, (dir, &words), entry.nodeid, until);
        } else if self.tables.named(dir, &words) != Some(entry.nodeid) {
            self.tables.drop_name(dir, &words);
        }
    }

    /// GETATTR of `node` was answered with `found`.
    pub fn attributes(&self, node: u64, found: &AttrOut, before: &Before) {
        if !self.metadata {
            return;
        }
        let until = until(found.attr_valid, found.attr_valid_nsec);
        self.attributes_of(&mut self.books(), node, &found.attr, until, before);
    }

    /// Whether attributes of `node` would be kept, and are not.
    pub fn lacks(&self, node: u64) -> bool {
        let open = self.books().open.contains_key(&node);
        self.metadata && !open && !self.tables.is_fresh(node, now())
    }

    /// Whether extended attributes are kept.
    pub const fn keeps_xattrs(&self) -> bool {
        self.xattr
    }

    fn attributes_of(
        &self,
        books: &mut Books,
        node: u64,
        attr: &Attr,
        until: Option<u64>,
        before: &Before,
    ) {
        // One without a name does not come again.
        let keeps = attr.nlink > 0 && self.is_same(node, before) && !books.open.contains_key(&node);
        let Some(until) = until.filter(|_| keeps) else {
            return self.empty(books, node, Some(node));
        };
        self.empty(books, node, None);
        self.tables.put_node(node, until, attr);
    }

    /// GETXATTR of `name` was answered with `value`, or ENODATA, or LISTXATTR, whose name is empty,
    /// with the list; it may be believed for so many nanoseconds.
    pub fn xattr(&self, node: u64, name: &[u8], value: Option<&[u8]>, valid: u64, before: &Before) {
        let _books = self.books();
        if !self.is_same(node, before) {
            return;
        }
        if let (None, Some(which)) = (value, XATTRS.iter().position(|known| *known == name)) {
            self.tables.put_absent(node, which as u32);
        }
        let keeps = self.xattr && valid > 0 && is_kept(name, value);
        if let Some(words) = words(name).filter(|_| keeps) {
            let until = now().saturating_add(valid);
            self.tables.put_xattr(node, &words, value, until);
        }
    }

    /// The kernel has forgotten `count` references of `node`; how many of them the driver knows of,
    /// and is to forget.
    pub fn forgotten(&self, node: u64, count: u64) -> u64 {
        let mut books = self.books();
        let given = books.given.remove(&node).unwrap_or(0) + self.tables.take_count(node);
        if given > count {
            books.given.insert(node, given - count);
        }
        let known = count.saturating_sub(given);
        if known == 0 || books.held.contains_key(&node) {
            return known;
        }
        let now = now();
        if self.tables.is_fresh(node, now) || books.has_names(node, now) {
            books.held.insert(node, ());
            return known - 1;
        }
        // The program may have found it fresh a moment ago: then the kernel's new references are of
        // those that the driver does not know of, but for one, which it is not to forget.
        let mut more = 0;
        if self.tables.has_node(node) {
            more = self.tables.take_node(node).map_or(0, |(_, count)| count);
        }
        if more > 1 {
            books.given.insert(node, more - 1);
        }
        if more > 0 {
            return known - 1;
        }
        self.let_go(&mut books, node);
        known
    }

    /// Nodes that the driver is to forget once each, because they are not in the table any more.
    pub fn over(&self) -> Vec<u64> {
        self.over_at(now())
    }

    fn over_at(&self, now: u64) -> Vec<u64> {
        let mut books = self.books();
        if now.saturating_sub(books.looked_through) >= LOOK_THROUGH {
            books.looked_through = now;
            let held = books.held.keys().copied();
            let needed = |node| self.tables.is_fresh(node, now) || books.has_names(node, now);
            let stale: Vec<_> = held.filter(|node| !needed(*node)).collect();
            for node in stale {
                self.empty(&mut books, node, Some(node));
                self.give_back(&mut books, node);
            }
            books.dirs.retain(|_, until| *until > now);
        }
        std::mem::take(&mut books.over)
    }
}

#[cfg(test)]
mod tests;

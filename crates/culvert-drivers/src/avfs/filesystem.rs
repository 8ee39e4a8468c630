//! The file system under the layer.

use super::handlers::Handler;
use super::names::{split, through, unescaped};
use super::opened;
use super::table::{Key, STATUS, Table, decode, encode};
use super::within::{Rules, Within, Writers};
use crate::Keeper;
use alloc::{boxed::Box, collections::BTreeMap, format, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culvert::{
    Access, Attributes, Call, Caller, DirectoryPlusSink, DirectorySink, Entry, Errno, Error,
    FileKind, FileSystem, Layer, Node, OpenFlags, Opened, OpenedDirectory, Operation, Reached,
    Result, StatFs, Timespec, Touches, Validity, Walked, sync::Mutex,
};

/// How deep files in files in files are looked into.
const DEPTH: u32 = 32;
/// Files whose insides are kept open at a time.
const OPEN: usize = 32;

/// A file that is looked into.
struct Inside {
    /// Its directory.
    directory: Node,
    /// Its name, and how it is looked into.
    name: Vec<u8>,
    depth: u32,
    /// Owner and permissions of the file, as they were when it was looked up last: who may not
    /// read it may not look into it.
    rights: Mutex<FileRights>,
    writers: Writers,
    mtime: Timespec,
    what: What,
    used: AtomicU64,
}

/// Owner and group, and the permissions.
type FileRights = ((u32, u32), u32);

enum What {
    Within(Within),
    /// Such a link to a file.
    Link(Vec<u8>),
}

/// Where a node is.
enum Place {
    Below,
    In(u32, Arc<Inside>, Node),
}

/// A file system whose files are looked into.
pub struct AvfsFs {
    below: Box<dyn FileSystem>,
    keeper: Keeper,
    rules: Rules,
    table: Table,
    open: Mutex<BTreeMap<u32, Arc<Inside>>>,
    clock: AtomicU64,
}

impl Inside {
    fn within(&self) -> Result<&Within> {
        match &self.what {
            What::Within(within) => Ok(within),
            What::Link(_) => Err(Errno::ENOTDIR.into()),
        }
    }

    /// Attributes of what is in it, for outside.
    fn shown(&self, number: u32, mut found: Attributes) -> Attributes {
        let is_root = match &self.what {
            What::Within(Within::Tree(archive)) => found.node == archive.root(),
            What::Within(Within::File(_, file)) => found.node == *file,
            What::Link(_) => false,
        };
        if is_root {
            let (owner, permissions) = *self.rights.lock();
            (found.uid, found.gid) = owner;
            found.permissions = match found.kind {
                // Who may read it may search in it.
                FileKind::Directory => permissions & 0o777 | (permissions & 0o444) >> 2,
                _ => permissions & 0o666,
            };
            (found.mtime, found.ctime, found.atime) = (self.mtime, self.mtime, self.mtime);
        }
        found.node = encode(number, found.node);
        found.inode = found.node.0;
        found
    }

    /// Its own attributes, and the node.
    fn attributes(&self, number: u32, inner: Node) -> Result<Attributes> {
        match &self.what {
            What::Within(within) => {
                let found = within.archive().attributes(&Caller::SYSTEM, inner)?;
                Ok(self.shown(number, found))
            }
            What::Link(target) => {
                let mut link = Attributes::new(FileKind::Symlink, 0o777);
                link.node = encode(number, inner);
                link.inode = link.node.0;
                link.size = target.len() as u64;
                (link.uid, link.gid) = self.rights.lock().0;
                (link.mtime, link.ctime, link.atime) = (self.mtime, self.mtime, self.mtime);
                Ok(link)
            }
        }
    }

    /// The node that stands for all of it.
    fn top(&self) -> Node {
        match &self.what {
            What::Within(Within::Tree(archive)) => archive.root(),
            What::Within(Within::File(_, file)) => *file,
            What::Link(_) => Node(1),
        }
    }
}

impl AvfsFs {
    /// `below`, whose files are looked into by `rules`.
    pub fn new(below: Box<dyn FileSystem>, rules: Rules, table: Table, keeper: Keeper) -> Self {
        Self {
            below,
            keeper,
            rules,
            table,
            open: Mutex::default(),
            clock: AtomicU64::new(0),
        }
    }

    /// Where `node` is. `ESTALE` where the file that it was in is not what it was.
    fn place(&self, node: Node) -> Result<Place> {
        let Some((number, inner)) = decode(node) else {
            return Ok(Place::Below);
        };
        if let Some(inside) = self.opened_as(number) {
            return Ok(Place::In(number, inside, inner));
        }
        if number == STATUS {
            let inside = Arc::new(self.status()?);
            self.keep(number, inside.clone());
            return Ok(Place::In(number, inside, inner));
        }
        let Some(key) = self.table.key(number) else {
            // A driver below may have such numbers, too.
            return Ok(Place::Below);
        };
        match self.find_again(number, &key)? {
            Some(inside) => Ok(Place::In(number, inside, inner)),
            None => Err(Error::because(
                Errno::ESTALE,
                "the file that was looked into is not there any more, or another",
            )),
        }
    }

    fn opened_as(&self, number: u32) -> Option<Arc<Inside>> {
        let inside = self.open.lock().get(&number).cloned()?;
        inside.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        Some(inside)
    }

    /// Keeps what was looked into, and closes what was not used longest.
    fn keep(&self, number: u32, inside: Arc<Inside>) {
        inside.used.store(self.clock.fetch_add(1, Relaxed), Relaxed);
        let mut closed = Vec::new();
        {
            let mut open = self.open.lock();
            closed.extend(open.insert(number, inside));
            while open.len() > OPEN {
                let oldest = open.iter().min_by_key(|(_, one)| one.used.load(Relaxed));
                let Some(&oldest) = oldest.map(|(number, _)| number) else {
                    break;
                };
                closed.extend(open.remove(&oldest));
            }
        }
        for inside in closed {
            self.let_go(&inside);
        }
    }

    fn let_go(&self, inside: &Inside) {
        if decode(inside.directory).is_none() {
            self.below.release(inside.directory);
        }
    }

    /// Looks for what `number` stands for by its path.
    fn find_again(&self, number: u32, key: &Key) -> Result<Option<Arc<Inside>>> {
        let caller = &Caller::SYSTEM;
        let (mut at, mut given) = (self.root(), Vec::new());
        let mut outcome = Ok(());
        for name in key.path.split(|&byte| byte == b'/') {
            match Layer::lookup(self, caller, at, name) {
                Ok(entry) => {
                    at = entry.attributes.node;
                    given.push(at);
                }
                Err(error) if matches!(error.errno(), Errno::ENOENT | Errno::ENOTDIR) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        for node in given {
            self.forget(node, 1);
        }
        outcome.map(|()| self.opened_as(number))
    }

    fn status(&self) -> Result<Inside> {
        Ok(Inside {
            directory: self.root(),
            name: b"#avfsstat".to_vec(),
            depth: 1,
            rights: Mutex::new(((0, 0), 0o444)),
            writers: Writers::UNKNOWN,
            mtime: crate::archive::host::now(),
            what: What::Within(Within::status()?),
            used: AtomicU64::new(0),
        })
    }

    /// `name` in `dir` as it is there.
    fn plain(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        match self.place(dir)? {
            Place::Below => self.below.lookup(caller, dir, name),
            Place::In(number, inside, inner) => {
                self.judge(caller, Access::EXECUTE, (number, &inside, inner))?;
                let found = inside.within()?.archive().lookup(caller, inner, name)?;
                Ok(Entry {
                    attributes: inside.shown(number, found.attributes),
                })
            }
        }
    }

    /// `name` in `dir`, which is not there, as a way into a file.
    fn virtually(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let missing = || Error::from(Errno::ENOENT);
        let Some((base, asked)) = split(name) else {
            return match unescaped(name) {
                plain if *plain != *name => Layer::lookup(self, caller, dir, &plain),
                _ => Err(missing()),
            };
        };
        if asked.handler == Handler::Status {
            if !base.is_empty() || dir != self.root() {
                return Err(missing());
            }
            let node = encode(STATUS, Node(1));
            let attributes = Layer::attributes(self, caller, node)?;
            return Ok(Entry { attributes });
        }
        if base.is_empty() {
            return Err(missing());
        }
        let found = Layer::lookup(self, caller, dir, base)?.attributes;
        let made = self.look_into(caller, (dir, name), (&found, base), asked);
        self.forget(found.node, 1);
        made
    }

    /// Looks into `found`, called `base` in `dir`, as `name` says.
    fn look_into(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        (found, base): (&Attributes, &[u8]),
        asked: super::names::Asked,
    ) -> Result<Entry> {
        match found.kind {
            FileKind::Regular => Layer::access(self, caller, found.node, Access::READ)?,
            FileKind::Symlink => {}
            _ => return Err(Errno::ENOENT.into()),
        }
        if asked.writes {
            return Err(Error::because(Errno::EROFS, "archives are read-only"));
        }
        let path = match self.path(dir)? {
            path if path.is_empty() => name.to_vec(),
            path => [&path[..], b"/", name].concat(),
        };
        let key = Key {
            identity: (found.inode, found.size, found.mtime),
            path,
        };
        let known = self.table.known(&key);
        let known = known.and_then(|number| Some((number, self.opened_as(number)?)));
        let (number, inside) = match known {
            Some((number, inside)) => {
                *inside.rights.lock() = rights_of(found);
                (number, inside)
            }
            None => {
                // What cannot be looked into gets no number.
                let inside = self.enter(caller, (dir, name), (found, base), asked)?;
                let (number, inside) = (self.table.number(&key)?, Arc::new(inside));
                self.keep(number, inside.clone());
                (number, inside)
            }
        };
        let attributes = inside.attributes(number, inside.top())?;
        Ok(Entry { attributes })
    }

    fn enter(
        &self,
        caller: &Caller<'_>,
        (dir, name): (Node, &[u8]),
        (found, base): (&Attributes, &[u8]),
        asked: super::names::Asked,
    ) -> Result<Inside> {
        let outer = match self.place(dir)? {
            Place::Below => 0,
            Place::In(_, inside, _) => inside.depth,
        };
        // What is looked into by two handlers is one deep for each.
        let (through_file, writers) = match self.place(found.node)? {
            // What an archive says of owners is for who wrote the archive to say.
            Place::Below if self.below.capabilities().immutable => (0, Writers::UNKNOWN),
            Place::Below => (0, Writers::of((found.uid, found.gid), found.permissions)),
            Place::In(_, inside, _) => (inside.depth, inside.writers),
        };
        let depth = outer.max(through_file) + 1;
        if depth > DEPTH {
            return Err(Error::because(
                Errno::ELOOP,
                format!("more than {DEPTH} files in each other are not looked into"),
            ));
        }
        let what = match found.kind {
            FileKind::Symlink => {
                let target = Layer::readlink(self, caller, found.node)?;
                What::Link(through(&target, &name[base.len()..]))
            }
            _ => {
                let raw = match self.place(found.node)? {
                    Place::Below => opened::open(&*self.below, caller, found, self.keeper)?,
                    Place::In(_, inside, inner) => {
                        let archive = inside.within()?.archive();
                        let found = Attributes {
                            node: inner,
                            ..*found
                        };
                        opened::open(archive, caller, &found, self.keeper)?
                    }
                };
                let most = match depth {
                    1 => u64::MAX,
                    _ => self.rules.most,
                };
                let how = (asked.handler, !asked.forgets);
                let of = (found.mtime, writers);
                What::Within(Within::new(raw, of, how, (&self.rules, most))?)
            }
        };
        if decode(dir).is_none() {
            self.below.hold(dir)?;
        }
        Ok(Inside {
            directory: dir,
            name: name.to_vec(),
            depth,
            rights: Mutex::new(rights_of(found)),
            writers,
            mtime: found.mtime,
            what,
            used: AtomicU64::new(0),
        })
    }

    /// A path of `node` below the root.
    fn path(&self, node: Node) -> Result<Vec<u8>> {
        let Place::In(_, inside, inner) = self.place(node)? else {
            return self.below.path_of(node);
        };
        let outer = self.path(inside.directory)?;
        let within = match &inside.what {
            What::Within(Within::Tree(archive)) => archive.path_of(inner)?,
            _ => Vec::new(),
        };
        let parts = [&outer[..], &inside.name, &within];
        let parts: Vec<&[u8]> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Ok(parts.join(&b'/'))
    }

    /// Whether `caller` may do `access` to what is in a file, where the front end leaves that to
    /// the driver below. To execute what may not be read is refused by that.
    fn judge(
        &self,
        caller: &Caller<'_>,
        access: Access,
        (number, inside, inner): (u32, &Inside, Node),
    ) -> Result<()> {
        match self.below.capabilities().checks_permissions {
            true => caller.may(access, &inside.attributes(number, inner)?),
            false => Ok(()),
        }
    }

    fn open_within(
        caller: &Caller<'_>,
        (number, inside, inner): (u32, &Inside, Node),
        flags: OpenFlags,
    ) -> Result<Opened> {
        let opened = inside.within()?.archive().open(caller, inner, flags)?;
        let attributes = inside.attributes(number, inner)?;
        Ok(super::file::shown(opened, attributes))
    }

    /// Does one thing with what is below, another with what is in a file.
    fn either<T>(
        &self,
        node: Node,
        below: impl FnOnce(&dyn FileSystem) -> Result<T>,
        within: impl FnOnce(u32, &Inside, Node) -> Result<T>,
    ) -> Result<T> {
        match self.place(node)? {
            Place::Below => below(&*self.below),
            Place::In(number, inside, inner) => within(number, &inside, inner),
        }
    }
}

fn rights_of(found: &Attributes) -> FileRights {
    ((found.uid, found.gid), found.permissions)
}

fn has_sign(name: &[u8]) -> bool {
    name.contains(&b'#')
}

impl Layer for AvfsFs {
    type Inner = dyn FileSystem;

    fn inner(&self) -> &Self::Inner {
        &*self.below
    }

    fn touches(&self) -> Touches {
        Touches::NO_DATA
    }

    /// What is in a file is not changed.
    fn around<T>(&self, call: Call<'_>, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        let to = call.to.map(|(node, _)| node);
        for node in [Some(call.node), to].into_iter().flatten() {
            if let Place::In(..) = self.place(node)? {
                return Err(match call.operation {
                    Operation::SyncDirectory | Operation::Statfs => Errno::EINVAL,
                    _ => Errno::EROFS,
                }
                .into());
            }
        }
        work()
    }

    fn lookup(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        match self.plain(caller, dir, name) {
            Err(error) if error.errno() == Errno::ENOENT && has_sign(name) => {
                self.virtually(caller, dir, name)
            }
            found => found,
        }
    }

    /// To the first name with a `#`, then over it alone.
    fn walk(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Result<Walked> {
        let sign = path.iter().position(|&byte| byte == b'#');
        let before = &path[..sign.unwrap_or(path.len())];
        let plain = match sign {
            None => path,
            Some(_) => &path[..before.iter().rposition(|&byte| byte == b'/').unwrap_or(0)],
        };
        if plain.is_empty() {
            let end = path.iter().position(|&byte| byte == b'/');
            let name = &path[..end.unwrap_or(path.len())];
            return Ok(Walked {
                entry: Some(self.lookup(caller, from, name)?),
                parent: from,
                consumed: name.len(),
            });
        }
        match self.place(from)? {
            Place::Below => self.below.walk(caller, from, plain),
            Place::In(number, inside, inner) => {
                self.judge(caller, Access::EXECUTE, (number, &inside, inner))?;
                let walked = inside.within()?.archive().walk(caller, inner, plain)?;
                let entry = walked.entry.map(|entry| Entry {
                    attributes: inside.shown(number, entry.attributes),
                });
                Ok(Walked {
                    entry,
                    parent: encode(number, walked.parent),
                    ..walked
                })
            }
        }
    }

    fn reach(&self, caller: &Caller<'_>, from: Node, path: &[u8]) -> Option<Result<Reached>> {
        match !has_sign(path) && decode(from).is_none() {
            true => self.below.reach(caller, from, path),
            false => None,
        }
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        self.either(
            dir,
            |below| below.parent(dir),
            |number, inside, inner| match inner == inside.top() {
                true => Ok(inside.directory),
                false => {
                    let parent = inside.within()?.archive().parent(inner)?;
                    Ok(encode(number, parent))
                }
            },
        )
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        self.path(node)
    }

    fn attributes(&self, caller: &Caller<'_>, node: Node) -> Result<Attributes> {
        self.either(
            node,
            |below| below.attributes(caller, node),
            |number, inside, inner| inside.attributes(number, inner),
        )
    }

    fn birth_time(&self, caller: &Caller<'_>, node: Node) -> Result<Option<Timespec>> {
        self.either(
            node,
            |below| below.birth_time(caller, node),
            |_, _, _| Ok(None),
        )
    }

    fn access(&self, caller: &Caller<'_>, node: Node, access: Access) -> Result<()> {
        self.either(
            node,
            |below| below.access(caller, node, access),
            |number, inside, inner| {
                if access.write() {
                    return Err(Errno::EROFS.into());
                }
                caller.may(access, &inside.attributes(number, inner)?)
            },
        )
    }

    fn readlink(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.either(
            node,
            |below| below.readlink(caller, node),
            |_, inside, inner| match &inside.what {
                What::Link(target) => Ok(target.clone()),
                What::Within(within) => within.archive().readlink(caller, inner),
            },
        )
    }

    fn open(&self, caller: &Caller<'_>, node: Node, flags: OpenFlags) -> Result<Opened> {
        self.either(
            node,
            |below| below.open(caller, node, flags),
            |number, inside, inner| {
                if flags.read() {
                    self.judge(caller, Access::READ, (number, inside, inner))?;
                }
                Self::open_within(caller, (number, inside, inner), flags)
            },
        )
    }

    fn restore(
        &self,
        caller: &Caller<'_>,
        node: Node,
        flags: OpenFlags,
        state: &[u8],
    ) -> Result<Opened> {
        match self.place(node)? {
            Place::Below => self.below.restore(caller, node, flags, state),
            // It is open already: nobody is asked again.
            Place::In(number, inside, inner) => {
                let flags = flags.without(OpenFlags::TRUNCATE);
                Self::open_within(caller, (number, &inside, inner), flags)
            }
        }
    }

    fn hold(&self, node: Node) -> Result<()> {
        self.either(node, |below| below.hold(node), |_, _, _| Ok(()))
    }

    fn release(&self, node: Node) {
        if let Ok(Place::Below) = self.place(node) {
            self.below.release(node);
        }
    }

    fn forget(&self, node: Node, count: u64) {
        if let Ok(Place::Below) = self.place(node) {
            self.below.forget(node, count);
        }
    }

    fn is_open_for_writing(&self, node: Node) -> Result<bool> {
        self.either(
            node,
            |below| below.is_open_for_writing(node),
            |_, _, _| Ok(false),
        )
    }

    fn open_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        flags: OpenFlags,
    ) -> Result<OpenedDirectory> {
        self.either(
            dir,
            |below| below.open_directory(caller, dir, flags),
            |_, _, _| Ok(OpenedDirectory::Stateless),
        )
    }

    fn read_directory(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        match self.place(dir)? {
            Place::Below => self.below.read_directory(caller, dir, from, sink),
            Place::In(number, inside, inner) => {
                let archive = inside.within()?.archive();
                archive.read_directory(caller, inner, from, &mut |mut entry| {
                    entry.inode = encode(number, Node(entry.inode)).0;
                    sink(entry)
                })
            }
        }
    }

    fn read_directory_plus(
        &self,
        caller: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectoryPlusSink<'_>,
    ) -> Result<()> {
        match self.place(dir)? {
            Place::Below => self.below.read_directory_plus(caller, dir, from, sink),
            Place::In(number, inside, inner) => {
                let archive = inside.within()?.archive();
                archive.read_directory_plus(caller, inner, from, &mut |mut entry, found| {
                    entry.inode = encode(number, Node(entry.inode)).0;
                    let found = found.map(|found| Entry {
                        attributes: inside.shown(number, found.attributes),
                    });
                    sink(entry, found)
                })
            }
        }
    }

    fn sync_directory(&self, dir: Node, data_only: bool) -> Result<()> {
        self.either(
            dir,
            |below| below.sync_directory(dir, data_only),
            |_, _, _| Ok(()),
        )
    }

    fn statfs_of(&self, node: Node) -> Result<StatFs> {
        self.either(
            node,
            |below| below.statfs_of(node),
            |_, inside, _| inside.within()?.archive().statfs(),
        )
    }

    /// Who changes `x.tgz`, makes or removes it, says nothing of `x.tgz#`.
    fn validity(&self) -> Validity {
        let (valid, second) = (self.below.validity(), Validity::SECOND);
        match self.below.capabilities().immutable {
            true => valid,
            false => Validity {
                entry: valid.entry.min(second.entry),
                attributes: valid.attributes.min(second.attributes),
                absent: valid.absent.min(second.absent),
            },
        }
    }

    fn is_unobserved(&self, node: Node) -> bool {
        !matches!(self.place(node), Ok(Place::Below)) || self.below.is_unobserved(node)
    }

    fn get_xattr(&self, caller: &Caller<'_>, node: Node, name: &[u8]) -> Result<Vec<u8>> {
        self.either(
            node,
            |below| below.get_xattr(caller, node, name),
            |number, inside, inner| {
                // As xattr_permission (fs/xattr.c) has it.
                if name.starts_with(b"user.") {
                    self.judge(caller, Access::READ, (number, inside, inner))?;
                }
                match &inside.what {
                    What::Within(within) => within.archive().get_xattr(caller, inner, name),
                    What::Link(_) => Err(Errno::ENODATA.into()),
                }
            },
        )
    }

    fn list_xattr(&self, caller: &Caller<'_>, node: Node) -> Result<Vec<u8>> {
        self.either(
            node,
            |below| below.list_xattr(caller, node),
            |_, inside, inner| match &inside.what {
                What::Within(within) => within.archive().list_xattr(caller, inner),
                What::Link(_) => Ok(Vec::new()),
            },
        )
    }

    /// A file in a file has no other name outside.
    fn link(&self, caller: &Caller<'_>, node: Node, dir: Node, name: &[u8]) -> Result<Entry> {
        for node in [node, dir] {
            if let Place::In(..) = self.place(node)? {
                return Err(Errno::EXDEV.into());
            }
        }
        self.below.link(caller, node, dir, name)
    }

    fn kernel_node(&self, node: Node) -> Option<i32> {
        // Of a directory the kernel sees all but what is in its files.
        match self.place(node) {
            Ok(Place::Below) => self.below.kernel_node(node),
            _ => None,
        }
    }

    fn handed_down(&self, node: Node) -> Option<i32> {
        match self.place(node) {
            Ok(Place::Below) => self.below.handed_down(node),
            _ => None,
        }
    }
}

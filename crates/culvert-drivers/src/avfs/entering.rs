//! From a node to the file it is in, and from a name with a `#` into a file.

use super::filesystem::{AvfsFs, Place};
use super::handlers::Handler;
use super::inside::{Inside, What, rights_of};
use super::names::{split, through, unescaped};
use super::opened;
use super::table::{Key, STATUS, decode, encode};
use super::within::{Within, Writers};
use alloc::{format, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culvert::{
    Access, Attributes, Caller, Entry, Errno, Error, FileKind, FileSystem, Layer, Node, Result,
    sync::Mutex,
};

/// How deep files in files in files are looked into.
const DEPTH: u32 = 32;
/// Files whose insides are kept open at a time.
const OPEN: usize = 32;

impl AvfsFs {
    /// Where `node` is. `ESTALE` where the file that it was in is not what it was.
    pub(super) fn place(&self, node: Node) -> Result<Place> {
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
    pub(super) fn plain(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
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
    pub(super) fn virtually(&self, caller: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
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
    pub(super) fn path(&self, node: Node) -> Result<Vec<u8>> {
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
}

//! A driver whose files change, and become ready, when it is told so: `telling [--without
//! CAPABILITY]... [--with CAPABILITY]... [--ring] [--always-ready] TARGET` mounts it and serves
//! until the mount is gone; a TARGET `/dev/fd/N` is the device of a mount itself. Everything is
//! believed for ever, so that the kernel asks again only what it was told of.
//!
//! It says `mounted` and the protocol's minor version. Commands come by standard input, a line
//! each, and each is answered by a line:
//!
//! | command | |
//! |---|---|
//! | `file PATH TEXT`, `directory PATH` | is there from now on, with this content; nobody is told. A file `unasked` cannot be asked whether it is ready (`ENOSYS`) |
//! | `remove PATH` | has no name from now on; nobody is told |
//! | `tell everything` | the kernel is told ([`Change`]) |
//! | `tell name PATH`, `doubtful`, `removed`, `attributes`, `content`, `unneeded` | the same; of what was removed too |
//! | `ready PATH BITS` | poll(2) finds these bits from now on, and who waits is woken |
//! | `quiet PATH BITS` | the same, and nobody is told |
//! | `unready PATH` | none, nobody is told, and who waited so far is forgotten |
//! | `waited PATH COUNT` | returns when so many open files of it are waited for |
//! | `asked WHAT` | returns when that was asked, as `counts` names it |
//! | `counts` | what was asked since the last time: ` lookup:NAME=1 attributes:NAME=2`, in alphabetical order |

use culvert::{
    Attributes, Caller, Capabilities, Change, DirectoryEntry, DirectorySink, Entry, Errno, File,
    FileKind, FileSystem, Lock, LockKind, LockOwner, Node, Observed, Observer, OpenFlags, Opened,
    Readiness, Result, Sink, StatFs, Validity, Wait,
};
use culvert_server::{
    DeviceFuse, Ended, Session, Settings,
    mounting::{self, MountIdentity, MountPoint, Mounting, Rights},
};
use std::{
    collections::BTreeMap,
    io::{BufRead, Write},
    os::fd::{FromRawFd, OwnedFd},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    task::Waker,
};

const ROOT: Node = Node(1);

/// A file or directory, which keeps its number when it has lost its name.
struct Inode {
    name: String,
    dir: Node,
    named: bool,
    kind: FileKind,
    content: Vec<u8>,
    ready: u16,
    /// Who waits, by open file.
    wakers: BTreeMap<u64, Waker>,
}

#[derive(Default)]
struct State {
    inodes: BTreeMap<Node, Inode>,
    last: u64,
    opens: u64,
    counts: BTreeMap<String, usize>,
    observer: Option<Arc<dyn Observer>>,
}

/// The file system; clones are the same one.
#[derive(Clone)]
struct Telling {
    shared: Arc<(Mutex<State>, Condvar)>,
    polls: bool,
}

impl State {
    fn inode(&mut self, node: Node) -> Result<&mut Inode> {
        Ok(self.inodes.get_mut(&node).ok_or(Errno::ESTALE)?)
    }

    fn find(&self, dir: Node, name: &str) -> Option<Node> {
        let mut all = self.inodes.iter();
        let found = all.find(|(_, one)| one.named && one.dir == dir && one.name == name);
        found.map(|(&node, _)| node)
    }

    /// The last one that has, or had, this path.
    fn at(&self, path: &str) -> Option<Node> {
        path.split('/').try_fold(ROOT, |dir, name| {
            let mut all = self.inodes.iter().rev();
            let is = |one: &Inode| one.dir == dir && one.name == name;
            all.find(|(node, one)| **node != ROOT && is(one))
                .map(|(&node, _)| node)
        })
    }

    fn add(&mut self, dir: Node, name: &str, kind: FileKind) -> Node {
        self.last += 1;
        let node = Node(self.last);
        let inode = Inode {
            name: name.into(),
            dir,
            named: true,
            kind,
            content: Vec::new(),
            ready: 0,
            wakers: BTreeMap::new(),
        };
        self.inodes.insert(node, inode);
        node
    }

    fn attributes(&mut self, node: Node) -> Result<Attributes> {
        let inode = self.inode(node)?;
        let permissions = match inode.kind {
            FileKind::Directory => 0o777,
            _ => 0o666,
        };
        Ok(Attributes {
            node,
            inode: node.0,
            size: inode.content.len() as u64,
            links: u32::from(inode.named),
            ..Attributes::new(inode.kind, permissions)
        })
    }
}

impl Telling {
    fn new(polls: bool) -> Self {
        let mut state = State::default();
        state.add(ROOT, "", FileKind::Directory);
        Self {
            shared: Arc::new((Mutex::new(state), Condvar::new())),
            polls,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let (state, _) = &*self.shared;
        state.lock().expect("no operation panics under the lock")
    }

    /// Counts `what` of `node`.
    fn count(&self, what: &str, node: Node) -> MutexGuard<'_, State> {
        let mut state = self.state();
        let inode = state.inodes.get(&node);
        let key = format!("{what}:{}", inode.map_or("?", |inode| &inode.name));
        *state.counts.entry(key).or_default() += 1;
        let (_, changed) = &*self.shared;
        changed.notify_all();
        state
    }

    /// Returns when `reached`.
    fn wait(&self, mut reached: impl FnMut(&State) -> bool) {
        let (_, changed) = &*self.shared;
        let waited = changed.wait_while(self.state(), |state| !reached(state));
        drop(waited.expect("no operation panics under the lock"));
    }

    /// Carries out one command; its answer.
    fn command(&self, line: &str) -> std::result::Result<String, String> {
        let mut words = line.splitn(3, ' ');
        let mut next = || words.next().unwrap_or_default();
        let (verb, path, rest) = (next(), next(), next());
        match verb {
            "waited" => {
                let count = rest.parse().unwrap_or(1);
                self.wait(|state| {
                    let inode = state.at(path).and_then(|node| state.inodes.get(&node));
                    inode.is_some_and(|inode| inode.wakers.len() >= count)
                });
                return Ok("done".into());
            }
            "asked" => {
                self.wait(|state| state.counts.contains_key(path));
                return Ok("done".into());
            }
            _ => {}
        }
        let mut state = self.state();
        let missing = || format!("there is no {path}");
        match verb {
            "file" | "directory" => {
                let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
                let dir = match dir {
                    "" => ROOT,
                    dir => state.at(dir).ok_or_else(missing)?,
                };
                let kind = match verb {
                    "file" => FileKind::Regular,
                    _ => FileKind::Directory,
                };
                let found = state.find(dir, name);
                let node = found.unwrap_or_else(|| state.add(dir, name, kind));
                state.inode(node).map_err(|_| missing())?.content = rest.into();
            }
            "remove" => {
                let node = state.at(path).ok_or_else(missing)?;
                state.inode(node).map_err(|_| missing())?.named = false;
            }
            "tell" => {
                let change = match path {
                    "everything" => Change::Everything,
                    kind => {
                        let node = state.at(rest).ok_or_else(|| format!("no {rest}"))?;
                        let inode = state.inode(node).map_err(|_| missing())?;
                        let (dir, name) = (inode.dir, inode.name.clone().into_bytes());
                        match kind {
                            "name" => Change::Name { dir, name },
                            "doubtful" => Change::Doubtful { dir, name },
                            "removed" => Change::Removed { dir, name, node },
                            "attributes" => Change::Attributes(node),
                            "content" => Change::Content(node),
                            "unneeded" => Change::Unneeded(node),
                            _ => return Err(format!("tell {kind}?")),
                        }
                    }
                };
                let observer = state.observer.as_ref().ok_or("nobody observes")?;
                observer.tell(change);
            }
            "ready" | "quiet" | "unready" => {
                let node = state.at(path).ok_or_else(missing)?;
                let inode = state.inode(node).map_err(|_| missing())?;
                inode.ready = rest.parse().unwrap_or(0);
                if verb != "quiet" {
                    let wakers = std::mem::take(&mut inode.wakers);
                    let woken = wakers.into_values().filter(|_| verb == "ready");
                    woken.for_each(Waker::wake);
                }
            }
            "counts" => {
                let counts = std::mem::take(&mut state.counts);
                let counts = counts
                    .iter()
                    .map(|(what, count)| format!(" {what}={count}"));
                return Ok(counts.collect());
            }
            _ => return Err(format!("{verb}?")),
        }
        Ok("done".into())
    }
}

impl FileSystem for Telling {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            polls: self.polls,
            locks: true,
            ..Capabilities::default()
        }
    }

    fn validity(&self) -> Validity {
        Validity::FOREVER
    }

    fn root(&self) -> Node {
        ROOT
    }

    fn lookup(&self, _: &Caller<'_>, dir: Node, name: &[u8]) -> Result<Entry> {
        let name = str::from_utf8(name).map_err(|_| Errno::EILSEQ)?;
        let mut state = self.state();
        *state.counts.entry(format!("lookup:{name}")).or_default() += 1;
        let node = state.find(dir, name).ok_or(Errno::ENOENT)?;
        let attributes = state.attributes(node)?;
        Ok(Entry { attributes })
    }

    fn parent(&self, dir: Node) -> Result<Node> {
        Ok(self.state().inode(dir)?.dir)
    }

    fn path_of(&self, node: Node) -> Result<Vec<u8>> {
        Ok(self.state().inode(node)?.name.clone().into_bytes())
    }

    fn attributes(&self, _: &Caller<'_>, node: Node) -> Result<Attributes> {
        self.count("attributes", node).attributes(node)
    }

    fn readlink(&self, _: &Caller<'_>, _: Node) -> Result<Vec<u8>> {
        Err(Errno::EINVAL.into())
    }

    fn open(&self, _: &Caller<'_>, node: Node, _: OpenFlags) -> Result<Opened> {
        let mut state = self.state();
        state.opens += 1;
        let number = state.opens;
        let filesystem = self.clone();
        Ok(Opened::Driven(Box::new(OpenFile {
            filesystem,
            node,
            number,
        })))
    }

    fn read_directory(
        &self,
        _: &Caller<'_>,
        dir: Node,
        from: u64,
        sink: &mut DirectorySink<'_>,
    ) -> Result<()> {
        let state = self.count("list", dir);
        let all = state.inodes.iter();
        let listed: Vec<_> = all
            .filter(|(node, one)| **node != ROOT && one.named && one.dir == dir && node.0 > from)
            .map(|(&node, one)| (node, one.kind, one.name.clone()))
            .collect();
        drop(state);
        for (node, kind, name) in listed {
            let entry = DirectoryEntry {
                inode: node.0,
                next: node.0,
                kind,
                name: name.as_bytes(),
            };
            if !sink(entry) {
                break;
            }
        }
        Ok(())
    }

    fn statfs(&self) -> Result<StatFs> {
        Ok(StatFs {
            block_size: 4096,
            name_max: 255,
            ..StatFs::default()
        })
    }

    fn observe(&self, observer: Arc<dyn Observer>) -> Observed {
        self.state().observer = Some(observer);
        Observed::Told
    }

    fn forget(&self, node: Node, _: u64) {
        drop(self.count("forget", node));
    }
}

/// An open file.
struct OpenFile {
    filesystem: Telling,
    node: Node,
    number: u64,
}

impl File for OpenFile {
    fn read_at(&self, offset: u64, out: &mut dyn Sink) -> Result<usize> {
        let content = {
            let mut state = self.filesystem.count("read", self.node);
            state.inode(self.node)?.content.clone()
        };
        match content.get(offset as usize..).unwrap_or_default() {
            [] => Ok(0),
            rest => out.put(rest),
        }
    }

    fn attributes(&self, _: &Caller<'_>) -> Result<Attributes> {
        self.filesystem.attributes(&Caller::SYSTEM, self.node)
    }

    fn poll(&self, waker: Option<&Waker>) -> Result<Readiness> {
        let mut state = self.filesystem.state();
        let inode = state.inode(self.node)?;
        if inode.name == "unasked" {
            return Err(Errno::ENOSYS.into());
        }
        if let Some(waker) = waker {
            inode.wakers.insert(self.number, waker.clone());
        }
        let ready = inode.ready;
        drop(state);
        drop(self.filesystem.count("poll", self.node));
        Ok(Readiness(ready))
    }

    fn get_lock(&self, _: LockOwner, _: &Lock) -> Result<Option<Lock>> {
        self.counted("get_lock");
        Ok(None)
    }

    fn set_lock(&self, _: LockOwner, _: &Lock, _: Wait<'_>) -> Result<()> {
        self.counted("set_lock");
        Ok(())
    }

    fn flock(&self, _: LockOwner, _: LockKind, _: Wait<'_>) -> Result<()> {
        self.counted("flock");
        Ok(())
    }
}

/// Locks are counted, and kept by nobody.
impl OpenFile {
    fn counted(&self, what: &str) {
        drop(self.filesystem.count(what, self.node));
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let mut state = self.filesystem.state();
        if let Ok(inode) = state.inode(self.node) {
            inode.wakers.remove(&self.number);
        }
    }
}

/// What the words ask for: the target, the settings, and whether files may be unready.
fn arguments() -> Option<(PathBuf, Settings, bool)> {
    let mut words = std::env::args().skip(1);
    let (mut settings, mut polls, mut target) = (Settings::default(), true, None);
    settings.transport = Some("device");
    while let Some(word) = words.next() {
        match word.as_str() {
            "--without" => settings.without.push(words.next()?),
            "--with" => settings.with.push(words.next()?),
            "--ring" => settings.transport = Some("ring"),
            "--always-ready" => polls = false,
            _ => target = Some(PathBuf::from(word)),
        }
    }
    Some((target?, settings, polls))
}

/// The device of the mount at `target`, and what ends it; of `/dev/fd/N` the device itself.
fn mounted(target: &Path) -> std::result::Result<(OwnedFd, Option<MountIdentity>), String> {
    if let Ok(number) = target.strip_prefix("/dev/fd") {
        let number = number.to_str().and_then(|number| number.parse().ok());
        // SAFETY: the process has it from its start, for this alone.
        let device = unsafe { OwnedFd::from_raw_fd(number.ok_or("no descriptor")?) };
        return Ok((device, None));
    }
    let target = target.canonicalize().map_err(|error| error.to_string())?;
    let place = MountPoint::open(&target).map_err(|error| error.to_string())?;
    let mounted = mounting::mount(&Mounting {
        source: "telling",
        subtype: "telling",
        target: &place,
        read_only: false,
        rights: Rights::default(),
        times: 0,
    });
    let (device, mounted) = mounted.map_err(|failed| failed.to_string())?;
    Ok((device, Some(mounted)))
}

fn serve(
    filesystem: &Telling,
    settings: Settings,
    target: &Path,
) -> std::result::Result<(), String> {
    let (device, mounted) = mounted(target)?;
    let transport = Box::new(DeviceFuse::new(device));
    let session = Session::negotiate(Box::new(filesystem.clone()), settings, &*transport);
    let session = session.map_err(|error| error.to_string())?;
    let (commands, minor) = (filesystem.clone(), session.protocol().minor);
    // Commands end when the test does; the mount ends then too, whatever it has left.
    let mut out = std::io::stdout();
    std::thread::spawn(move || {
        let mut said = writeln!(out, "mounted {minor}");
        for line in std::io::stdin().lock().lines().map_while(|line| line.ok()) {
            let answer = commands
                .command(&line)
                .unwrap_or_else(|error| format!("error: {error}"));
            said = said.and_then(|()| writeln!(out, "{answer}"));
        }
        let unmounted = mounted.map_or(Ok(()), |mounted| mounting::unmount(&mounted, true));
        if let (Ok(()), Err(failed)) = (said, unmounted) {
            eprintln!("{failed}");
        }
    });
    match session.serve(transport) {
        Ended::Unmounted => Ok(()),
        Ended::Broken(error) => Err(error.to_string()),
    }
}

fn main() -> ExitCode {
    let Some((target, settings, polls)) = arguments() else {
        eprintln!("usage: telling [--without CAPABILITY]... [--ring] [--always-ready] TARGET");
        return ExitCode::from(2);
    };
    match serve(&Telling::new(polls), settings, &target) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("telling: {error}");
            ExitCode::FAILURE
        }
    }
}

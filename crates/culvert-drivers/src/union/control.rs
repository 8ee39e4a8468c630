//! Options and branches that change while the mount lives: the extended attributes of `/.mergerfs`,
//! a file that is not listed.
//!
//! What was changed stands in a file of the run directory, a line each, and how often in the word
//! of
//! [`crate::name_changes`]: each process reads the file again when the word is another. A call that
//! has begun goes on with what there was. A server that may have a successor has nobody to tell:
//! the file is for that one.

use super::branch::Branch;
use super::branches::{Opener, Wanted, decoded};
use super::nodes::Nodes;
use super::options::Settings;
use crate::name_changes::Changing;
use crate::{Environment, OwnedFd, archive::host::terminated};
use alloc::{ffi::CString, format, sync::Arc, vec::Vec};
use core::ffi::CStr;
use culvert::{Attributes, Errno, FileKind, Node, Result, Timespec, sync::Mutex};
use culvert_sys::flags::OFlags;
use culvert_sys::{fs, process};

/// The name of the file, in the root.
pub const NAME: &[u8] = b".mergerfs";

/// Its number.
pub const NODE: Node = Node(2);

/// What is set, as it is now.
pub struct Control {
    current: Mutex<Current>,
    /// As the mount was made.
    first: (Settings, Vec<Wanted>),
    /// What opens branches.
    pub opener: Opener,
    path: Option<CString>,
    /// There are no other processes.
    alone: bool,
    owner: (u32, u32),
    since: Timespec,
}

struct Current {
    branches: Arc<Vec<Branch>>,
    settings: Arc<Settings>,
    /// How often something had been changed in this run when these were read.
    changes: u64,
}

/// The file of changes of the mount with the `number`.
fn changes_file(number: u64, environment: &Environment<'_>) -> Option<CString> {
    let outlives = !environment.alone || environment.book.is_some();
    let directory = environment.run_directory.filter(|_| outlives)?;
    let name = format!("/union-{number:x}.options");
    terminated(&[directory, name.as_bytes()].concat()).ok()
}

impl Control {
    /// What is set of the mount with the `number`, which was made with `first`, and where something
    /// was changed so often.
    pub fn new(
        (number, changes): (u64, u64),
        environment: &Environment<'_>,
        opener: Opener,
        first: (Settings, Vec<Wanted>),
    ) -> Result<Self> {
        let path = changes_file(number, environment);
        let alone = environment.alone;
        let (settings, wanted) =
            match read_all(path.as_deref().filter(|_| alone || changes > 0), &first) {
                // Of a server that is the first one.
                Err(error) if alone && error.errno() == Errno::ENOENT => first.clone(),
                read => read.map_err(|error| error.within("what was changed of the union"))?,
            };
        let branches = opener.all(&wanted, |one, count| opener.open(one, count))?;
        let current = Current {
            branches: Arc::new(branches),
            settings: Arc::new(settings),
            changes,
        };
        Ok(Self {
            current: Mutex::new(current),
            first,
            opener,
            path,
            alone,
            owner: (process::geteuid(), process::getegid()),
            since: Timespec::default(),
        })
    }

    /// Branches and options, where something was changed so often. The branches of `nodes` are
    /// these from then on.
    pub fn now(&self, changes: u64, nodes: &Nodes) -> (Arc<Vec<Branch>>, Arc<Settings>) {
        let mut current = self.current.lock();
        // A child of vfork(2) would open branches for itself, and leave them to its parent. What it
        // executes has them all.
        if changes != current.changes && !self.opener.borrows_memory() {
            self.renew(&mut current, changes, nodes);
        }
        (current.branches.clone(), current.settings.clone())
    }

    /// Reads what was changed by now, so often. Where that cannot be had, for lack of descriptors
    /// or memory, there is what there was, and the next call tries again; who may not read it keeps
    /// what there was.
    fn renew(&self, current: &mut Current, changes: u64, nodes: &Nodes) {
        let (settings, wanted) = match read_all(self.path.as_deref(), &self.first) {
            Ok(read) => read,
            Err(error) => {
                if matches!(error.errno(), Errno::EACCES | Errno::EPERM) {
                    current.changes = changes;
                }
                return;
            }
        };
        current.settings = Arc::new(settings);
        let is = |(one, there): (&Wanted, &Branch)| {
            there.refused.is_none() && (&one.mount, one.how) == (&there.mount, there.how)
        };
        let mut both = wanted.iter().zip(&*current.branches);
        if wanted.len() != current.branches.len() || !both.all(is) {
            let open = |one: &Wanted, count| self.opener.open_or_refuse(one, count);
            // With none there is what there was.
            if let Ok(branches) = self.opener.all(&wanted, open) {
                self.install(current, branches, nodes);
            }
        }
        let passes = |branch: &Branch| {
            let lacks = [Errno::EMFILE, Errno::ENFILE, Errno::ENOMEM, Errno::EINTR];
            branch.refused.is_some_and(|errno| lacks.contains(&errno))
        };
        if !current.branches.iter().any(passes) {
            current.changes = changes;
        }
    }

    /// Whether the branches are those that there are since there were so many `changes`.
    pub fn has_read(&self, changes: u64) -> bool {
        self.current.lock().changes == changes
    }

    /// The branches that were open last.
    pub fn branches(&self) -> Arc<Vec<Branch>> {
        self.current.lock().branches.clone()
    }

    fn install(&self, current: &mut Current, branches: Vec<Branch>, nodes: &Nodes) {
        current.branches = Arc::new(branches);
        nodes.reshape(super::ROOT, &current.branches).give_back();
    }

    /// The branches are `branches` from here on, in this process.
    pub fn install_now(&self, branches: Vec<Branch>, nodes: &Nodes) {
        self.install(&mut self.current.lock(), branches, nodes);
    }

    /// Tells all processes of the run, and those to come, that option `name` is `value`; false:
    /// there are no others now.
    pub fn tell(&self, changing: &Changing<'_>, name: &str, value: &[u8]) -> Result<bool> {
        let Some(path) = &self.path else {
            return Ok(false);
        };
        let flags =
            OFlags::RDWR | OFlags::APPEND | OFlags::CREAT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let line = [name.as_bytes(), b"=", value, b"\n"].concat();
        let file = fs::open(path, flags, 0o600)?;
        // Who was killed may have left a part of a line, which would take this one with it.
        let before = lines(&file)?.len() as u64;
        fs::ftruncate(&file, before)?;
        let written = fs::write(&file, &line);
        if written != Ok(line.len()) {
            let _ = fs::ftruncate(&file, before);
            return Err(written.err().unwrap_or(Errno::ENOSPC).into());
        }
        if !self.alone {
            changing.note();
        }
        Ok(!self.alone)
    }

    /// Sets option `name` of `before` for all processes of the run.
    pub fn set(
        &self,
        changing: &Changing<'_>,
        before: &Settings,
        name: &str,
        value: &[u8],
    ) -> Result<()> {
        let mut settings = before.clone();
        settings.set(name, value)?;
        if value.contains(&b'\n') {
            return Err(Errno::EINVAL.into());
        }
        if !self.tell(changing, name, value)? {
            self.current.lock().settings = Arc::new(settings);
        }
        Ok(())
    }

    /// The file's attributes.
    pub fn attributes(&self) -> Attributes {
        Attributes {
            node: NODE,
            inode: NODE.0,
            uid: self.owner.0,
            gid: self.owner.1,
            mtime: self.since,
            ..Attributes::new(FileKind::Regular, 0o644)
        }
    }
}

/// What the branches are called in the file of changes, and to the user.
pub const BRANCHES: &str = "branches";

/// The whole lines of `file`.
fn lines(file: &OwnedFd) -> Result<Vec<u8>> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = fs::read(file, &mut piece)?;
        bytes.extend_from_slice(&piece[..count]);
        // The end: what others write meanwhile is not the rest of what is last here.
        if count < piece.len() {
            break;
        }
    }
    let end = bytes.iter().rposition(|&byte| byte == b'\n');
    bytes.truncate(end.map_or(0, |end| end + 1));
    Ok(bytes)
}

/// What the mount was made with, and what the file `path` says was changed since.
fn read_all(
    path: Option<&CStr>,
    first: &(Settings, Vec<Wanted>),
) -> Result<(Settings, Vec<Wanted>)> {
    let (mut settings, mut branches) = first.clone();
    let Some(path) = path else {
        return Ok((settings, branches));
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let bytes = lines(&fs::open(path, flags, 0)?)?;
    for line in bytes.split(|&byte| byte == b'\n') {
        let mut words = line.splitn(2, |&byte| byte == b'=');
        let name = words
            .next()
            .and_then(|name| core::str::from_utf8(name).ok());
        // It was checked when it was written.
        match (name, words.next()) {
            (Some(BRANCHES), Some(value)) => {
                branches = decoded(value).unwrap_or(branches);
            }
            (Some(name), Some(value)) => drop(settings.set(name, value)),
            _ => {}
        }
    }
    Ok((settings, branches))
}

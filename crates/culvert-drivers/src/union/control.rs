//! Options and branches that change while the mount lives: the extended attributes of `/.mergerfs`, a
//! file that is not listed.
//!
//! What was changed stands in a file of the run directory, a line each, and how often in the word of
//! [`crate::name_changes`]: each process reads the file again when the word is another. A call that has
//! begun goes on with what there was.

use super::branch::Branch;
use super::branches::{Opener, Wanted, agrees, decoded, encoded};
use super::nodes::Nodes;
use super::options::Settings;
use super::state::Core;
use crate::name_changes::Changing;
use crate::{
    Environment,
    archive::{host::terminated, warning::printable},
};
use alloc::{ffi::CString, format, string::String, sync::Arc, vec::Vec};
use core::ffi::CStr;
use culvert::{
    Access, Attributes, Caller, Errno, Error, FileKind, Node, Result, Timespec, sync::Mutex,
};
use culvert_sys::flags::OFlags;
use culvert_sys::{fs, process};

/// The name of the file, in the root.
pub const NAME: &[u8] = b".mergerfs";

/// Its number.
pub const NODE: Node = Node(2);

const PREFIX: &str = "user.mergerfs.";

/// What is set, as it is now.
pub struct Control {
    current: Mutex<Current>,
    /// As the mount was made.
    first: (Settings, Vec<Wanted>),
    opener: Opener,
    path: Option<CString>,
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
    let directory = environment.run_directory.filter(|_| !environment.alone)?;
    let name = format!("/union-{number:x}.options");
    terminated(&[directory, name.as_bytes()].concat()).ok()
}

impl Control {
    /// What is set of the mount with the `number`, which was made with `first`, and where something was
    /// changed so often.
    pub fn new(
        (number, changes): (u64, u64),
        environment: &Environment<'_>,
        opener: Opener,
        first: (Settings, Vec<Wanted>),
    ) -> Result<Self> {
        let path = changes_file(number, environment);
        let (settings, wanted) = match changes {
            0 => first.clone(),
            _ => read_all(path.as_deref(), &first),
        };
        let each = wanted.iter().map(|one| opener.open(one, wanted.len()));
        let current = Current {
            branches: Arc::new(each.collect::<Result<_>>()?),
            settings: Arc::new(settings),
            changes,
        };
        Ok(Self {
            current: Mutex::new(current),
            first,
            opener,
            path,
            owner: (process::geteuid(), process::getegid()),
            since: Timespec::default(),
        })
    }

    /// Branches and options, where something was changed so often. The branches of `nodes` are these
    /// from then on.
    pub fn now(&self, changes: u64, nodes: &Nodes) -> (Arc<Vec<Branch>>, Arc<Settings>) {
        let mut current = self.current.lock();
        // A child of vfork(2) would open branches for itself, and leave them to its parent. What it executes
        // has them all.
        if changes != current.changes && !self.opener.borrows_memory() {
            let (settings, wanted) = read_all(self.path.as_deref(), &self.first);
            current.changes = changes;
            current.settings = Arc::new(settings);
            let same = wanted.len() == current.branches.len()
                && wanted
                    .iter()
                    .zip(&*current.branches)
                    .all(|(one, there)| (&one.mount, one.how) == (&there.tree.mount, there.how));
            if !same {
                let each = wanted.iter();
                let each = each.map(|one| self.opener.open_or_refuse(one, wanted.len()));
                self.install(&mut current, each.collect(), nodes);
            }
        }
        (current.branches.clone(), current.settings.clone())
    }

    /// The branches that were open last.
    pub fn branches(&self) -> Arc<Vec<Branch>> {
        self.current.lock().branches.clone()
    }

    fn install(&self, current: &mut Current, branches: Vec<Branch>, nodes: &Nodes) {
        current.branches = Arc::new(branches);
        nodes.reshape(super::ROOT, &current.branches).give_back();
    }

    /// Tells all processes of the run that option `name` is `value`; false: there are no others.
    fn tell(&self, changing: &Changing<'_>, name: &str, value: &[u8]) -> Result<bool> {
        let Some(path) = &self.path else {
            return Ok(false);
        };
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREAT | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let line = [name.as_bytes(), b"=", value, b"\n"].concat();
        let file = fs::open(path, flags, 0o600)?;
        if fs::write(&file, &line)? != line.len() {
            return Err(Errno::ENOSPC.into());
        }
        changing.note();
        Ok(true)
    }

    /// Sets option `name` of `before` for all processes of the run.
    fn set(
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

/// The branches, and their sources alone.
const BRANCHES: &str = "branches";
const SOURCES: &str = "srcmounts";

/// Names of what is no option.
const TOLD: [&str; 4] = [BRANCHES, SOURCES, "version", "pid"];

/// What the mount was made with, and what the file `path` says was changed since.
fn read_all(path: Option<&CStr>, first: &(Settings, Vec<Wanted>)) -> (Settings, Vec<Wanted>) {
    let (mut settings, mut branches) = first.clone();
    let bytes = path.and_then(|path| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = fs::open(path, flags, 0).ok()?;
        let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            match fs::read(&file, &mut piece).ok()? {
                0 => return Some(bytes),
                count => bytes.extend_from_slice(&piece[..count]),
            }
        }
    });
    for line in bytes.unwrap_or_default().split(|&byte| byte == b'\n') {
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
    (settings, branches)
}

impl Core {
    /// getxattr(2) of the file.
    pub fn control_value(&self, name: &[u8]) -> Result<Vec<u8>> {
        let name = core::str::from_utf8(name).ok();
        let name = name.and_then(|name| name.strip_prefix(PREFIX));
        let name = name.ok_or(Errno::ENODATA)?;
        Ok(match name {
            BRANCHES => {
                let each = self.branches.iter().map(Branch::told);
                each.collect::<Vec<_>>().join(&b':')
            }
            SOURCES => {
                let each = self.branches.iter().map(|branch| escaped(&branch.source));
                each.collect::<Vec<_>>().join(&b':')
            }
            "version" => env!("CARGO_PKG_VERSION").into(),
            "pid" => format!("{}", process::getpid()).into_bytes(),
            name => {
                let told = self.settings().told(name);
                told.ok_or(Errno::ENODATA)?.into_bytes()
            }
        })
    }

    /// listxattr(2) of the file.
    pub fn control_names(&self) -> Vec<u8> {
        let options = super::OPTIONS.iter().map(|option| option.name);
        let settings = self.settings();
        let told = options.filter(|name| settings.told(name).is_some());
        let all = TOLD.into_iter().chain(told);
        let each = all.map(|name| format!("{PREFIX}{name}\0"));
        each.collect::<String>().into_bytes()
    }

    /// setxattr(2) of the file: an option for all processes of the mount.
    pub fn set_option(&self, caller: &Caller<'_>, name: &[u8], value: &[u8]) -> Result<()> {
        caller.may(Access::WRITE, &self.control.attributes())?;
        let name = core::str::from_utf8(name).ok();
        let name = name.and_then(|name| name.strip_prefix(PREFIX));
        let name = name.ok_or(Errno::ENODATA)?;
        // setfattr(1) ends values by a NUL where people write one.
        let value = value.strip_suffix(b"\0").unwrap_or(value);
        match name {
            BRANCHES | SOURCES => self.set_branches(value),
            "version" | "pid" => Err(Errno::EINVAL.into()),
            "cmd.gc" | "cmd.gc1" => {
                self.nodes.forget_recent().give_back();
                Ok(())
            }
            name if self.settings().told(name).is_none() => Err(Errno::ENODATA.into()),
            name => {
                let changing = self.names.change();
                let now = Self::now(self.shared());
                let before = now.settings();
                self.control.set(&changing, before, name, value)
            }
        }
    }
}

impl Core {
    /// Changes the branches by an instruction, for all processes of the mount. A branch that is new is
    /// opened here first: who cannot open it changes nothing.
    fn set_branches(&self, instruction: &[u8]) -> Result<()> {
        let changing = self.names.change();
        let now = Self::now(self.shared());
        let control = &self.control;
        if control.opener.borrows_memory() {
            let why = "by a child of vfork";
            return Err(Error::because(Errno::EOPNOTSUPP, why));
        }
        let wanted = control.opener.changed(&now.branches, instruction)?;
        let mut branches = Vec::new();
        for one in &wanted {
            let branch = control.opener.open(one, wanted.len())?;
            if now.branch_of(&branch).is_none() {
                let can = branch.fs.capabilities();
                agrees(self.capabilities, can, self.elevates).map_err(|error| {
                    error.within(&format!("branch {}", printable(&one.mount.source)))
                })?;
            }
            branches.push(branch);
        }
        match control.tell(&changing, BRANCHES, &encoded(&wanted))? {
            // With those that are open by now.
            true => drop(Self::now(self.shared())),
            false => control.install(&mut control.current.lock(), branches, &self.nodes),
        }
        Ok(())
    }
}

/// `source` as it stands in a list.
fn escaped(source: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    for &byte in source {
        if b":,=\\".contains(&byte) {
            escaped.push(b'\\');
        }
        escaped.push(byte);
    }
    escaped
}

impl Branch {
    /// As the user would write it.
    fn told(&self) -> Vec<u8> {
        [&escaped(&self.source)[..], b"=", &self.how.told()].concat()
    }
}

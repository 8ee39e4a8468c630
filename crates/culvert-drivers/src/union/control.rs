//! Options that change while the mount lives: the extended attributes of `/.mergerfs`, a file that is
//! not listed.
//!
//! What was changed stands in a file of the run directory, a line each, and how often in the word of
//! [`crate::name_changes`]: each process reads the file again when the word is another.

use super::branch::{Branch, Mode};
use super::options::Settings;
use super::state::Core;
use crate::name_changes::Changing;
use crate::{Environment, archive::host::terminated};
use alloc::{ffi::CString, format, string::String, sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU64, Ordering::*};
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

/// The options as they are now.
pub struct Control {
    current: Mutex<Arc<Settings>>,
    /// As the mount was made.
    first: Settings,
    /// How often they had been changed in this run when `current` was read.
    read: AtomicU64,
    path: Option<CString>,
    owner: (u32, u32),
    since: Timespec,
}

impl Control {
    /// Those of the mount with the `number`, which are `first` to begin with.
    pub fn new(number: u64, environment: &Environment<'_>, first: Settings) -> Self {
        let directory = environment.run_directory.filter(|_| !environment.alone);
        let path = directory.and_then(|run| {
            let name = format!("/union-{number:x}.options");
            terminated(&[run, name.as_bytes()].concat()).ok()
        });
        Self {
            current: Mutex::new(Arc::new(first.clone())),
            first,
            read: AtomicU64::new(0),
            path,
            owner: (process::geteuid(), process::getegid()),
            since: Timespec::default(),
        }
    }

    /// The options, which were changed so often.
    fn settings(&self, changes: u64) -> Arc<Settings> {
        if changes != self.read.load(Acquire) {
            let all = self.read_all();
            *self.current.lock() = Arc::new(all);
            self.read.store(changes, Release);
        }
        self.current.lock().clone()
    }

    /// What the mount was made with, and what was changed since.
    fn read_all(&self) -> Settings {
        let mut settings = self.first.clone();
        let bytes = self.path.as_ref().and_then(|path| {
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
            if let (Some(name), Some(value)) = (name, words.next()) {
                // It was checked when it was written.
                let _ = settings.set(name, value);
            }
        }
        settings
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
        if let Some(path) = &self.path {
            let flags = OFlags::WRONLY
                | OFlags::APPEND
                | OFlags::CREAT
                | OFlags::CLOEXEC
                | OFlags::NOFOLLOW;
            let line = [name.as_bytes(), b"=", value, b"\n"].concat();
            let file = fs::open(path, flags, 0o600)?;
            if fs::write(&file, &line)? != line.len() {
                return Err(Errno::ENOSPC.into());
            }
            changing.note();
        } else {
            *self.current.lock() = Arc::new(settings);
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

/// Names of what can only be asked for.
const TOLD: [&str; 3] = ["branches", "version", "pid"];

impl Core {
    /// The options as they are now.
    pub fn settings(&self) -> Arc<Settings> {
        self.control.settings(self.names.count())
    }

    /// getxattr(2) of the file.
    pub fn control_value(&self, name: &[u8]) -> Result<Vec<u8>> {
        let name = core::str::from_utf8(name).ok();
        let name = name.and_then(|name| name.strip_prefix(PREFIX));
        let name = name.ok_or(Errno::ENODATA)?;
        Ok(match name {
            "branches" | "srcmounts" => {
                let each = self.branches.iter().map(Branch::told);
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
            "branches" | "srcmounts" => Err(Error::because(
                Errno::EOPNOTSUPP,
                "branches stay what they are as long as the mount lives",
            )),
            "version" | "pid" => Err(Errno::EINVAL.into()),
            "cmd.gc" | "cmd.gc1" => {
                self.nodes.forget_recent().to(&self.branches);
                Ok(())
            }
            name if self.settings().told(name).is_none() => Err(Errno::ENODATA.into()),
            name => {
                let changing = self.names.change();
                let before = self.settings();
                self.control.set(&changing, &before, name, value)
            }
        }
    }
}

impl Branch {
    /// As the user would write it.
    fn told(&self) -> Vec<u8> {
        let mode = match self.how.mode {
            Mode::ReadWrite => &b"=RW"[..],
            Mode::ReadOnly => b"=RO",
            Mode::NoCreate => b"=NC",
        };
        let least = self.how.least.map(|least| format!(",{least}"));
        [&self.source[..], mode, least.unwrap_or_default().as_bytes()].concat()
    }
}

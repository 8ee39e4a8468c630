//! What the user asks of a union by the extended attributes of `/.mergerfs`.

use super::branch::Branch;
use super::branches::{agrees, encoded};
use super::control::BRANCHES;
use super::listed::spelt;
use super::state::Core;
use crate::archive::warning::printable;
use alloc::{format, string::String, vec::Vec};
use culvert::{Access, Caller, Errno, Error, Result};
use culvert_sys::process;

const PREFIX: &str = "user.mergerfs.";

/// The branches' sources alone.
const SOURCES: &str = "srcmounts";

/// Names of what is no option.
const TOLD: [&str; 4] = [BRANCHES, SOURCES, "version", "pid"];

impl Core {
    /// getxattr(2) of the file.
    pub fn control_value(&self, name: &[u8]) -> Result<Vec<u8>> {
        let name = core::str::from_utf8(name).ok();
        let name = name.and_then(|name| name.strip_prefix(PREFIX));
        let name = spelt(name.ok_or(Errno::ENODATA)?);
        Ok(match &*name {
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
        let name = spelt(name.ok_or(Errno::ENODATA)?);
        // setfattr(1) ends values by a NUL where people write one.
        let value = value.strip_suffix(b"\0").unwrap_or(value);
        match &*name {
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

    /// Changes the branches by an instruction, for all processes of the mount. A branch that is new
    /// is opened here first: who cannot open it changes nothing.
    fn set_branches(&self, instruction: &[u8]) -> Result<()> {
        let changing = self.names.change();
        let now = Self::now(self.shared());
        let control = &self.control;
        if control.opener.borrows_memory() {
            let why = "by a child of vfork";
            return Err(Error::because(Errno::EOPNOTSUPP, why));
        }
        // Else what others have changed would be undone.
        if !control.has_read(self.names.count()) {
            let why = "what was changed before cannot be read now";
            return Err(Error::because(Errno::EAGAIN, why));
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
            false => control.install_now(branches, &self.nodes),
        }
        Ok(())
    }
}

/// `source` as it stands in a list.
fn escaped(source: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    for (at, &byte) in source.iter().enumerate() {
        if b":,=\\".contains(&byte) || (at, byte) == (0, b'(') {
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

//! Changes of attributes: refused, left out, or made otherwise.

use super::core::Core;
use super::options::{Policy, Rules};
use culvert::{Attributes, Caller, Errno, Error, FileKind, Result, Rights, SetAttributes};

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

fn denied(option: &'static str) -> Error {
    Error::because(Errno::EPERM, option)
}

impl Core {
    /// Makes those of `changes` by `set` that `rules` allow, of a file that is `own` below, and
    /// returns what it is then.
    pub fn change(
        &self,
        caller: &Caller<'_>,
        rules: &Rules,
        own: impl Fn() -> Result<Attributes>,
        changes: &SetAttributes,
        set: impl Fn(&SetAttributes) -> Result<Attributes>,
    ) -> Result<Attributes> {
        let (uid, gid) = (changes.uid, changes.gid);
        if uid.is_some() && rules.chown == Policy::Deny {
            return Err(denied("chown-deny"));
        }
        if gid.is_some() && rules.chgrp == Policy::Deny {
            return Err(denied("chgrp-deny"));
        }
        let uid = uid.filter(|_| rules.chown == Policy::Normal);
        let gid = gid.filter(|_| rules.chgrp == Policy::Normal);
        let mut wanted = SetAttributes {
            uid: uid.map(|uid| self.settings.users.own(uid)).transpose()?,
            gid: gid.map(|gid| self.settings.groups.own(gid)).transpose()?,
            ..*changes
        };
        if let Some(mode) = changes.permissions {
            wanted.permissions = self.mode(rules, &own, mode)?;
        }
        let left_out = |asked: bool, made: bool| asked && !made;
        if left_out(changes.uid.is_some(), wanted.uid.is_some())
            || left_out(changes.gid.is_some(), wanted.gid.is_some())
            || left_out(changes.permissions.is_some(), wanted.permissions.is_some())
        {
            self.may_leave_out(caller, &own, changes, &wanted)?;
        }
        // To name nothing at all is a change, too, but not what was asked for.
        if wanted.is_empty() && !changes.is_empty() {
            return own();
        }
        if !self.clears(caller) {
            return set(&wanted);
        }
        if let Some(mode) = &mut wanted.permissions
            && *mode & SET_GROUP_ID != 0
        {
            let file = self.shown(caller, rules, own()?)?;
            if file.kind == FileKind::Regular && !caller.in_group(file.gid) {
                *mode &= !SET_GROUP_ID;
            }
        }
        let changed = set(&wanted)?;
        match changes.size {
            Some(_) if changes.permissions.is_none() => {
                Ok(self.cleared(changed, set)?.unwrap_or(changed))
            }
            _ => Ok(changed),
        }
    }

    /// Whether what `caller` writes loses set-user-ID only if this layer sees to it: the server of
    /// root's writes, with rights by which the kernel leaves it (`file_remove_privs`, fs/inode.c).
    pub fn clears(&self, caller: &Caller<'_>) -> bool {
        self.alone && self.judges && self.acts && !caller.has(Rights::FSETID)
    }

    /// Takes set-user-ID and set-group-ID off by `set` from what is `own`, if that has them.
    pub fn cleared(
        &self,
        own: Attributes,
        set: impl Fn(&SetAttributes) -> Result<Attributes>,
    ) -> Result<Option<Attributes>> {
        let group = match own.permissions & GROUP_EXECUTE != 0 {
            true => SET_GROUP_ID,
            false => 0,
        };
        let taken = own.permissions & (SET_USER_ID | group);
        if own.kind != FileKind::Regular || taken == 0 {
            return Ok(None);
        }
        let changes = SetAttributes {
            permissions: Some(own.permissions & !taken),
            ..SetAttributes::default()
        };
        set(&changes).map(Some)
    }

    /// The mode that chmod(2) of `mode` gives; none where it stays.
    fn mode(
        &self,
        rules: &Rules,
        own: &impl Fn() -> Result<Attributes>,
        mode: u32,
    ) -> Result<Option<u32>> {
        const EXECUTE: u32 = 0o111;
        if rules.chmod == Policy::Normal {
            if rules.chmod_filter.is_empty() {
                return Ok(Some(mode));
            }
            return Ok(Some(rules.chmod_filter.apply(own()?.kind, mode)));
        }
        let now = match rules.chmod_allow_x {
            true => Some(own()?).filter(|own| own.kind == FileKind::Regular),
            false => None,
        };
        let differs = now.map(|now| (now.permissions, now.permissions ^ mode));
        match (rules.chmod, differs) {
            (Policy::Ignore, Some((now, differs))) if differs & EXECUTE != 0 => {
                Ok(Some(now ^ differs & EXECUTE))
            }
            (Policy::Deny, Some((_, differs))) if differs & !EXECUTE == 0 => Ok(Some(mode)),
            (Policy::Deny, _) => Err(denied("chmod-deny")),
            _ => Ok(None),
        }
    }

    /// Whether `caller` could make those of `changes` that are not `wanted` any more: nobody below
    /// is asked. A kernel has judged already, and where what is shown decides the front end has.
    fn may_leave_out(
        &self,
        caller: &Caller<'_>,
        own: &impl Fn() -> Result<Attributes>,
        changes: &SetAttributes,
        wanted: &SetAttributes,
    ) -> Result<()> {
        if self.judges || self.alone || !self.acts {
            return Ok(());
        }
        let file = own()?;
        let any = caller.has(Rights::CHOWN);
        let owns = caller.uid == file.uid;
        let mode = wanted.permissions.is_some() || changes.permissions.is_none();
        let user = changes.uid.filter(|_| wanted.uid.is_none());
        let group = changes.gid.filter(|_| wanted.gid.is_none());
        let may = (mode || caller.is_owner(file.uid))
            && user.is_none_or(|uid| any || owns && uid == file.uid)
            && group.is_none_or(|gid| any || owns && (gid == file.gid || caller.in_group(gid)));
        may.then_some(()).ok_or(Errno::EPERM.into())
    }
}

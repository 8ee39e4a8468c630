//! What changes names, attributes and extended attributes.

use crate::{
    attributes::{attributes, duration},
    connection::Who,
    core::{Core, opcode},
    holders::Account,
    nodes::{Before, DEEPEST, Step},
    words::{RIGHTS, is_read_only},
};
use alloc::vec::Vec;
use culvert::{
    Attributes, Caller, Errno, Error, FileKind, RenameFlags, Result, Rights, SetAttributes,
};
use culvert_slots::Extension;
use culvert_wire::{
    Data, InitFlags, Name, Operation, Text,
    structures::{
        EntryOut, GetxattrIn, LinkIn, MkdirIn, MknodIn, Rename2In, RenameIn, SetattrIn, SetxattrIn,
    },
};

/// The first version with RENAME2 (`fuse_rename2`, fs/fuse/dir.c).
const RENAME2_SINCE: u32 = 23;

/// Bytes that a value, or a list of names, may have (`XATTR_SIZE_MAX`, `XATTR_LIST_MAX`).
const XATTR_MOST: usize = 65536;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;

/// The privileges that a change takes from a file of this mode (`setattr_should_drop_suidgid`,
/// fs/attr.c): the mode without them, none where it stays.
pub fn stripped(mode: u32) -> Option<u32> {
    let group_runs = mode & (SET_GROUP_ID | 0o010) == SET_GROUP_ID | 0o010;
    let gone = mode & SET_USER_ID | if group_runs { SET_GROUP_ID } else { 0 };
    (gone != 0).then_some(mode & !gone)
}

/// `name` as it is sent.
pub fn wire_name(name: &[u8]) -> Result<Name<'_>> {
    Ok(Name::new(name).ok_or(Errno::EINVAL)?)
}

fn text(bytes: &[u8]) -> Result<Text<'_>> {
    Ok(Text::new(bytes).ok_or(Errno::EINVAL)?)
}

impl Core {
    /// The mode to send for something new: the umask is taken off here where it is neither by the
    /// front end nor by the server.
    pub fn new_mode(&self, caller: &Caller<'_>, mode: u32) -> u32 {
        let server = self.connection.agreed.has(InitFlags::DONT_MASK);
        match self.connection.settings.default_permissions || server {
            true => mode,
            false => mode & !(caller.umask & 0o777),
        }
    }

    /// The umask to tell a server: none where the front end has applied it.
    pub fn told_umask(&self, caller: &Caller<'_>) -> u32 {
        match self.connection.settings.default_permissions {
            true => 0,
            false => caller.umask,
        }
    }

    /// `who`, as a request in his name that makes something in directory `dir` has it, with what it
    /// says besides (`get_create_ext`, fs/fuse/dir.c).
    pub fn maker(&self, caller: &Caller<'_>, mut who: Who, dir: u64) -> Result<Who> {
        let agreed = &self.connection.agreed;
        let mut further = None;
        if agreed.has(InitFlags::CREATE_SUPP_GROUP) && !caller.groups.is_empty() {
            // The group that is known, as the kernel's inode has it.
            let known = self.nodes.mostly_known(self.words(), self.moment(), dir);
            let group = match known {
                Some((known, _)) => known.gid,
                None => self.attributes(who, dir)?.gid,
            };
            let is_further = group != caller.gid && caller.groups.contains(&group);
            further = is_further.then_some(group);
        }
        who.sent.extension = Extension {
            group: further,
            labels: agreed.has(InitFlags::SECURITY_CTX),
        };
        Ok(who)
    }

    /// The node that a name led to last, as this process or another has heard.
    fn node_of(&self, (dir, name): (u64, &[u8])) -> Option<u64> {
        let known = self.nodes.last_node(dir, name);
        known.or_else(|| self.words().last_node(dir, name))
    }

    /// Directory `node`, which `at` leads to, and what it is held by: so others learn that it is
    /// gone.
    fn held(&self, at: (u64, &[u8]), node: u64) -> Option<(u64, Account)> {
        let own = self.nodes.account(node);
        let account = own.or_else(|| self.words().last_account(at.0, at.1, node))?;
        Some((node, account))
    }

    /// `name` in `dir`, and `dir` itself, have changed.
    pub fn name_changed(&self, dir: u64, name: &[u8]) -> u64 {
        let words = self.words();
        words.node_modified(dir);
        words.name(dir, name).changed()
    }

    /// A name was made: takes its entry up, as what the name means from now on.
    pub fn made(
        &self,
        mut before: Before,
        at: (u64, &[u8]),
        entry: &EntryOut,
        kind: FileKind,
    ) -> Result<Attributes> {
        let now = self.name_changed(at.0, at.1);
        // Others' changes since the server was asked are not in its answer.
        if now == before.name.wrapping_add(1) {
            before.name = now;
            // One of the changes is this one.
            before.all = before.all.wrapping_add(1);
        }
        if FileKind::of_mode(entry.attr.mode) != Some(kind) && entry.nodeid > 1 {
            self.give_back(alloc::vec![culvert_wire::structures::ForgetOne {
                nodeid: entry.nodeid,
                nlookup: 1,
            }]);
            return Err(Errno::EIO.into());
        }
        self.take_up(&before, at, entry, true)
    }

    /// Makes a name by `operation`, which answers with its entry (`create_new_entry`,
    /// fs/fuse/dir.c).
    fn make(
        &self,
        who: Who,
        at: (u64, &[u8]),
        operation: &Operation<'_>,
        kind: FileKind,
    ) -> Result<Attributes> {
        self.writable()?;
        self.nodes.directory(at.0)?;
        let _changing = self.changing();
        let before = self.before(at.0, at.1, None);
        match self.connection.entry(who, at.0, operation) {
            Ok(entry) => self.made(before, at, &entry, kind),
            Err(error) => {
                // It may be there in spite of it, or have been before.
                self.name_changed(at.0, at.1);
                Err(error)
            }
        }
    }

    /// MKDIR.
    pub fn make_directory(
        &self,
        caller: &Caller<'_>,
        at: (u64, &[u8]),
        mode: u32,
    ) -> Result<Attributes> {
        let mkdir = MkdirIn {
            mode: self.new_mode(caller, mode & 0o7777),
            umask: self.told_umask(caller),
        };
        let name = wire_name(at.1)?;
        let operation = Operation::Mkdir { mkdir, name };
        let who = self.maker(caller, self.who(caller)?, at.0)?;
        self.make(who, at, &operation, FileKind::Directory)
    }

    /// MKNOD.
    pub fn make_node(
        &self,
        caller: &Caller<'_>,
        at: (u64, &[u8]),
        mode: u32,
        rdev: u64,
    ) -> Result<Attributes> {
        let kind = FileKind::of_mode(mode).ok_or(Errno::EINVAL)?;
        if matches!(kind, FileKind::Directory | FileKind::Symlink) {
            return Err(Errno::EINVAL.into());
        }
        let mknod = MknodIn {
            mode: self.new_mode(caller, mode),
            rdev: rdev as u32,
            umask: self.told_umask(caller),
            padding: 0,
        };
        let name = wire_name(at.1)?;
        let operation = Operation::Mknod { mknod, name };
        let who = self.maker(caller, self.who(caller)?, at.0)?;
        self.make(who, at, &operation, kind)
    }

    /// SYMLINK.
    pub fn make_link(
        &self,
        caller: &Caller<'_>,
        at: (u64, &[u8]),
        target: &[u8],
    ) -> Result<Attributes> {
        let operation = Operation::Symlink {
            name: wire_name(at.1)?,
            target: text(target)?,
        };
        let who = self.maker(caller, self.who(caller)?, at.0)?;
        self.make(who, at, &operation, FileKind::Symlink)
    }

    /// LINK.
    pub fn link_node(
        &self,
        caller: &Caller<'_>,
        node: u64,
        at: (u64, &[u8]),
    ) -> Result<Attributes> {
        let who = self.who(caller)?;
        let kind = self.nodes.kind(node)?;
        if kind == FileKind::Directory || self.connection.lacks(opcode::LINK) {
            return Err(Errno::EPERM.into());
        }
        let operation = Operation::Link {
            link: LinkIn { oldnodeid: node },
            name: wire_name(at.1)?,
        };
        let _changing = self.changing();
        let made = self.make(who, at, &operation, kind);
        self.words().node_changed(node);
        match self.connection.unless_lacking(opcode::LINK, made)? {
            Some(attributes) => Ok(attributes),
            None => Err(Errno::EPERM.into()),
        }
    }

    /// UNLINK, or with `directory` RMDIR.
    pub fn remove(&self, caller: &Caller<'_>, at: (u64, &[u8]), directory: bool) -> Result<()> {
        let who = self.who(caller)?;
        self.writable()?;
        self.nodes.directory(at.0)?;
        let seen = self.nodes.seen(at.0, at.1);
        let seen = seen.unwrap_or_else(|| self.words().name(at.0, at.1).now());
        let last = self.node_of(at);
        let name = wire_name(at.1)?;
        let operation = match directory {
            true => Operation::Rmdir { name },
            false => Operation::Unlink { name },
        };
        self.await_closed(last);
        let held = last.filter(|_| directory);
        let held = held.and_then(|node| self.held(at, node));
        let _changing = self.changing();
        let done = self.connection.done(who, at.0, &operation);
        // Where others have changed the name since, another one may have been removed.
        let is_it = self.name_changed(at.0, at.1) == seen.wrapping_add(1);
        if let Some(node) = last {
            self.words().node_changed(node);
        }
        let gone = match &done {
            Ok(()) => true,
            Err(error) => error.errno() == Errno::ENOENT,
        };
        if let Some(held) = held.filter(|_| is_it && done.is_ok()) {
            self.tell_removal(held);
        }
        if gone {
            self.give_back(self.nodes.remove(self.words(), at.0, at.1));
        }
        done
    }

    /// Who has closed a file of `node`, whose name is to go, does not have it open for the server
    /// either: libfuse would give it a name of its own.
    fn await_closed(&self, node: Option<u64>) {
        if let Some(node) = node {
            self.connection.channel.await_closed(node);
        }
    }

    /// RENAME, or RENAME2 where there are flags.
    pub fn move_name(
        &self,
        caller: &Caller<'_>,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Result<()> {
        let who = self.who(caller)?;
        self.writable()?;
        self.nodes.directory(from.0)?;
        self.nodes.directory(to.0)?;
        let names = (wire_name(from.1)?, wire_name(to.1)?);
        // `do_renameat2` and `vfs_rename`, fs/namei.c, which servers rely on: libfuse would wait
        // for itself.
        if from == to {
            let found = self.find(who, from.0, from.1)?;
            self.forget(found.node.0, 1);
            return match flags.no_replace() {
                true => Err(Errno::EEXIST.into()),
                false => Ok(()),
            };
        }
        let seen = self.words().name(to.0, to.1).now();
        let replaced = self.judge_move(who, from, to, flags)?;
        if !flags.exchange() {
            self.await_closed(self.node_of(to));
        }
        let directory = replaced.filter(|&(_, is_directory)| is_directory && !flags.exchange());
        let removed = directory.and_then(|(node, _)| self.held(to, node));
        let _changing = self.changing();
        let done = self.send_move(who, (from.0, to.0), names, flags);
        self.note_move(from, to, flags, (seen, removed), done.is_ok());
        done
    }

    /// What the kernel refuses of a rename before a server hears of it; what `to` leads to, and
    /// whether that is a directory.
    fn judge_move(
        &self,
        who: Who,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Result<Option<(u64, bool)>> {
        // As the kernel, which looks both up before it compares; others may have moved them.
        let leads = |at: (u64, &[u8])| {
            let found = self.find(who, at.0, at.1).ok()?;
            self.forget(found.node.0, 1);
            Some((found.node.0, found.kind == FileKind::Directory))
        };
        let [moved, replaced] = [leads(from), leads(to)];
        let is_above = |end: Option<(u64, bool)>, other: u64| {
            let directory = end.filter(|&(_, is_directory)| is_directory && from.0 != to.0);
            directory.is_some_and(|(node, _)| self.lies_in(who, other, node))
        };
        let errno = match (moved, replaced) {
            (Some(_), Some(_)) if flags.no_replace() => Errno::EEXIST,
            _ if is_above(moved, to.0) => Errno::EINVAL,
            _ if is_above(replaced, from.0) => match flags.exchange() {
                true => Errno::EINVAL,
                false => Errno::ENOTEMPTY,
            },
            _ if flags.exchange() => return Ok(replaced),
            // `may_delete`: libfuse would hide a file that is open, and not see what it was.
            (Some((_, true)), Some((_, false))) => Errno::ENOTDIR,
            (Some((_, false)), Some((_, true))) => Errno::EISDIR,
            _ => return Ok(replaced),
        };
        Err(errno.into())
    }

    /// Asks the server to move the first of `names` in the first of `dirs` to the second.
    fn send_move(
        &self,
        who: Who,
        (from, to): (u64, u64),
        (name, new_name): (Name<'_>, Name<'_>),
        flags: RenameFlags,
    ) -> Result<()> {
        if flags.0 == 0 {
            let operation = Operation::Rename {
                rename: RenameIn { newdir: to },
                name,
                new_name,
            };
            return self.connection.done(who, from, &operation);
        }
        let since = self.connection.agreed.protocol.minor >= RENAME2_SINCE;
        if !since || self.connection.lacks(opcode::RENAME2) {
            return Err(Errno::EINVAL.into());
        }
        let operation = Operation::Rename2 {
            rename: Rename2In {
                newdir: to,
                flags: flags.0,
                padding: 0,
            },
            name,
            new_name,
        };
        let done = self.connection.done(who, from, &operation);
        match self.connection.unless_lacking(opcode::RENAME2, done)? {
            Some(()) => Ok(()),
            None => Err(Errno::EINVAL.into()),
        }
    }

    /// Takes up and tells others what a rename that the server has answered made of both names:
    /// `seen` were the changes of `to` before, `removed` is the directory that it replaces.
    fn note_move(
        &self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        flags: RenameFlags,
        (seen, removed): (u64, Option<(u64, Account)>),
        is_done: bool,
    ) {
        let ends = [from, to];
        let nodes = ends.map(|at| self.nodes.last(at.0, at.1));
        let changed = ends.map(|at| self.node_of(at));
        // This one first: both names may be counted together.
        let is_it = self.name_changed(to.0, to.1) == seen.wrapping_add(1);
        self.name_changed(from.0, from.1);
        for &node in changed.iter().flatten() {
            self.words().node_changed(node);
        }
        if !is_done || is_one_file(nodes, flags) {
            return;
        }
        let [moved, back] = changed;
        if let Some(node) = moved {
            self.tell_move(node, to);
        }
        if let Some(node) = back.filter(|_| flags.exchange()) {
            self.tell_move(node, from);
        }
        if let Some(removed) = removed.filter(|_| is_it) {
            self.tell_removal(removed);
        }
        let back = self.nodes.rename(self.words(), from, to, flags.exchange());
        self.give_back(back);
    }

    /// Whether directory `node` is `above`, or lies in it, as far as that can be known. What this
    /// process knows is asked for at each step, because others may have moved it; then they have
    /// said where it is.
    fn lies_in(&self, who: Who, node: u64, above: u64) -> bool {
        let mut at = node;
        for _ in 0..DEEPEST {
            if at == above {
                return true;
            }
            let words = self.words();
            let is_there = |(dir, name): &Step| match self.find(who, *dir, name) {
                Ok(found) => {
                    self.forget(found.node.0, 1);
                    found.node.0 == at
                }
                // Only others know that directory.
                Err(error) => error.errno() == Errno::ESTALE && self.nodes.kind(*dir).is_err(),
            };
            let told = words.moved(at).map(|moved| (moved.dir, moved.name));
            let places = [self.nodes.place(at), told];
            let Some((dir, _)) = places.into_iter().flatten().find(is_there) else {
                return false;
            };
            at = dir;
        }
        false
    }

    /// `node` was moved to `to`: others, who know another place of it, can learn where it and the
    /// directories above it are.
    fn tell_move(&self, node: u64, to: (u64, &[u8])) {
        let (words, now) = (self.words(), self.connection.now());
        words.remember_move(now, node, to);
        for (node, (dir, name)) in self.nodes.way_up(to.0) {
            // Who has moved that has said so.
            if !words.is_moved(node) {
                words.remember_move(now, node, (dir, &name));
            }
        }
    }

    /// The directory `node`, which is held by `account`, was removed: others learn that it has no
    /// path.
    fn tell_removal(&self, (node, account): (u64, Account)) {
        let now = self.connection.now();
        self.words().remember_removal(now, node, account);
    }

    /// SETATTR (`fuse_setattr`, `fuse_do_setattr`, fs/fuse/dir.c); by the open file `fh` where
    /// there is one. `opening`: for the `O_TRUNC` of an open.
    pub fn change(
        &self,
        who: Who,
        node: u64,
        changes: &SetAttributes,
        fh: Option<u64>,
    ) -> Result<Attributes> {
        self.writable()?;
        let kind = self.nodes.kind(node)?;
        match (changes.size, kind) {
            (Some(_), FileKind::Directory) => return Err(Errno::EISDIR.into()),
            (Some(size), FileKind::Regular) if size > i64::MAX as u64 => {
                return Err(Errno::EFBIG.into());
            }
            (None, _) | (_, FileKind::Regular) => {}
            (Some(_), _) => return Err(Errno::EINVAL.into()),
        }
        let mut setattr = wanted(changes);
        if changes.permissions.is_some() {
            setattr.mode |= kind as u32;
        }
        if let Some(fh) = fh {
            setattr.valid |= SetattrIn::FH;
            setattr.fh = fh;
        }
        if changes.size.is_some() {
            setattr.valid |= SetattrIn::LOCK_OWNER;
            setattr.lock_owner = u64::from(who.sent.pid);
        }
        self.take_privileges(who, node, changes, &mut setattr)?;
        let words = self.words();
        let stamp = words.of_node(node);
        let told = self.connection.channel.notifications();
        let now = self.connection.now();
        let _changing = self.changing();
        let operation = Operation::Setattr { setattr };
        let out = self.connection.attributes(who, node, &operation);
        if changes.size.is_some() {
            words.content(node).changed();
        }
        let changed = words.node_changed(node);
        let stamp = stamp.wrapping_add(RIGHTS);
        let out = out?;
        let found = attributes(node, &out.attr)?;
        let valid = duration(out.attr_valid, out.attr_valid_nsec);
        // Others' changes since the server was asked are not in its answer.
        let expires = match is_read_only(stamp, changed) {
            true => now.saturating_add(valid),
            false => 0,
        };
        self.nodes
            .learn(words, node, &found, expires, (stamp, told))?;
        Ok(found)
    }

    /// What goes with a change of size or owner: said by a flag, left to the server, or done here,
    /// by a mode that is asked for first.
    fn take_privileges(
        &self,
        who: Who,
        node: u64,
        changes: &SetAttributes,
        setattr: &mut SetattrIn,
    ) -> Result<()> {
        let agreed = &self.connection.agreed;
        let owner = changes.uid.is_some() || changes.gid.is_some() || changes.is_empty();
        let size = changes.size.is_some();
        let regular = self.nodes.kind(node)? == FileKind::Regular;
        if agreed.has(InitFlags::HANDLE_KILLPRIV_V2) {
            if size && !who.keeps_privileges {
                setattr.valid |= SetattrIn::KILL_SUIDGID;
            }
            return Ok(());
        }
        let takes = regular && (owner || size && !who.keeps_privileges);
        if !takes || agreed.has(InitFlags::HANDLE_KILLPRIV) || changes.permissions.is_some() {
            return Ok(());
        }
        let last = self.nodes.last_mode(node);
        if last.is_some_and(|mode| stripped(mode).is_none()) {
            return Ok(());
        }
        let found = self.ask_attributes(who, node, None)?;
        if let Some(mode) = stripped(found.permissions) {
            setattr.valid |= SetattrIn::MODE;
            setattr.mode = found.kind as u32 | mode;
        }
        Ok(())
    }

    /// chmod(2) by another than a member of the file's group takes set-group-ID
    /// (`setattr_prepare`, fs/attr.c); only where the server does not judge itself.
    pub fn allowed_mode(
        &self,
        caller: &Caller<'_>,
        node: u64,
        changes: &SetAttributes,
    ) -> Result<SetAttributes> {
        let mut changes = *changes;
        if let Some(mode) = changes.permissions
            && self.connection.settings.default_permissions
            && mode & SET_GROUP_ID != 0
            && !caller.has(Rights::FSETID)
        {
            let gid = match changes.gid {
                Some(gid) => gid,
                None => self.attributes(self.who(caller)?, node)?.gid,
            };
            if !caller.keeps_set_group_id(gid) {
                changes.permissions = Some(mode & !SET_GROUP_ID);
            }
        }
        Ok(changes)
    }

    /// GETXATTR.
    pub fn xattr(&self, who: Who, node: u64, name: &[u8]) -> Result<Vec<u8>> {
        self.nodes.kind(node)?;
        let operation = Operation::Getxattr {
            getxattr: GetxattrIn {
                size: XATTR_MOST as u32,
                padding: 0,
            },
            name: text(name)?,
        };
        self.of_xattrs(opcode::GETXATTR, || {
            self.connection.data(who, node, &operation, XATTR_MOST)
        })
    }

    /// LISTXATTR; `EIO` where it is no list (`fuse_verify_xattr_list`, fs/fuse/xattr.c).
    pub fn xattrs(&self, who: Who, node: u64) -> Result<Vec<u8>> {
        self.nodes.kind(node)?;
        let listxattr = GetxattrIn {
            size: XATTR_MOST as u32,
            padding: 0,
        };
        let operation = Operation::Listxattr { listxattr };
        let names = self.of_xattrs(opcode::LISTXATTR, || {
            self.connection.data(who, node, &operation, XATTR_MOST)
        })?;
        let Some(list) = names.strip_suffix(b"\0") else {
            return match names.is_empty() {
                true => Ok(names),
                false => Err(Errno::EIO.into()),
            };
        };
        match list.split(|&byte| byte == 0).any(<[u8]>::is_empty) {
            true => Err(Errno::EIO.into()),
            false => Ok(names),
        }
    }

    /// SETXATTR.
    pub fn put_xattr(
        &self,
        who: Who,
        node: u64,
        name: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<()> {
        self.writable()?;
        self.nodes.kind(node)?;
        let setxattr = SetxattrIn {
            flags,
            ..SetxattrIn::default()
        };
        let operation = Operation::Setxattr {
            setxattr,
            name: text(name)?,
            value: Data(value),
        };
        let _changing = self.changing();
        let done = self.of_xattrs(opcode::SETXATTR, || {
            self.connection.done(who, node, &operation)
        });
        self.words().node_changed(node);
        done
    }

    /// REMOVEXATTR.
    pub fn take_xattr(&self, who: Who, node: u64, name: &[u8]) -> Result<()> {
        self.writable()?;
        self.nodes.kind(node)?;
        let operation = Operation::Removexattr { name: text(name)? };
        let _changing = self.changing();
        let done = self.of_xattrs(opcode::REMOVEXATTR, || {
            self.connection.done(who, node, &operation)
        });
        self.words().node_changed(node);
        done
    }

    /// A server without extended attributes has none of any name.
    fn of_xattrs<T>(&self, opcode: u32, ask: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.connection.lacks(opcode) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let answer = self.connection.unless_lacking(opcode, ask())?;
        answer.ok_or_else(|| Error::new(Errno::EOPNOTSUPP))
    }
}

/// Whether a rename is of two names of one file: nothing happens to them (rename(2)).
fn is_one_file(nodes: [Option<(u64, FileKind)>; 2], flags: RenameFlags) -> bool {
    let [from, to] = nodes;
    !flags.exchange() && from.is_some() && from == to
}

/// `changes` as SETATTR says them (`iattr_to_fattr`, fs/fuse/dir.c).
fn wanted(changes: &SetAttributes) -> SetattrIn {
    let mut setattr = SetattrIn::default();
    if let Some(mode) = changes.permissions {
        setattr.valid |= SetattrIn::MODE;
        setattr.mode = mode & 0o7777;
    }
    if let Some(uid) = changes.uid {
        setattr.valid |= SetattrIn::UID;
        setattr.uid = uid;
    }
    if let Some(gid) = changes.gid {
        setattr.valid |= SetattrIn::GID;
        setattr.gid = gid;
    }
    if let Some(size) = changes.size {
        setattr.valid |= SetattrIn::SIZE;
        setattr.size = size;
    }
    if let Some(atime) = changes.atime {
        setattr.valid |= SetattrIn::ATIME;
        setattr.atime = atime.seconds as u64;
        setattr.atimensec = atime.nanoseconds;
    }
    if let Some(mtime) = changes.mtime {
        setattr.valid |= SetattrIn::MTIME;
        setattr.mtime = mtime.seconds as u64;
        setattr.mtimensec = mtime.nanoseconds;
    }
    if changes.touch {
        setattr.valid |=
            SetattrIn::ATIME | SetattrIn::ATIME_NOW | SetattrIn::MTIME | SetattrIn::MTIME_NOW;
    }
    setattr
}

//! Opening and closing: OPEN, CREATE, TMPFILE, RELEASE.
//!
//! A handle is the server's, and good in every process. A description that the kernel keeps for
//! several processes (after fork, exec, or by a socket) has one handle, of which each process knows
//! by its own `FuseFile`: who closes it is decided in the words that all
//! share. Until nobody holds a description of its node any more it stays open.

use crate::{
    changes::wire_name,
    connection::Who,
    core::{Core, opcode},
    holders::{Account, Left},
    words::{OPENS, Shared, WORDS},
};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use culvert::{
    Access, Attributes, Caller, Errno, FileKind, Node, OpenFlags, Result, SetAttributes,
};
use culvert_slots::OpenFile;
use culvert_wire::{
    InitFlags, Operation, Text,
    structures::{CreateIn, ForgetOne, MknodIn, OpenIn, OpenOut, ReleaseIn},
};

const O_CREAT: u32 = 0o100;
const O_EXCL: u32 = 0o200;
const O_NOCTTY: u32 = 0o400;
const O_TRUNC: u32 = 0o1000;
/// Of every open by a 64-bit program (`force_o_largefile`, include/linux/fcntl.h).
const O_LARGEFILE: u32 = 0o100000;

/// A handle of the server's.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// None: the server keeps nothing for open files (ENOSYS to OPEN).
    pub fh: Option<u64>,
    /// `FOPEN_*`.
    pub how: u32,
    pub backing: i32,
}

impl From<OpenOut> for Handle {
    fn from(open: OpenOut) -> Self {
        Self {
            fh: Some(open.fh),
            how: open.open_flags,
            backing: open.backing_id,
        }
    }
}

/// States of a file that is open in several processes: nobody's; open.
const FREE: u64 = 0;
const OPEN: u64 = 2;
/// Of the process in the lower bits, which is about to say what it is: that process has it open.
const WRITTEN: u64 = 1 << 62;
/// Of the process in the lower bits, between what it has open and what several have: it is its own
/// where the channel knows so.
const HANDED: u64 = 1 << 61;

/// `identity`, a process's, as it stands in a state of its.
const fn within(identity: u64) -> u64 {
    identity & (HANDED - 1)
}

impl Shared<'_> {
    /// No process of the run with this number ([`crate::place`]) is there any more.
    fn end_files_of_run(self, run: u64) -> Left {
        let mut left = Left::default();
        for [state, handle, node, place, account, _] in (0..OPENS).filter_map(|at| self.open(at)) {
            let is_its = place.load(SeqCst) >> 32 == run >> 32;
            let claimed = || state.compare_exchange(OPEN, HANDED, SeqCst, SeqCst).is_ok();
            if is_its && claimed() {
                left.files.push((node.load(SeqCst), handle.load(SeqCst)));
                self.end_file(state, node.load(SeqCst), account.load(SeqCst), &mut left);
            }
        }
        left
    }

    /// Files of the place `place` ([`crate::place`]) of whose node nobody has a description any
    /// more, and which a process has made one of several that `is_gone`, for until it has done so
    /// it has no such description. What `alone` gives keeps everybody from opening one meanwhile.
    fn end_files_of_nobody<T>(
        self,
        place: u64,
        is_gone: &dyn Fn(u64) -> bool,
        alone: &dyn Fn(u64) -> Option<T>,
    ) -> Left {
        let mut left = Left::default();
        let is_its = |of: &AtomicU64| of.load(SeqCst) == place;
        for [state, handle, node, of, account, by] in (0..OPENS).filter_map(|at| self.open(at)) {
            if state.load(SeqCst) != OPEN || !is_its(of) || !is_gone(by.load(SeqCst)) {
                continue;
            }
            let asked = node.load(SeqCst);
            let Some(_alone) = alone(asked) else {
                continue;
            };
            // Nobody has it, so nobody changes it.
            let is_still = is_its(of) && node.load(SeqCst) == asked;
            let claimed = || state.compare_exchange(OPEN, HANDED, SeqCst, SeqCst).is_ok();
            if is_still && claimed() {
                left.files.push((asked, handle.load(SeqCst)));
                self.end_file(state, asked, account.load(SeqCst), &mut left);
            }
        }
        left
    }

    /// The process `identity` was killed while it made a file of its own one of several, or the
    /// other way round. `is_own` says whether the channel knows that it has file (node, handle)
    /// open: then it is released for that.
    fn end_files_of_process(self, identity: u64, is_own: &dyn Fn(u64, u64) -> bool) -> Left {
        let mut left = Left::default();
        for [state, handle, node, _, account, _] in (0..OPENS).filter_map(|at| self.open(at)) {
            let seen = state.load(SeqCst);
            if seen == WRITTEN | within(identity) {
                let _ = state.compare_exchange(seen, FREE, SeqCst, SeqCst);
            }
            if seen == HANDED | within(identity) {
                let (node, fh) = (node.load(SeqCst), handle.load(SeqCst));
                if !is_own(node, fh) {
                    left.files.push((node, fh));
                }
                self.end_file(state, node, account.load(SeqCst), &mut left);
            }
        }
        left
    }

    /// A file of `node`, whose `state` is the caller's, is not one of several any more.
    fn end_file(self, state: &AtomicU64, node: u64, account: u64, left: &mut Left) {
        state.store(FREE, SeqCst);
        if let Some(account) = Account::of_word(account)
            && !self.has_files(account)
            && let Some(lookups) = self.leave_files(account)
        {
            left.nodes.push((node, lookups));
        }
    }

    /// Whether files that several processes have open hold their node by `account`.
    fn has_files(self, account: Account) -> bool {
        let mut all = (0..OPENS).filter_map(|index| self.open(index));
        all.any(|[state, _, _, _, of, _]| {
            let state = state.load(SeqCst);
            let is_there = state == OPEN || state & HANDED != 0;
            is_there && of.load(SeqCst) == account.word()
        })
    }
}

/// What the run in directory `run` has left, which nobody is part of any more; as
/// [`crate::end_process`].
#[must_use]
pub fn end_run(words: &[AtomicU64], run: &[u8]) -> Left {
    if words.len() < WORDS {
        return Left::default();
    }
    let words = Shared::of(words);
    words.end_files_of_run(crate::place(run, &[]))
}

/// Whether any file is open in several processes, as far as is known.
#[must_use]
pub fn are_shared(words: &[AtomicU64]) -> bool {
    let shared = Shared::of(words);
    let mut all = (0..OPENS).filter_map(|at| shared.open(at));
    words.len() >= WORDS && all.any(|[state, ..]| state.load(SeqCst) == OPEN)
}

/// What processes that were killed have left of files that were open in several of them, at `place`
/// ([`crate::place`]). `is_gone`: the process with this identity; `alone`: nobody has a description
/// of this node, nor gets one while what it gives is kept.
#[must_use]
pub fn end_unheld<T>(
    words: &[AtomicU64],
    place: u64,
    is_gone: &dyn Fn(u64) -> bool,
    alone: &dyn Fn(u64) -> Option<T>,
) -> Left {
    match words.len() < WORDS {
        true => Left::default(),
        false => Shared::of(words).end_files_of_nobody(place, is_gone, alone),
    }
}

/// Whether the process `identity`, which is gone, has left anything for [`end_shares`].
#[must_use]
pub fn has_shares(words: &[AtomicU64], identity: u64) -> bool {
    let states = [WRITTEN | within(identity), HANDED | within(identity)];
    let shared = Shared::of(words);
    let mut all = (0..OPENS).filter_map(|at| shared.open(at));
    words.len() >= WORDS
        && identity != 0
        && all.any(|[state, ..]| states.contains(&state.load(SeqCst)))
}

/// What the process `identity`, which is gone, has left of files that are open in several
/// processes; `is_own` says whether it is noted to have file (node, handle) open. To be asked
/// before what is noted is released.
#[must_use]
pub fn end_shares(words: &[AtomicU64], identity: u64, is_own: &dyn Fn(u64, u64) -> bool) -> Left {
    if words.len() < WORDS || identity == 0 {
        return Left::default();
    }
    Shared::of(words).end_files_of_process(identity, is_own)
}

impl Core {
    fn kills(&self, who: Who, flags: OpenFlags) -> u32 {
        let kills = flags.truncate()
            && self.connection.agreed.has(InitFlags::HANDLE_KILLPRIV_V2)
            && !who.keeps_privileges;
        if kills { OpenIn::KILL_SUIDGID } else { 0 }
    }

    /// OPEN of a regular file (`fuse_file_open`, fs/fuse/file.c).
    pub fn open_file(&self, who: Who, node: u64, flags: OpenFlags) -> Result<Handle> {
        match self.nodes.kind(node)? {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR.into()),
            FileKind::Symlink => return Err(Errno::ELOOP.into()),
            _ => return Err(Errno::ENXIO.into()),
        }
        if flags.write() || flags.truncate() {
            self.writable()?;
        }
        let atomic = self.connection.agreed.has(InitFlags::ATOMIC_O_TRUNC);
        let _changing = flags.truncate().then(|| self.changing());
        let mut sent = flags.0 & !(O_CREAT | O_EXCL | O_NOCTTY) | O_LARGEFILE;
        if !atomic {
            sent &= !O_TRUNC;
        }
        let handle = self.handle(who, node, sent, self.kills(who, flags))?;
        if flags.truncate() {
            if atomic && handle.fh.is_some() {
                self.content_changed(node);
            } else {
                let empty = SetAttributes {
                    size: Some(0),
                    ..SetAttributes::default()
                };
                // Without the handle, which need not be one for writing (`fuse_do_setattr`,
                // fs/fuse/dir.c).
                if let Err(error) = self.change(who, node, &empty, None) {
                    self.release_handle(who, node, &handle, flags.0);
                    return Err(error);
                }
            }
        }
        Ok(handle)
    }

    fn handle(&self, who: Who, node: u64, flags: u32, open_flags: u32) -> Result<Handle> {
        let none = Handle {
            fh: None,
            how: OpenOut::KEEP_CACHE,
            backing: 0,
        };
        if self.connection.lacks(opcode::OPEN) {
            return Ok(none);
        }
        let open = OpenIn { flags, open_flags };
        let operation = Operation::Open { open };
        let answer = self.connection.opened(who, node, &operation);
        let opened = self.connection.unless_lacking(opcode::OPEN, answer)?;
        Ok(opened.map_or(none, Handle::from))
    }

    /// Creates and opens `name` in `dir`, or opens what is there (`fuse_atomic_open`,
    /// fs/fuse/dir.c). One reference.
    pub fn create_file(
        &self,
        caller: &Caller<'_>,
        at: (u64, &[u8]),
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Attributes, Handle)> {
        let who = self.who(caller)?;
        self.nodes.directory(at.0)?;
        let mut tries = 3;
        loop {
            if !self
                .nodes
                .just_absent(self.words(), self.connection.now(), at.0, at.1)
            {
                match self.find(who, at.0, at.1) {
                    Ok(found) => {
                        let opened = self.open_existing(caller, who, &found, flags);
                        if opened.is_err() {
                            self.forget(found.node.0, 1);
                        }
                        return opened;
                    }
                    Err(error) if error.errno() == Errno::ENOENT => {}
                    Err(error) => return Err(error),
                }
            }
            self.writable()?;
            tries -= 1;
            match self.create_new(caller, who, at, flags, mode) {
                // Somebody else was faster.
                Err(error) if error.errno() == Errno::EEXIST && !flags.exclusive() && tries > 0 => {
                }
                made => return made,
            }
        }
    }

    fn open_existing(
        &self,
        caller: &Caller<'_>,
        who: Who,
        found: &Attributes,
        flags: OpenFlags,
    ) -> Result<(Attributes, Handle)> {
        if flags.exclusive() {
            return Err(Errno::EEXIST.into());
        }
        let node = found.node;
        if found.kind == FileKind::Regular && self.connection.settings.default_permissions {
            let writes = flags.write() || flags.truncate();
            let wanted = (u32::from(flags.read()) * 4) | (u32::from(writes) * 2);
            self.judge(caller, node.0, Access(wanted))?;
        }
        let handle = self.open_file(who, node.0, flags)?;
        let attributes = match flags.truncate() {
            true => self.attributes(who, node.0),
            false => Ok(*found),
        };
        let failed = |_: &_| self.release_handle(who, node.0, &handle, flags.0);
        Ok((attributes.inspect_err(failed)?, handle))
    }

    fn create_new(
        &self,
        caller: &Caller<'_>,
        who: Who,
        at: (u64, &[u8]),
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Attributes, Handle)> {
        let mode = self.new_mode(caller, FileKind::Regular as u32 | mode & 0o7777);
        let name = wire_name(at.1)?;
        let maker = self.maker(caller, who, at.0)?;
        let _changing = self.changing();
        let before = self.before(at.0, at.1, None);
        if !self.connection.lacks(opcode::CREATE) {
            let create = CreateIn {
                flags: flags.0 & !O_NOCTTY | O_CREAT | O_LARGEFILE,
                mode,
                umask: self.told_umask(caller),
                open_flags: self.kills(who, flags),
            };
            let operation = Operation::Create { create, name };
            let answer = self.connection.created(maker, at.0, &operation);
            let made = self.connection.unless_lacking(opcode::CREATE, answer);
            match made {
                Ok(Some((entry, open))) => {
                    let handle = Handle::from(open);
                    let failed = |_: &_| self.release_handle(who, entry.nodeid, &handle, flags.0);
                    let made = self.made(before, at, &entry, FileKind::Regular);
                    let made = made.inspect_err(failed)?;
                    if flags.truncate() && !flags.exclusive() {
                        self.cut_if_known(made.node.0);
                    }
                    return Ok((made, handle));
                }
                Ok(None) => {}
                Err(error) => {
                    self.name_changed(at.0, at.1);
                    return Err(error);
                }
            }
        }
        let mknod = MknodIn {
            mode,
            rdev: 0,
            umask: self.told_umask(caller),
            padding: 0,
        };
        let operation = Operation::Mknod { mknod, name };
        let entry = self.connection.entry(maker, at.0, &operation);
        let entry = entry.inspect_err(|_| {
            self.name_changed(at.0, at.1);
        })?;
        let made = self.made(before, at, &entry, FileKind::Regular)?;
        match self.open_file(who, made.node.0, flags) {
            Ok(handle) => Ok((made, handle)),
            Err(error) => {
                self.forget(made.node.0, 1);
                Err(error)
            }
        }
    }

    /// CREATE has cut `node`, unless it was made by that: others who knew it hear so.
    fn cut_if_known(&self, node: u64) {
        let words = self.words();
        let account = self.nodes.account(node);
        if account.is_none_or(|account| words.has_more_lookups(account)) {
            self.content_changed(node);
        }
    }

    /// TMPFILE (`fuse_tmpfile`, fs/fuse/dir.c). One reference.
    pub fn create_unnamed(
        &self,
        caller: &Caller<'_>,
        dir: u64,
        flags: OpenFlags,
        mode: u32,
    ) -> Result<(Attributes, Handle)> {
        let who = self.who(caller)?;
        self.writable()?;
        self.nodes.directory(dir)?;
        if self.connection.lacks(opcode::TMPFILE) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        // `O_TMPFILE` comes with `O_DIRECTORY`.
        const O_TMPFILE: u32 = 0o20200000;
        let create = CreateIn {
            flags: flags.0 & !O_NOCTTY | O_TMPFILE | O_LARGEFILE,
            mode: self.new_mode(caller, FileKind::Regular as u32 | mode & 0o7777),
            umask: self.told_umask(caller),
            open_flags: 0,
        };
        let name = Text::new(b"/").ok_or(Errno::EIO)?;
        let maker = self.maker(caller, who, dir)?;
        let before = self.before(dir, b"", None);
        let operation = Operation::Tmpfile { create, name };
        let answer = self.connection.created(maker, dir, &operation);
        let made = self.connection.unless_lacking(opcode::TMPFILE, answer)?;
        let (entry, open) = made.ok_or(Errno::EOPNOTSUPP)?;
        let handle = Handle::from(open);
        let failed = |_: &_| self.release_handle(who, entry.nodeid, &handle, flags.0);
        let made = self.take_up(&before, (dir, b""), &entry, true);
        let made = made.inspect_err(failed)?;
        self.nodes.unname(made.node.0, dir);
        match made.kind {
            FileKind::Regular => Ok((made, handle)),
            _ => {
                self.release_handle(who, entry.nodeid, &handle, flags.0);
                self.forget(made.node.0, 1);
                Err(Errno::EIO.into())
            }
        }
    }

    /// Gives `count` references of the front end's back.
    pub fn forget(&self, node: u64, count: u64) {
        self.give_back(self.nodes.forget(self.words(), node, count));
    }

    /// RELEASE. Nobody hears of its errors (`fuse_release_common`, fs/fuse/file.c).
    pub fn release_handle(&self, who: Who, node: u64, handle: &Handle, flags: u32) {
        if let Some(fh) = handle.fh {
            let release = ReleaseIn {
                fh,
                flags: flags & !(O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC),
                ..ReleaseIn::default()
            };
            if !self
                .connection
                .close(who, node, &Operation::Release { release })
            {
                self.nodes.keep(self.words(), node);
            }
        }
    }

    /// Several processes have the open file `fh` of `node` from now on: its number among such; none
    /// where there are too many.
    pub fn share(&self, node: u64, fh: u64) -> Option<usize> {
        let words = self.words();
        let own = within(self.connection.channel.identity());
        (0..OPENS).find(|&index| {
            let Some([state, handle, of, place, held, by]) = words.open(index) else {
                return false;
            };
            let written = state.compare_exchange(FREE, WRITTEN | own, SeqCst, SeqCst);
            if written.is_ok() {
                handle.store(fh, SeqCst);
                of.store(node, SeqCst);
                place.store(self.connection.settings.place, SeqCst);
                by.store(self.connection.channel.identity(), SeqCst);
                let account = self.nodes.account(node);
                let account = account.filter(|&account| words.join_files(account));
                held.store(account.map_or(0, Account::word), SeqCst);
                state.store(HANDED | own, SeqCst);
                self.connection.channel.lent(node, fh);
                state.store(OPEN, SeqCst);
            }
            written.is_ok()
        })
    }

    /// Whether number `index` is the open file `fh` of `node`; with the account by which its node
    /// is held.
    pub fn is_shared(&self, index: usize, node: u64, fh: u64) -> Option<Option<Account>> {
        let [state, handle, of, place, account, _] = self.words().open(index)?;
        let is_open = state.load(SeqCst) == OPEN && handle.load(SeqCst) == fh;
        let here = place.load(SeqCst) == self.connection.settings.place;
        let is_it = is_open && of.load(SeqCst) == node && here;
        is_it.then(|| Account::of_word(account.load(SeqCst)))
    }

    /// This process does not have an open file of `node` any more that several had. Where nobody
    /// has one, all such are closed.
    pub fn end_shared(&self, who: Who, node: u64) {
        let Some(in_use) = self.connection.settings.in_use else {
            return;
        };
        if in_use(Node(node)) {
            return;
        }
        let (words, here) = (self.words(), self.connection.settings.place);
        let channel = &self.connection.channel;
        let own = within(channel.identity());
        let mut accounts = Vec::new();
        let all = (0..OPENS).filter_map(|index| words.open(index));
        for [state, handle, of, place, account, _] in all {
            let is_open = state.load(SeqCst) == OPEN && of.load(SeqCst) == node;
            // Of another run's nothing is known here.
            if !is_open || place.load(SeqCst) != here {
                continue;
            }
            let (fh, account) = (handle.load(SeqCst), account.load(SeqCst));
            if state
                .compare_exchange(OPEN, HANDED | own, SeqCst, SeqCst)
                .is_ok()
            {
                let closed = Handle {
                    fh: Some(fh),
                    how: 0,
                    backing: 0,
                };
                channel.opened(&OpenFile {
                    node,
                    handle: fh,
                    flags: 0,
                    is_directory: false,
                });
                state.store(FREE, SeqCst);
                self.release_handle(who, node, &closed, 0);
                accounts.extend(Account::of_word(account));
            }
        }
        for account in accounts {
            if !words.has_files(account)
                && let Some(nlookup) = words.leave_files(account)
            {
                let nodeid = node;
                self.give_back(alloc::vec![ForgetOne { nodeid, nlookup }]);
            }
        }
    }
}

//! Asking a server: from an operation to its checked answer.

use crate::{
    Settings,
    capabilities::Agreed,
    words::{Shared, Words},
};
use alloc::{boxed::Box, vec::Vec};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use culvert::{Caller, Errno, Error, Result, Rights, sync::Mutex};
use culvert_slots::{Channel, Extension, Payload};
use culvert_sys::clock::Clock;
use culvert_wire::{
    Answer, Expects, Message, Operation, Plain,
    structures::{
        AttrOut, EntryOut, InitOut, IoctlOut, LkOut, LseekOut, OpenOut, PollOut, StatfsOut,
        StatxOut,
    },
};

/// The longest answer that is no data.
const FIXED: usize = 160;

/// A server, and what was agreed on with it.
pub struct Connection {
    pub channel: Box<dyn Channel>,
    pub agreed: Agreed,
    pub settings: Settings,
    words: Words,
    clock: Clock,
    /// RELEASE, RELEASEDIR and FORGET for which there was no room, or before which a signal came:
    /// they go before the next request.
    owed: Mutex<Vec<Owed>>,
    owes: AtomicBool,
}

struct Owed {
    who: Who,
    node: u64,
    opcode: u32,
    body: Vec<u8>,
}

/// For whom a request is made.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    /// As the header says.
    pub sent: culvert_slots::Caller,
    /// It may leave set-user-ID where others' changes take it (`CAP_FSETID`).
    pub keeps_privileges: bool,
}

/// An answer that is no data, as `$name` has it.
macro_rules! answers {
    ($($(#[$meta:meta])* $name:ident -> $type:ty = $pattern:pat => $value:expr;)*) => {
        impl Connection {
            $($(#[$meta])* pub fn $name(&self, who: Who, node: u64, operation: &Operation<'_>) -> Result<$type> {
                self.ask(who, node, operation, |answer| match answer {
                    $pattern => Some($value),
                    _ => None,
                })
            })*
        }
    };
}

answers! {
    /// Nothing but that it was done.
    done -> () = Answer::Done {} => ();
    /// A node.
    entry -> EntryOut = Answer::Entry { entry } => entry;
    /// Attributes.
    attributes -> AttrOut = Answer::Attributes { attributes } => attributes;
    /// An open file.
    opened -> OpenOut = Answer::Opened { open } => open;
    /// A node that was made and opened.
    created -> (EntryOut, OpenOut) = Answer::Created { entry, open } => (entry, open);
    /// How many bytes were copied.
    written -> u64 = Answer::Written { written } => u64::from(written.size);
    /// The same in 64 bits.
    copied -> u64 = Answer::Copied { copied } => copied.bytes_copied;
    /// statfs(2).
    statfs -> StatfsOut = Answer::Statfs { statfs } => statfs;
    /// A lock.
    lock -> LkOut = Answer::Lock { lock } => lock;
    /// An offset.
    offset -> LseekOut = Answer::Offset { offset } => offset;
    /// What is ready.
    ready -> PollOut = Answer::Ready { ready } => ready;
}

impl Connection {
    /// The server at the other end of `channel`.
    pub fn new(channel: Box<dyn Channel>, settings: Settings) -> Result<Self> {
        let init = InitOut::from_prefix(&channel.init_reply());
        let agreed = Agreed::of(&init, channel.largest())?;
        Ok(Self {
            words: Words::of(&*channel),
            channel,
            agreed,
            settings,
            clock: Clock::new(),
            owed: Mutex::new(Vec::new()),
            owes: AtomicBool::new(false),
        })
    }

    /// What all clients share.
    pub fn words(&self) -> Shared<'_> {
        self.words.get(&*self.channel)
    }

    /// This process has a place among those that hold nodes, from here on.
    pub fn settle_place(&self) {
        self.words.settle(&*self.channel);
    }

    /// It holds none any more.
    pub fn leave_place(&self) {
        self.words.leave(&*self.channel);
    }

    /// Nanoseconds since some moment.
    pub fn now(&self) -> u64 {
        self.clock.steady()
    }

    /// For whom requests of `caller` are made; `EACCES`: it is another than the owner, of whom
    /// there is no word that others may (`fuse_allow_current_process`, fs/fuse/dir.c).
    pub fn who(&self, caller: &Caller<'_>) -> Result<Who> {
        let (uid, _) = self.settings.owner;
        if caller.is_system() {
            return Ok(self.owner());
        }
        if caller.uid != uid && !self.settings.allow_other {
            return Err(Errno::EACCES.into());
        }
        Ok(Who {
            sent: culvert_slots::Caller {
                uid: caller.uid,
                gid: caller.gid,
                pid: caller.pid,
                extension: Extension::default(),
            },
            keeps_privileges: caller.has(Rights::FSETID),
        })
    }

    /// Nobody: what the client does for itself.
    pub fn owner(&self) -> Who {
        let (uid, gid) = self.settings.owner;
        Who {
            sent: culvert_slots::Caller {
                uid,
                gid,
                pid: 0,
                extension: Extension::default(),
            },
            keeps_privileges: true,
        }
    }

    /// Whether the server does not have request `opcode`.
    pub fn lacks(&self, opcode: u32) -> bool {
        self.words().lacks(opcode)
    }

    /// `answer` to request `opcode`, with ENOSYS remembered: none then.
    pub fn unless_lacking<T>(&self, opcode: u32, answer: Result<T>) -> Result<Option<T>> {
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.errno() == Errno::ENOSYS => {
                self.words().has_not(opcode);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn ask<T>(
        &self,
        who: Who,
        node: u64,
        operation: &Operation<'_>,
        pick: impl FnOnce(Answer<'_>) -> Option<T>,
    ) -> Result<T> {
        let expects = operation.expects().ok_or(Errno::EIO)?;
        let mut bytes = [0; FIXED];
        let mut length = 0;
        self.call(who, node, operation, &mut |reply| {
            if reply.len() > FIXED {
                return Err(Errno::EIO);
            }
            length = reply.read(0, &mut bytes);
            self.note_opened(operation, node, bytes.get(..length).unwrap_or_default());
            Ok(())
        })?;
        let bytes = bytes.get(..length).unwrap_or_default();
        let answer = Answer::decode(bytes, expects, &self.agreed.protocol);
        let answer = answer.map_err(|error| malformed(operation, error))?;
        pick(answer).ok_or_else(|| Errno::EIO.into())
    }

    /// An answer of at most `most` bytes of data.
    pub fn data(
        &self,
        who: Who,
        node: u64,
        operation: &Operation<'_>,
        most: usize,
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.call(who, node, operation, &mut |reply| {
            if reply.len() > most {
                return Err(Errno::EIO);
            }
            bytes
                .try_reserve_exact(reply.len())
                .map_err(|_| Errno::ENOMEM)?;
            bytes.resize(reply.len(), 0);
            reply.read(0, &mut bytes);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// An answer to IOCTL: what it returns, and its data, at most `most` bytes.
    pub fn ioctl(
        &self,
        who: Who,
        node: u64,
        operation: &Operation<'_>,
        most: usize,
    ) -> Result<(IoctlOut, Vec<u8>)> {
        let bytes = self.data(who, node, operation, size_of::<IoctlOut>() + most)?;
        match Answer::decode(&bytes, Expects::Ioctl, &self.agreed.protocol) {
            Ok(Answer::Ioctl { ioctl, data }) => Ok((ioctl, data.0.to_vec())),
            _ => Err(Errno::EIO.into()),
        }
    }

    /// An answer to STATX.
    pub fn statx(&self, who: Who, node: u64, operation: &Operation<'_>) -> Result<StatxOut> {
        let bytes = self.data(who, node, operation, size_of::<StatxOut>())?;
        match Answer::decode(&bytes, Expects::Statx, &self.agreed.protocol) {
            Ok(Answer::Statx { statx }) => Ok(statx),
            _ => Err(Errno::EIO.into()),
        }
    }

    /// Asks `operation` and lets `take` see the answer.
    fn call(
        &self,
        who: Who,
        node: u64,
        operation: &Operation<'_>,
        take: &mut dyn FnMut(&Payload<'_>) -> core::result::Result<(), Errno>,
    ) -> Result<()> {
        self.settle();
        let (opcode, body) = operation
            .body(&self.agreed.protocol)
            .map_err(|error| malformed(operation, error))?;
        let fill = &mut |place: &Payload<'_>| put(&body, place);
        let length = body.length();
        Ok(self
            .channel
            .call(who.sent, opcode, node, length, fill, take)?)
    }

    /// Asks `operation`, which has no answer; later, where there is no room now or a signal came.
    pub fn send(&self, who: Who, node: u64, operation: &Operation<'_>) -> Result<()> {
        self.settle();
        let (opcode, bytes) = self.whole(operation)?;
        match self.channel.send(who.sent, opcode, node, &bytes) {
            Err(Errno::EAGAIN) => {
                self.owe(who, node, opcode, bytes);
                Ok(())
            }
            sent => Ok(sent?),
        }
    }

    /// The number of `operation`'s request, and its body.
    fn whole(&self, operation: &Operation<'_>) -> Result<(u32, Vec<u8>)> {
        let (opcode, body) = operation
            .body(&self.agreed.protocol)
            .map_err(|error| malformed(operation, error))?;
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(body.length())
            .map_err(|_| Errno::ENOMEM)?;
        bytes.resize(body.length(), 0);
        body.copy_to(&mut bytes).ok_or(Errno::EIO)?;
        Ok((opcode, bytes))
    }

    fn owe(&self, who: Who, node: u64, opcode: u32, body: Vec<u8>) {
        self.owed.lock().push(Owed {
            who,
            node,
            opcode,
            body,
        });
        self.owes.store(true, Relaxed);
    }

    /// Sends what is owed, as far as there is room.
    fn settle(&self) {
        if !self.owes.load(Relaxed) {
            return;
        }
        let mut owed = core::mem::take(&mut *self.owed.lock());
        owed.retain(|one| {
            let sent = self
                .channel
                .send(one.who.sent, one.opcode, one.node, &one.body);
            sent == Err(Errno::EAGAIN)
        });
        let mut all = self.owed.lock();
        all.append(&mut owed);
        self.owes.store(!all.is_empty(), Relaxed);
    }

    /// This process is the child of a fork: its parent closes what it has opened, and gives back
    /// what it has looked up.
    pub fn forked(&self) {
        self.owed.lock().clear();
        self.owes.store(false, Relaxed);
        self.channel.forked();
        self.words.forked();
    }

    /// RELEASE or RELEASEDIR, whose answer nobody waits for (`fuse_file_put`, fs/fuse/file.c),
    /// unless there is no room: whether it is under way. The channel sends no FORGET of the node
    /// before it is answered: a server with several threads may carry that out first, and libfuse
    /// ends itself then.
    pub fn close(&self, who: Who, node: u64, operation: &Operation<'_>) -> bool {
        self.settle();
        let Ok((opcode, body)) = self.whole(operation) else {
            return true;
        };
        let (full, sent) = (Err(Errno::EAGAIN), who.sent);
        if self.channel.send(sent, opcode, node, &body) != full {
            return true;
        }
        // After a signal there may be room now.
        match self.call(who, node, operation, &mut |_| Ok(())) {
            Err(error)
                if error.errno() == Errno::EAGAIN
                    && self.channel.send(sent, opcode, node, &body) == full =>
            {
                self.owe(who, node, opcode, body);
                false
            }
            _ => true,
        }
    }

    /// The same, whose answer is waited for.
    pub fn close_and_wait(&self, who: Who, node: u64, operation: &Operation<'_>) {
        let _ = self.call(who, node, operation, &mut |_| Ok(()));
    }
}

/// Puts a body to the beginning of `place`.
fn put(body: &Message<'_>, place: &Payload<'_>) -> core::result::Result<(), Errno> {
    let mut at = 0;
    for piece in core::iter::once(body.head()).chain(body.pieces().iter().copied()) {
        if place.write(at, piece) != piece.len() {
            return Err(Errno::EIO);
        }
        at += piece.len();
    }
    Ok(())
}

/// The error for an answer that is none.
fn malformed(operation: &Operation<'_>, error: culvert_wire::Malformed) -> Error {
    let name = match operation {
        Operation::Lookup { .. } => "LOOKUP",
        Operation::Getattr { .. } => "GETATTR",
        Operation::Create { .. } => "CREATE",
        Operation::Open { .. } => "OPEN",
        _ => "a request",
    };
    Error::because(
        Errno::EIO,
        alloc::format!("the server's answer to {name}: {error}"),
    )
}

//! What makes records of operations.

use super::{
    pipe::Pipe,
    record::{Record, What},
};
use alloc::sync::Arc;
use culvert::{Attributes, Caller, Errno, Node, Operation, Reached, Result, SetAttributes};

/// On whose behalf the calling thread is in the driver.
pub type Asks = fn() -> Caller<'static>;

/// What makes records of operations: the same for the file system and its files.
#[derive(Clone)]
pub struct Recorder {
    pipe: Arc<Pipe>,
    caller: Option<Asks>,
}

impl Recorder {
    /// Sends by `pipe`, and asks `caller` on whose behalf.
    pub const fn new(pipe: Arc<Pipe>, caller: Option<Asks>) -> Self {
        Self { pipe, caller }
    }

    /// This process is the child of a fork.
    pub fn forked(&self) {
        self.pipe.forked();
    }

    /// The time, nanoseconds since the epoch.
    pub fn now(&self) -> u64 {
        self.pipe.now()
    }

    /// Sends `record` of what `began` then and has the result `done`.
    pub fn ended<T>(&self, record: Record<'_>, began: u64, done: &Result<T>) {
        let caller = match self.caller {
            Some(caller) => caller(),
            None => Caller::SYSTEM,
        };
        self.pipe.meet(caller.pid);
        self.pipe.send(Record {
            began,
            took: self.now().saturating_sub(began),
            errno: done
                .as_ref()
                .err()
                .map_or(0, |error| error.errno().raw() as u16),
            caller: (caller.pid, caller.uid, caller.gid),
            ..record
        });
    }

    /// The same where `record` knows of a failure that is none of the driver's.
    pub fn reached(&self, record: Record<'_>, began: u64, done: &Result<Reached>) {
        match (record.errno, done) {
            (0, _) | (_, Err(_)) => self.ended(record, began, done),
            (errno, Ok(_)) => {
                let failed: Result<()> = Err(Errno::new(i32::from(errno)).into());
                self.ended(record, began, &failed);
            }
        }
    }

    /// Carries out `work`, a change of attributes, and sends `record` of it, with the mode that the
    /// file has then.
    pub fn changing(
        &self,
        record: Record<'_>,
        work: impl FnOnce() -> Result<Attributes>,
    ) -> Result<Attributes> {
        let began = self.now();
        let done = work();
        let found = done.as_ref().map_or(0, |now| u64::from(now.mode()));
        self.ended(Record { found, ..record }, began, &done);
        done
    }

    /// Carries out `work`, and sends `record` of it.
    pub fn around<T>(&self, record: Record<'_>, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let began = self.now();
        let done = work();
        self.ended(record, began, &done);
        done
    }
}

/// A record of changes to `node`: the bits of `numbers[0]` say of which, in the order of
/// `SetAttributes`; then come permissions, user and group, size.
pub fn changed(node: Node, changes: &SetAttributes) -> Record<'static> {
    let times = changes.atime.is_some() || changes.mtime.is_some();
    let bits = [
        changes.permissions.is_some(),
        changes.uid.is_some(),
        changes.gid.is_some(),
        changes.size.is_some(),
        times,
    ];
    let bits = bits.iter().enumerate();
    let owner = |id: Option<u32>| u64::from(id.unwrap_or(u32::MAX));
    Record {
        numbers: [
            bits.fold(0, |all, (at, is)| all | u64::from(*is) << at),
            u64::from(changes.permissions.unwrap_or(0)),
            owner(changes.uid) | owner(changes.gid) << 32,
            changes.size.unwrap_or(0),
        ],
        ..Record::new(What::Operation(Operation::SetAttributes), node)
    }
}

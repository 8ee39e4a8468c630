//! Reads and writes at the offset of a description take turns, and a driver may wait in one. That
//! holds up no fork: the description becomes the kernel's all the same, and the turn a lock of its
//! node's, so that whoever has a descriptor of it by then, in another process too, waits for the
//! turn's end, as for `f_pos_lock` natively (`fdget_pos`, fs/file.c).

use super::{Knower, knower};
use crate::description::offset::{Turn, any_far, kernel_seek, own_block};
use crate::description::{Description, SharedOn};
use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;
use culvert::Errno;
use culvert_intercept::multi_threaded;
use culvert_run::node_locks::NodeLock;
use culvert_run::node_shares::Together;
use culvert_sys::waits::Holding;

/// A turn at the offset of a description, which may be shared by now.
struct OwnTurn<'a> {
    description: &'a Description,
    /// The offset that it leaves, where it is another one than before, and a descriptor of the
    /// description.
    leaves: Option<(i32, u64)>,
    /// Where the driver's own file may become the descriptor, of which no lock of ours keeps others
    /// away: who forks waits.
    _holding: Option<Holding>,
}

impl<'a> OwnTurn<'a> {
    fn take(description: &'a Description) -> Self {
        let _holding = description.may_be_direct().then(Holding::new);
        description.offset.turns.take();
        description.offset.owner.store(own_block(), Relaxed);
        Self {
            description,
            leaves: None,
            _holding,
        }
    }
}

impl Drop for OwnTurn<'_> {
    #[inline]
    fn drop(&mut self) {
        let offset = &self.description.offset;
        offset.owner.store(0, Relaxed);
        while !offset.turns.end() {
            let lent = {
                let mut lent = offset.lent.lock();
                offset.turns.heed();
                lent.take()
            };
            if let Some((fd, at)) = self.leaves.take_if(|_| self.description.is_shared()) {
                self.description.seek_any(fd, at);
            }
            drop(lent);
        }
    }
}

impl Description {
    /// Runs `io` at the description's offset, exclusively, and leaves the offset where it says; the
    /// result is passed on. `fd` is one of the description's descriptors. Other threads may fork
    /// where `io` waits in a driver.
    #[inline]
    pub fn at_offset<R>(&self, fd: i32, io: impl FnOnce(&mut u64) -> R) -> Result<R, Errno> {
        self.at_offset_locked(fd, io, || {
            let locks = &culvert_run::get().node_locks;
            locks.lock_beside_forks(self.name())
        })
    }

    #[inline]
    fn at_offset_locked<R>(
        &self,
        fd: i32,
        io: impl FnOnce(&mut u64) -> R,
        lock: impl FnOnce() -> NodeLock<'static>,
    ) -> Result<R, Errno> {
        let io = match self.privately(fd, io) {
            Ok(result) => return Ok(result),
            Err(_) if self.is_direct() => return Err(crate::answer::FORWARD),
            Err(io) => io,
        };
        let _lock = lock();
        let mut offset = kernel_seek(fd, 0, 1)?;
        let before = offset;
        let result = io(&mut offset);
        if offset != before {
            kernel_seek(fd, offset as i64, 0)?;
        }
        Ok(result)
    }

    /// The same for a write of the file, which is told how it has it.
    #[inline]
    pub fn at_offset_writing<R>(
        &self,
        fd: i32,
        io: impl FnOnce(&mut u64, &Turn) -> R,
    ) -> Result<R, Errno> {
        let mut io = Some(io);
        let mut run =
            |offset: &mut u64, turn: &Turn| io.take().map(|io| io(offset, turn)).ok_or(Errno::EIO);
        let privately = self.privately(fd, |offset| {
            run(offset, &self.turn_to_write(Together::Write))
        });
        let locks = &culvert_run::get().node_locks;
        match privately.ok() {
            Some(result) => result,
            None => {
                let io = |offset: &mut u64| run(offset, &Turn::Alone(None));
                self.at_offset_locked(fd, io, || locks.lock(self.name()))?
            }
        }
    }

    /// Runs `io`, which changes the file, exclusively, and leaves the description's offset where it
    /// says, which need not be where it was: one system call less where the kernel keeps it, so
    /// that `io` knows only a private offset, and one that may be too large. The node is locked as
    /// by
    /// [`Description::at_offset_writing`].
    pub fn to_offset<R>(
        &self,
        fd: i32,
        io: impl FnOnce(Option<u64>, &Turn) -> Result<(u64, R), Errno>,
    ) -> Result<R, Errno> {
        let mut io = Some(io);
        let mut run =
            |before, turn: &Turn| io.take().map_or(Err(Errno::EIO), |io| io(before, turn));
        let privately = self.privately(fd, |offset| {
            let (to, result) = run(Some(*offset), &self.turn_to_write(Together::Append))?;
            *offset = to;
            Ok(result)
        });
        match privately.ok() {
            Some(result) => return result,
            None if self.is_direct() => return Err(crate::answer::FORWARD),
            None => {}
        }
        let _lock = culvert_run::get().node_locks.lock(self.name());
        let before = any_far().then(|| kernel_seek(fd, 0, 1)).transpose()?;
        let (to, result) = run(before, &Turn::Alone(None))?;
        kernel_seek(fd, to as i64, 0)?;
        Ok(result)
    }

    /// Runs `io` at the offset of a private description; gives it back when it is shared, or was
    /// when the turn came.
    #[inline]
    fn privately<R, F: FnOnce(&mut u64) -> R>(&self, fd: i32, io: F) -> Result<R, F> {
        if self.is_shared() {
            return Err(io);
        }
        if multi_threaded() {
            return self.in_turn(fd, io);
        }
        // No other thread exists, and a hook is never re-entered by the same thread (signals are
        // deferred to its end).
        let mut at = self.offset.value.load(Relaxed);
        let result = io(&mut at);
        self.offset.value.store(at, Relaxed);
        Ok(result)
    }

    fn in_turn<R, F: FnOnce(&mut u64) -> R>(&self, fd: i32, io: F) -> Result<R, F> {
        let mut turn = OwnTurn::take(self);
        if self.is_shared() {
            return Err(io);
        }
        let before = self.offset.value.load(Relaxed);
        let mut at = before;
        let result = io(&mut at);
        if at != before {
            self.offset.value.store(at, Relaxed);
            turn.leaves = Some((fd, at));
        }
        Ok(result)
    }

    /// Makes the kernel the keeper: `replace` is given the offset and makes the description's
    /// descriptors ones of a file, while no other thread begins to read or write at it; it says
    /// whether that is the driver's own or a shadow. Nothing happens to one that is shared already.
    pub fn hand_over(
        &self,
        replace: impl FnOnce(u64) -> Result<SharedOn, Errno>,
    ) -> Result<(), Errno> {
        self.give_offset(|offset| replace(offset).map(|kept| self.become_shared(&kept)))
            .unwrap_or(Ok(()))
    }

    /// Runs `hand_over` with the private offset, so that the kernel keeps it from then on where
    /// that says so. A turn that is under way goes on, and a lock of the node's stands for it. Not
    /// run (none) when the description is shared already.
    pub(super) fn give_offset<R>(
        &self,
        hand_over: impl FnOnce(u64) -> Result<R, Errno>,
    ) -> Option<Result<R, Errno>> {
        let _turn = (multi_threaded() && self.may_be_direct()).then(|| OwnTurn::take(self));
        let mut lent = multi_threaded().then(|| self.offset.lent.lock());
        if self.is_shared() {
            return None;
        }
        let mut between = false;
        let mut stands = None;
        if lent.is_some() && _turn.is_none() {
            between = self.offset.turns.take_or_tell();
            if !between {
                stands = culvert_run::get().node_locks.lend(self.name());
            }
        }
        let result = hand_over(self.offset.value.load(Relaxed));
        if let Some(lent) = &mut lent
            && result.is_ok()
        {
            **lent = stands;
        }
        if between {
            // Nobody tells whose turn it is without `lent`.
            let _ = self.offset.turns.end();
        }
        Some(result)
    }

    /// Sets the offset that the kernel keeps, by `fd` if that is a descriptor of it still, which
    /// another thread may have closed, or by another one.
    #[cold]
    fn seek_any(&self, fd: i32, to: u64) {
        let table = super::table();
        let _changes = table.changing();
        let mut by = matches!(knower(), Knower::Kernel).then_some(fd);
        table.each(|other, candidate| {
            if core::ptr::eq(Arc::as_ptr(candidate), self) && by != Some(fd) {
                by = Some(other);
            }
        });
        if let Some(Err(error)) = by.map(|fd| kernel_seek(fd, to as i64, 0)) {
            culvert_sys::log!("descriptor {fd} stays at the offset before its read: {error}");
        }
    }
}

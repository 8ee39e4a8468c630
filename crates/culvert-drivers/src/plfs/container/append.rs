//! Where appends go: each behind all others, by the synchronisation service or by locks.
//!
//! First the writer adds his bytes to his own dropping, where they are no part of the file yet: so
//! he knows how many there are, whatever ends them (space, the program's memory), before he has a
//! position, and nobody waits for them.
//!
//! With a service: the writer locks the file [`APPENDS`] shared, takes a position in the memory
//! that the service shares, or asks for one, writes the record, and releases the lock. So nobody
//! begins to give out positions, or appends without asking for one, while somebody is under way
//! with one (the other side: `culvert-sync/src/files.rs`). Whoever is killed has released the lock;
//! the position that he had was never data.
//!
//! Without: the writer locks it exclusively, and finds the end by himself. Where machines see each
//! other's writes when they were synced, the writer syncs before it releases the lock.

use super::{Container, State};
use crate::OwnedFd;
use crate::plfs::forks::forks;
use crate::plfs::service::{Connection, Memory, Service};
use crate::plfs::writer::Written;
use crate::plfs::{host, locks, meta};
use alloc::sync::Arc;
use culvert::{Errno, Result, Source};
use culvert_sync_wire::memory::{Place, Taken};
use culvert_sync_wire::{APPENDS, Answer, Ask, FileId, HOLDER, Request};
use culvert_sys::fd::BorrowedFd;

/// How often a position is asked for: a turn may end at any time. Then locks do.
const TRIES: usize = 4;

/// For how long a service that refuses to hold a file is not asked again, nanoseconds.
const REFUSED: u64 = 1_000_000_000;

/// After so many writes that are no appends the service is to hold the file: what each of them
/// tells is then a word in memory.
const WRITES: u32 = 16;

/// What this process knows of the service's turn with a file.
#[derive(Clone)]
pub struct Turn {
    number: u64,
    /// The service knows from this process how large the file is.
    told: bool,
    /// Where the positions are; none: the service is asked.
    place: Option<(Arc<Memory>, Place)>,
}

impl Turn {
    /// Whether it is told by the memory that the file reaches to `end`. That was so before the turn
    /// was over, if the service lives afterwards.
    fn reach(&self, end: u64) -> bool {
        self.place.as_ref().is_some_and(|(memory, place)| {
            let table = memory.table();
            matches!(table.reach(*place, end), Taken::Position(_)) && table.lives()
        })
    }
}

enum Outcome {
    Done(u64, usize),
    /// The turn is over.
    Over,
    /// There is no service.
    None,
}

impl Container {
    /// The description of [`APPENDS`] that this process locks.
    fn lock_file(&self, state: &mut State) -> Result<BorrowedFd<'static>> {
        // The description must be this process's own.
        if state.lock.as_ref().is_none_or(|(made, _)| *made != forks()) {
            let opened = locks::open(self.dir.fd(), APPENDS.as_bytes())?;
            state.lock = Some((forks(), self.setup.keeper.keep(opened)));
        }
        let number = state.lock.as_ref().map_or(-1, |(_, fd)| fd.raw());
        Ok(BorrowedFd::number(number))
    }

    /// Runs `change` while no other process of this host appends or cuts.
    pub fn exclusively<T>(
        &self,
        state: &mut State,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        if !self.setup.lock_appends {
            return change(state);
        }
        let fd = self.lock_file(state)?;
        host::lock(fd, true, true)?;
        // A stranger that had the lock before may have written a moment ago.
        state.checked = 0;
        let done = change(state).and_then(|done| self.settle(state).map(|()| done));
        host::unlock(fd);
        done
    }

    /// All see from now on what this process has written, other machines too.
    pub fn show(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.push(&self.setup)?;
        self.touch_if_due(&mut state);
        self.settle(&state)
    }

    /// Other machines see from now on what this process has written.
    fn settle(&self, state: &State) -> Result<()> {
        match state.writer.as_ref().filter(|_| self.setup.syncs) {
            Some(writer) if writer.made == forks() => writer.sync(),
            _ => Ok(()),
        }
    }

    /// The same for who cuts the file: the service is to let go of it.
    pub fn exclusively_now<T>(
        &self,
        state: &mut State,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        if let Some(service) = self.service() {
            // Without an answer it lets go of it by itself, a moment later.
            self.ask(service, Ask::Release);
            state.turn = None;
        }
        if !self.setup.lock_appends {
            return change(state);
        }
        match self.lock_file(state) {
            // Cutting makes room. Nobody has locked a file that there is no room for.
            Err(error) if matches!(error.errno(), Errno::ENOSPC | Errno::EDQUOT) => change(state),
            _ => self.exclusively(state, change),
        }
    }

    /// Writers of other runs see at their close that the file was cut.
    pub fn count_cut(&self, state: &mut State) -> Result<()> {
        let counted = self.lock_file(state).and_then(locks::count_cut);
        let Err(error) = counted else { return Ok(()) };
        let own = state.writer.as_ref().is_some_and(|one| one.made == forks());
        let none = matches!(error.errno(), Errno::ENOSPC | Errno::EDQUOT | Errno::EFBIG);
        // There is nobody to see it.
        match none && meta::writers(self.dir.fd())? <= usize::from(own) {
            true => Ok(()),
            false => Err(error),
        }
    }

    /// Appends what `from` has: where, and how many bytes.
    pub fn append(&self, from: &mut dyn Source) -> Result<(u64, usize)> {
        let mut state = self.state.lock();
        let written = self.data(&mut state, from)?;
        if let Some(service) = self.service() {
            for _ in 0..TRIES {
                match self.append_by(service, &mut state, &written)? {
                    Outcome::Done(at, count) => return Ok((at, count)),
                    Outcome::Over => {}
                    Outcome::None => break,
                }
            }
        }
        self.exclusively(&mut state, |state| {
            let end = match self.own_size(state) {
                Some(end) => end,
                None => {
                    self.refresh(state)?;
                    state.index.size()
                }
            };
            // Who has the lock next finds the record.
            let lazy = self.setup.lazy && !self.setup.lock_appends;
            Ok((end, self.place(state, end, &written, lazy)?))
        })
    }

    /// What was written last becomes the bytes where `service` says.
    fn append_by(
        &self,
        service: &Service,
        state: &mut State,
        written: &Written,
    ) -> Result<Outcome> {
        let fd = self.lock_file(state)?;
        let turn = match &state.turn {
            Some(turn) => turn.clone(),
            None => match self.hold(service, state)? {
                Some(turn) => turn,
                None => return Ok(Outcome::None),
            },
        };
        // Before the lock: another thread's answer may have to wait until nobody has that, here or
        // in another process.
        let connection = turn.place.is_none().then(|| service.connection());
        host::lock(fd, false, true)?;
        let done = self.append_in(connection, state, turn, written);
        host::unlock(fd);
        if state.turn.is_none() && matches!(done, Err(_) | Ok(Outcome::Done(..))) {
            // The next turn begins where the file ends.
            self.ask(service, Ask::Release);
        }
        done
    }

    /// The service is to hold the file: its turn; none where it does not.
    fn hold(&self, service: &Service, state: &mut State) -> Result<Option<Turn>> {
        if self.is_refused(state) {
            return Ok(None);
        }
        // The service locks what there is.
        self.lock_file(state)?;
        self.holder_file(state, locks::open)?;
        let (file, path) = (self.file_id(), host::path_of(self.dir.fd())?);
        let ask = Ask::Hold(&path);
        let (request, now) = (Request { file, ask }, self.setup.nanoseconds());
        let mut connection = service.connection();
        match connection.ask(self.setup.keeper, now, &request) {
            Some(Answer::Held(number, place)) => {
                let shared = |place| Some((connection.memory()?, place));
                let turn = Turn {
                    number,
                    told: false,
                    place: place.and_then(shared),
                };
                Ok(Some(state.turn.insert(turn).clone()))
            }
            Some(Answer::Refused(_)) => {
                state.refused = now;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Whether the service has refused to hold the file, a moment ago.
    fn is_refused(&self, state: &State) -> bool {
        // The clock may have been set back.
        let since = || self.setup.nanoseconds().checked_sub(state.refused);
        state.refused > 0 && since().is_some_and(|since| since < REFUSED)
    }

    /// The same in `turn`, while nobody appends without a service; by the memory, or by
    /// `connection`.
    fn append_in(
        &self,
        connection: Option<Connection<'_>>,
        state: &mut State,
        turn: Turn,
        written: &Written,
    ) -> Result<Outcome> {
        // What was written before this turn is in the index; whoever writes in it tells the
        // service.
        let size = match turn.told {
            true => 0,
            false => {
                state.checked = 0;
                self.refresh(state)?;
                state.index.size()
            }
        };
        let count = written.length;
        let at = match (&turn.place, connection) {
            (Some((memory, place)), _) => {
                let table = memory.table();
                // A service that lives has its locks; if it dies now, who has them next waits for
                // ours.
                let taken = || table.take(*place, turn.number, count, size);
                match table.lives().then(taken) {
                    Some(Taken::Position(at)) => at,
                    // The service has room for it.
                    Some(Taken::Beyond) => {
                        state.turn = Some(Turn {
                            place: None,
                            ..turn
                        });
                        return Ok(Outcome::Over);
                    }
                    _ => {
                        state.turn = None;
                        return Ok(Outcome::Over);
                    }
                }
            }
            (None, Some(connection)) => {
                match self.position(connection, state, turn.number, [count, size])? {
                    Ok(at) => at,
                    Err(outcome) => return Ok(outcome),
                }
            }
            (None, None) => return Ok(Outcome::None),
        };
        state.turn = Some(Turn { told: true, ..turn });
        // Who begins the next turn finds the record.
        let placed = self.place(state, at, written, false);
        let placed = placed.and_then(|count| self.settle(state).map(|()| count));
        if placed.as_ref().ok().map(|count| *count as u64) != Some(count) {
            state.turn = None;
        }
        Ok(Outcome::Done(at, placed?))
    }

    /// Asks for a position for `count` bytes, in a file of `size`; or says why there is none.
    fn position(
        &self,
        mut connection: Connection<'_>,
        state: &mut State,
        turn: u64,
        [count, size]: [u64; 2],
    ) -> Result<core::result::Result<u64, Outcome>> {
        let ask = Ask::Append { turn, count, size };
        let file = self.file_id();
        let request = Request { file, ask };
        let answer = connection.ask(self.setup.keeper, self.setup.nanoseconds(), &request);
        Ok(Err(match answer {
            Some(Answer::Position(at)) => return Ok(Ok(at)),
            Some(Answer::TooLarge) => return Err(Errno::EFBIG.into()),
            Some(Answer::NotHeld) => {
                state.turn = None;
                Outcome::Over
            }
            _ => {
                state.turn = None;
                Outcome::None
            }
        }))
    }

    /// This process has written up to `end`, not by an append: who appends later does it behind
    /// that. To be called when the record is written: if no service holds the file then, the next
    /// turn finds it.
    pub fn tell(&self, service: &Service, state: &mut State, end: u64) -> Result<()> {
        if !self.is_home() {
            // The turn and the connection are the process's own.
            return self.tell_by_locks(service, state, end);
        }
        if state.turn.as_ref().is_some_and(|turn| turn.reach(end)) {
            return Ok(());
        }
        state.writes = state.writes.saturating_add(1);
        if service.shares_memory()
            && state.writes >= WRITES
            && core::mem::take(&mut state.writes) > 0
            && let Ok(Some(turn)) = self.hold(service, state)
            && turn.reach(end)
        {
            return Ok(());
        }
        self.tell_by_locks(service, state, end)
    }

    /// The same, where it is not known whether a service holds the file.
    fn tell_by_locks(&self, service: &Service, state: &mut State, end: u64) -> Result<()> {
        // Whom the file is closed to, his service does not hold it either, and none does where
        // nobody has made it.
        let found = |dir: BorrowedFd<'_>, name: &[u8]| {
            locks::open_found(dir, name)?.ok_or_else(|| Errno::ENOENT.into())
        };
        let Ok(holder) = self.holder_file(state, found) else {
            return Ok(());
        };
        match host::lock(holder, false, false) {
            Ok(()) => host::unlock(holder),
            Err(Errno::EAGAIN) => {
                // Another process has made the service hold it: this write and the next ones are
                // told by the memory, too.
                if self.is_home()
                    && service.shares_memory()
                    && let Ok(Some(turn)) = self.hold(service, state)
                    && turn.reach(end)
                {
                    return Ok(());
                }
                self.tell_holder(service, holder, end)?;
            }
            // No locks, no service that holds it.
            Err(_) => {}
        }
        Ok(())
    }

    fn tell_holder(&self, service: &Service, holder: BorrowedFd<'_>, end: u64) -> Result<()> {
        if self.ask(service, Ask::Reach(end)) == Some(Answer::Done) {
            return Ok(());
        }
        // It is another one that holds it, for a moment.
        host::lock(holder, false, true)?;
        host::unlock(holder);
        Ok(())
    }

    /// The description of [`HOLDER`] that this process locks, opened by `open`.
    fn holder_file(
        &self,
        state: &mut State,
        open: impl FnOnce(BorrowedFd<'_>, &[u8]) -> Result<OwnedFd>,
    ) -> Result<BorrowedFd<'static>> {
        if state
            .holder
            .as_ref()
            .is_none_or(|(made, _)| *made != forks())
        {
            let opened = open(self.dir.fd(), HOLDER.as_bytes())?;
            state.holder = Some((forks(), self.setup.keeper.keep(opened)));
        }
        let number = state.holder.as_ref().map_or(-1, |(_, fd)| fd.raw());
        Ok(BorrowedFd::number(number))
    }

    fn ask(&self, service: &Service, ask: Ask<'_>) -> Option<Answer> {
        let file = self.file_id();
        let request = Request { file, ask };
        let keeper = self.setup.keeper;
        match self.is_home() {
            true => service
                .connection()
                .ask(keeper, self.setup.nanoseconds(), &request),
            false => service.ask_once(keeper, &request),
        }
    }

    /// How the service knows it.
    fn file_id(&self) -> FileId {
        let (device, inode) = self.identity;
        FileId { device, inode }
    }
}

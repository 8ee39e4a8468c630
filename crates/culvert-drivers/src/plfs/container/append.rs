//! Where appends go: each behind all others, by the synchronisation service or by locks.
//!
//! With a service: the writer locks `meta` shared, asks for a position, writes there, and releases
//! the lock. So nobody begins to give out positions, or appends without asking for one, while
//! somebody is under way with one (the other side: `culvert-sync/src/files.rs`). Whoever is killed
//! has released the lock; the position that he had was never data.
//!
//! Without: the writer locks `meta` exclusively, and finds the end by himself.

use super::{Container, State};
use crate::passthrough::kernel;
use crate::plfs::forks::forks;
use crate::plfs::service::{Connection, Service};
use crate::plfs::{host, layout};
use culvert::{Errno, Result};
use culvert_sync_wire::{Answer, Ask, FileId, Request};
use culvert_sys::fd::BorrowedFd;
use culvert_sys::raw::general as linux;

/// How often a position is asked for: a turn may end at any time. Then locks do.
const TRIES: usize = 4;

/// For how long a service that refuses to hold a file is not asked again, nanoseconds.
const REFUSED: u64 = 1_000_000_000;

/// What this process knows of the service's turn with a file.
#[derive(Clone, Copy)]
pub struct Turn {
    number: u64,
    /// The service knows from this process how large the file is.
    told: bool,
}

enum Outcome {
    Done(u64, usize),
    /// The turn is over.
    Over,
    /// There is no service.
    None,
}

impl Container {
    /// The description of `meta` that this process locks.
    fn lock_file(&self, state: &mut State) -> Result<BorrowedFd<'static>> {
        // The description must be this process's own.
        if state.lock.as_ref().is_none_or(|(made, _)| *made != forks()) {
            let flags = linux::O_RDONLY | linux::O_DIRECTORY;
            let opened = host::open(self.dir.fd(), layout::META, flags, 0);
            let opened = match opened {
                Err(error) if error.errno() == Errno::ENOENT => {
                    host::make_directory(self.dir.fd(), layout::META, 0o755)?;
                    host::open(self.dir.fd(), layout::META, flags, 0)?
                }
                opened => opened?,
            };
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
        let done = change(state);
        host::unlock(fd);
        done
    }

    /// The same for who cuts the file: the service is to let go of it.
    pub fn exclusively_now<T>(
        &self,
        state: &mut State,
        change: impl FnOnce(&mut State) -> Result<T>,
    ) -> Result<T> {
        if let Some(service) = &self.setup.service
            && let Ok(file) = self.file_id(state)
        {
            // Without an answer it lets go of it by itself, a moment later.
            self.ask(service, file, Ask::Release);
            state.turn = None;
        }
        self.exclusively(state, change)
    }

    /// Appends: where, and how many.
    pub fn append(&self, bytes: &[u8]) -> Result<(u64, usize)> {
        let mut state = self.state.lock();
        if let Some(service) = &self.setup.service {
            for _ in 0..TRIES {
                match self.append_by(service, &mut state, bytes)? {
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
            Ok((end, self.write_in(state, end, bytes)?))
        })
    }

    /// Appends where `service` says.
    fn append_by(&self, service: &Service, state: &mut State, bytes: &[u8]) -> Result<Outcome> {
        let fd = self.lock_file(state)?;
        let file = self.file_id(state)?;
        let turn = match state.turn {
            Some(turn) => turn,
            None if self.is_refused(state) => return Ok(Outcome::None),
            None => match self.ask(service, file, Ask::Hold(&host::path_of(self.dir.fd())?)) {
                Some(Answer::Held(number)) => *state.turn.insert(Turn {
                    number,
                    told: false,
                }),
                Some(Answer::Refused(_)) => {
                    state.refused = self.setup.nanoseconds();
                    return Ok(Outcome::None);
                }
                _ => return Ok(Outcome::None),
            },
        };
        // Before `meta`: another thread's answer may have to wait until nobody has that, here or in
        // another process.
        let connection = service.connection();
        host::lock(fd, false, true)?;
        let done = self.append_in(connection, state, turn, bytes);
        host::unlock(fd);
        if state.turn.is_none() && matches!(done, Err(_) | Ok(Outcome::Done(..))) {
            // The next turn begins where the file ends.
            self.ask(service, file, Ask::Release);
        }
        done
    }

    /// Whether the service has refused to hold the file, a moment ago.
    fn is_refused(&self, state: &State) -> bool {
        // The clock may have been set back.
        let since = || self.setup.nanoseconds().checked_sub(state.refused);
        state.refused > 0 && since().is_some_and(|since| since < REFUSED)
    }

    /// The same in `turn`, while nobody appends without a service.
    fn append_in(
        &self,
        mut connection: Connection<'_>,
        state: &mut State,
        turn: Turn,
        bytes: &[u8],
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
        let ask = Ask::Append {
            turn: turn.number,
            count: bytes.len() as u64,
            size,
        };
        let file = self.file_id(state)?;
        let request = Request { file, ask };
        let answer = connection.ask(self.setup.keeper, self.setup.nanoseconds(), &request);
        drop(connection);
        match answer {
            Some(Answer::Position(at)) => {
                state.turn = Some(Turn { told: true, ..turn });
                let written = self.write_in(state, at, bytes);
                if written.as_ref().ok() != Some(&bytes.len()) {
                    state.turn = None;
                }
                Ok(Outcome::Done(at, written?))
            }
            Some(Answer::TooLarge) => Err(Errno::EFBIG.into()),
            Some(Answer::NotHeld) => {
                state.turn = None;
                Ok(Outcome::Over)
            }
            _ => {
                state.turn = None;
                Ok(Outcome::None)
            }
        }
    }

    /// This process has written up to `end`, not by an append: who appends later does it behind
    /// that. To be called when the record is written: if no service holds the file then, the next
    /// turn finds it.
    pub fn tell(&self, service: &Service, state: &mut State, end: u64) -> Result<()> {
        // Whom the directory is closed to, his service does not hold it either.
        let Ok(owner) = self.owner_file(state) else {
            return Ok(());
        };
        match host::lock(owner, false, false) {
            Ok(()) => host::unlock(owner),
            Err(Errno::EAGAIN) => self.tell_holder(service, state, owner, end)?,
            // No locks, no service that holds it.
            Err(_) => {}
        }
        Ok(())
    }

    fn tell_holder(
        &self,
        service: &Service,
        state: &mut State,
        owner: BorrowedFd<'_>,
        end: u64,
    ) -> Result<()> {
        let file = self.file_id(state)?;
        if self.ask(service, file, Ask::Reach(end)) == Some(Answer::Done) {
            return Ok(());
        }
        // It is another one that holds it, for a moment.
        host::lock(owner, false, true)?;
        host::unlock(owner);
        Ok(())
    }

    /// The description of its directory that this process locks.
    fn owner_file(&self, state: &mut State) -> Result<BorrowedFd<'static>> {
        if state
            .owner
            .as_ref()
            .is_none_or(|(made, _)| *made != forks())
        {
            let opened = kernel::open_directory(self.dir.fd(), 0, 0)?;
            state.owner = Some((forks(), self.setup.keeper.keep(opened)));
        }
        let number = state.owner.as_ref().map_or(-1, |(_, fd)| fd.raw());
        Ok(BorrowedFd::number(number))
    }

    fn ask(&self, service: &Service, file: FileId, ask: Ask<'_>) -> Option<Answer> {
        let request = Request { file, ask };
        let mut connection = service.connection();
        connection.ask(self.setup.keeper, self.setup.nanoseconds(), &request)
    }

    /// How the service knows it.
    fn file_id(&self, state: &mut State) -> Result<FileId> {
        if let Some(file) = state.file {
            return Ok(file);
        }
        let (device, inode) = kernel::identity(&kernel::status(self.dir.fd(), None)?);
        Ok(*state.file.insert(FileId { device, inode }))
    }
}

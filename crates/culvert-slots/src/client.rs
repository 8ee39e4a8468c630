//! The client's side: a slot for each request, and the wait for its reply.

use crate::area::{
    ATTENDS, Area, BELL, GUARD, LARGEST, SLOTS, Session, Slot, State, Word, open_fifo,
};
use crate::channel::{Begun, Body, Caller, Channel, OpenFile, handle_of};
use crate::cut;
use crate::entries::{note_closed, note_open};
use crate::held::Held;
use crate::identity::Identity;
use crate::processor::{LOOK, cycles, processor};
use crate::server::{BATCH_FORGET, has_reply, is_release};
use crate::steps::{Step, at};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use culvert_sys::sync::{shared_wait_outside, shared_wake_one};
use culvert_sys::trust::{self, Opened};
use culvert_sys::{AsFd, BorrowedFd, Errno, OwnedFd, fs, process};

/// How long a wait goes on before what should have ended it is looked at again: whether the server
/// lives, and whether somebody has taken the bell's byte and not the request. Nanoseconds.
pub(crate) const TICK: u32 = 900_000_000;

/// How long the first of these waits is: who was stopped or killed between posting a request and
/// ringing for it has his taken for another's byte.
const FIRST_TICK: u32 = 5_000_000;

/// How many such waits the guardian has for slots of the dead that say what is open; then whoever
/// finds no slot frees these, too.
const PATIENCE: u32 = 10;

/// How many requests go without such looks after one that they were in vain for, at first and at
/// most.
const REST: [u32; 2] = [1, 1024];

/// How descriptors are held.
struct Keep<H>(Box<dyn Fn(OwnedFd) -> Result<H, Errno> + Send + Sync>);

impl<H> core::fmt::Debug for Keep<H> {
    fn fmt(&self, to: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        to.write_str("Keep")
    }
}

/// A client of the server of one mount.
#[derive(Debug)]
pub struct Client<H: Held + 'static = OwnedFd> {
    pub(crate) area: Area,
    bell: Arc<H>,
    keep: Keep<H>,
    directory: alloc::ffi::CString,
    /// The owner of the area, as this process saw him.
    uid: u32,
    pub(crate) own: AtomicU64,
    interrupted: Option<fn() -> bool>,
    /// Where to look for a free slot first.
    first: AtomicU32,
    /// For how many requests nobody looks, and for how many after the next failure.
    rests: [AtomicU32; 2],
    /// When the last reply was seen, in cycles.
    replied: AtomicU64,
}

/// A slot that is this process's.
pub(crate) struct Claim<'a> {
    pub area: &'a Area,
    pub index: usize,
    pub own: Identity,
    /// Its word, free, with the count of this request.
    pub word: Word,
}

impl Claim<'_> {
    pub fn slot(&self) -> &Slot {
        self.area.slot(self.index)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let slot = self.slot();
        let (own, nobody) = (self.own.0, Identity::NOBODY.0);
        // Somebody has taken it away: it is not ours to write to.
        if slot.owner.load(SeqCst) != own {
            return;
        }
        slot.word.store(self.word.0, Release);
        at(Step::Emptied);
        let freed = slot.owner.compare_exchange(own, nobody, SeqCst, Relaxed);
        at(Step::Freed);
        if freed.is_ok() {
            tell_free(self.area.header());
        }
    }
}

/// Wakes one who waits for a slot.
pub(crate) fn tell_free(header: &crate::area::Header) {
    if header.waiting.load(SeqCst) != 0 {
        header.freed.fetch_add(1, SeqCst);
        shared_wake_one(&header.freed);
    }
}

/// Wakes one who waits for a slot if that at `index` has a reply that nobody waits for.
pub(crate) fn tell_spare(area: &Area, index: usize) {
    let slot = area.slot(index);
    let is_done = || Word(slot.word.load(SeqCst)).state() == Some(State::Done);
    if Identity(slot.owner.load(SeqCst)).is_spare() && is_done() {
        tell_free(area.header());
    }
}

impl<H: Held> Drop for Client<H> {
    fn drop(&mut self) {
        cut::forget(self.area.place().0);
    }
}

impl Client<OwnedFd> {
    /// [`Client::open_with`], its descriptor held as it is.
    ///
    /// # Errors
    /// As there.
    pub fn open(directory: &CStr, interrupted: Option<fn() -> bool>) -> Result<Self, Errno> {
        Self::open_with(directory, interrupted, Ok)
    }
}

impl<H: Held> Client<H> {
    /// A client of the server whose mount directory is `directory`, an absolute path; `keep` holds
    /// its descriptors. `interrupted` says whether a signal waits for the calling thread.
    ///
    /// # Errors
    /// That the directory is not trusted or not there; of [`Area::open`]; of `keep`.
    pub fn open_with(
        directory: &CStr,
        interrupted: Option<fn() -> bool>,
        keep: impl Fn(OwnedFd) -> Result<H, Errno> + Send + Sync + 'static,
    ) -> Result<Self, Errno> {
        let opened = trust::directory(directory, trust::user()).map_err(|why| why.errno())?;
        let area = Area::open(&opened)?;
        let bell = Arc::new(keep(open_fifo(&opened, BELL)?)?);
        let uid = opened.stat().st_uid;
        let (start, length) = area.place();
        cut::note(uid, start, length, bell.clone());
        let client = Self {
            area,
            bell,
            keep: Keep(Box::new(keep)),
            directory: directory.into(),
            uid,
            own: AtomicU64::new(0),
            interrupted,
            first: AtomicU32::new(0),
            rests: [AtomicU32::new(0), AtomicU32::new(REST[0])],
            replied: AtomicU64::new(0),
        };
        client.introduce(&opened);
        Ok(client)
    }

    /// The area.
    pub fn area(&self) -> &Area {
        &self.area
    }

    /// Tells the guardian of this process, which it frees the slots of when that is gone.
    fn introduce(&self, directory: &Opened) -> Identity {
        let own = Identity::own(self.area.header().namespace.load(Relaxed));
        self.own.store(own.0, Relaxed);
        if let Ok(guard) = open_fifo(directory, GUARD) {
            let _ = fs::write(&guard, &own.0.to_ne_bytes());
        }
        own
    }

    /// This process, also where it is a child of the one that opened the client.
    pub(crate) fn own(&self, pid: u32) -> Identity {
        let own = Identity(self.own.load(Relaxed));
        // Requests of no program have the number 0, as nobody has. They are the parent's where a
        // child of vfork makes them, whose memory this is not.
        match own != Identity::NOBODY && (pid == 0 || own.number() == pid) {
            true => own,
            false => self.introduce_again(own),
        }
    }

    #[cold]
    fn introduce_again(&self, before: Identity) -> Identity {
        if before.number() == process::getpid() {
            return before;
        }
        match trust::directory(&self.directory, trust::user()) {
            Ok(directory) => self.introduce(&directory),
            Err(_) => {
                let own = Identity::own(self.area.header().namespace.load(Relaxed));
                self.own.store(own.0, Relaxed);
                own
            }
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|asked| asked())
    }

    pub(crate) fn ring(&self) {
        self.ring_times(1);
    }

    /// Rings for what nobody waits for yet. Who looks at the slots takes it, and looks once more when
    /// it has said that it does so no longer.
    pub(crate) fn ring_unless_seen(&self) {
        if self.area.header().attention.load(SeqCst) != ATTENDS {
            self.ring();
        }
    }

    fn ring_times(&self, times: usize) {
        // With no room there are bytes enough.
        let _ = fs::write(
            BorrowedFd::number(self.bell.number()),
            &[0; SLOTS][..times.min(SLOTS)],
        );
    }

    /// A free slot of the first `among`, if there is one.
    pub(crate) fn try_claim_free(&self, own: Identity, among: usize) -> Option<Claim<'_>> {
        let first = self.first.load(Relaxed) as usize;
        let claim = (0..among)
            .map(|step| (first + step) % among)
            .find_map(|index| self.claim_from(index, Identity::NOBODY, own))?;
        self.first.store(claim.index as u32, Relaxed);
        Some(claim)
    }

    /// A free slot, or one that has a reply that nobody waits for, if there is one.
    fn try_claim(&self, own: Identity) -> Option<Claim<'_>> {
        self.try_claim_free(own, SLOTS).or_else(|| {
            (0..SLOTS).find_map(|index| {
                let slot = self.area.slot(index);
                let owner = Identity(slot.owner.load(SeqCst));
                let is_done = Word(slot.word.load(SeqCst)).state() == Some(State::Done);
                let may = owner.is_spare() && is_done;
                may.then(|| self.claim_from(index, owner, own)).flatten()
            })
        })
    }

    /// Slot `index`, if it is `owner`'s.
    pub(crate) fn claim_from(
        &self,
        index: usize,
        owner: Identity,
        own: Identity,
    ) -> Option<Claim<'_>> {
        let slot = self.area.slot(index);
        if slot.owner.load(Relaxed) != owner.0 {
            return None;
        }
        let claimed = slot.owner.compare_exchange(owner.0, own.0, SeqCst, Relaxed);
        claimed.ok()?;
        at(Step::Owned);
        let seen = Word(slot.word.load(SeqCst));
        // Who does not wait for it may have begun another request in it meanwhile.
        if owner.is_spare() && seen.state() != Some(State::Done) {
            let _ = slot.owner.compare_exchange(own.0, owner.0, SeqCst, Relaxed);
            tell_spare(&self.area, index);
            return None;
        }
        let word = seen.next();
        slot.word.store(word.0, Relaxed);
        at(Step::Claimed);
        Some(Claim {
            area: &self.area,
            index,
            own,
            word,
        })
    }

    /// A free slot; waits for one.
    fn claim(&self, own: Identity) -> Result<Claim<'_>, Errno> {
        let header = self.area.header();
        let mut ticks = 0;
        loop {
            if let Some(claim) = self.try_claim(own) {
                return Ok(claim);
            }
            header.waiting.fetch_add(1, SeqCst);
            let seen = header.freed.load(SeqCst);
            let claim = self.try_claim(own);
            let waited = match claim {
                Some(_) => Ok(()),
                None => shared_wait_outside(&header.freed, seen, TICK),
            };
            header.waiting.fetch_sub(1, SeqCst);
            if let Some(claim) = claim {
                return Ok(claim);
            }
            if self.is_over() {
                return Err(Errno::ENOTCONN);
            }
            if waited == Err(Errno::EINTR) || self.is_interrupted() {
                return Err(Errno::EINTR);
            }
            if waited == Err(Errno::ETIMEDOUT) {
                ticks += 1;
                let spares = ticks < PATIENCE;
                let rings = match own.judges() {
                    true => self.area.free_of_the_dead(spares, Identity::is_gone),
                    false => 0,
                };
                if rings > 0 {
                    self.ring_times(rings);
                }
                if !spares && !self.area.is_asked() {
                    // All are somebody's, and nobody asks anything: somebody writes to slots that are
                    // not his.
                    return Err(Errno::EIO);
                }
            }
        }
    }

    /// Whether the server is gone. Who is in another PID namespace than it believes the guardian.
    pub(crate) fn is_over(&self) -> bool {
        if self.area.session() == Session::Ended {
            return true;
        }
        let judges = Identity(self.own.load(Relaxed)).judges();
        let over = judges && self.area.server_identity().is_gone();
        if over {
            self.area.end(BorrowedFd::number(self.bell.number()));
        }
        over
    }

    /// [`Channel::call`], also before the server has answered INIT.
    ///
    /// # Errors
    /// As there.
    #[allow(clippy::too_many_arguments)] // as the trait has them
    pub fn request(
        &self,
        caller: Caller,
        opcode: u32,
        node: u64,
        length: usize,
        fill: Body<'_>,
        take: Body<'_>,
    ) -> Result<(), Errno> {
        if length > LARGEST {
            return Err(Errno::E2BIG);
        }
        if self.area.session() == Session::Ended {
            return Err(Errno::ENOTCONN);
        }
        let claim = self.claim(self.own(caller.pid));
        let claim = claim.map_err(|errno| match errno {
            Errno::EINTR if is_release(opcode) => Errno::EAGAIN,
            errno => errno,
        })?;
        if length != 0 {
            self.area.secure(claim.index, length)?;
            fill(&self.area.payload(claim.index, length))?;
        }
        let handle = is_release(opcode).then(|| handle_of(&self.area.payload(claim.index, 8)));
        self.post(&claim, opcode, node, length, caller.pid);
        if let Some(handle) = handle {
            note_closed(self.area.opens(), claim.own, node, handle);
            at(Step::Closed);
        }
        if !self.look(&claim) {
            match self.wait(&claim, handle.is_none()) {
                Err(Errno::EINTR) if handle.is_some() => {
                    self.leave(claim);
                    return Err(Errno::EINTR);
                }
                waited => waited?,
            }
        }
        self.reply(&claim, opcode, take)
    }

    /// The reply to the request of `claim`, which is there.
    pub(crate) fn reply(
        &self,
        claim: &Claim<'_>,
        opcode: u32,
        take: Body<'_>,
    ) -> Result<(), Errno> {
        self.replied.store(cycles(), Relaxed);
        at(Step::Seen);
        let slot = claim.slot();
        match slot.error.load(Relaxed) {
            0 => take(
                &self
                    .area
                    .payload(claim.index, slot.length.load(Relaxed) as usize),
            ),
            // The file is closed, and nobody may take that for a signal before.
            error if error == -Errno::EINTR.raw() && is_release(opcode) => Ok(()),
            // The kernel refuses others (`fuse_dev_do_write`, fs/fuse/dev.c).
            error @ -511..0 => Err(Errno::new(-error)),
            _ => Err(Errno::EIO),
        }
    }

    pub(crate) fn post(&self, claim: &Claim<'_>, opcode: u32, node: u64, length: usize, pid: u32) {
        let slot = claim.slot();
        slot.opcode.store(opcode, Relaxed);
        slot.node.store(node, Relaxed);
        slot.length.store(length as u32, Relaxed);
        slot.pid.store(pid, Relaxed);
        slot.sleeps.store(0, Relaxed);
        let on = processor().map_or(0, |number| number + 1);
        slot.processor.store(on, Relaxed);
        let pause = cycles().wrapping_sub(self.replied.load(Relaxed));
        slot.pause
            .store(u32::try_from(pause).unwrap_or(u32::MAX), Relaxed);
        at(Step::Filled);
        slot.word.store(claim.word.to(State::Posted).0, Release);
        at(Step::Posted);
        mark(&self.area.header().posted, claim.index);
        at(Step::Marked);
    }

    /// Looks for the reply for a moment, where the server looks for the request: whether it is there.
    /// The bell has rung for the request if it has not been taken.
    pub(crate) fn look(&self, claim: &Claim<'_>) -> bool {
        let (attention, word) = (&self.area.header().attention, &claim.slot().word);
        let [rest, next] = &self.rests;
        let posted = claim.word.to(State::Posted).0;
        if attention.load(SeqCst) == 0 {
            self.ring();
            return false;
        }
        let resting = rest.load(Relaxed);
        if resting > 0 {
            rest.store(resting - 1, Relaxed);
            self.ring();
            return false;
        }
        let done = claim.word.to(State::Done).0;
        let start = cycles();
        while cycles().wrapping_sub(start) < LOOK {
            if word.load(Acquire) == done {
                next.store((next.load(Relaxed) / 2).max(REST[0]), Relaxed);
                return true;
            }
            if attention.load(Relaxed) == 0 {
                break;
            }
            core::hint::spin_loop();
        }
        let pause = next.load(Relaxed);
        rest.store(pause, Relaxed);
        next.store((pause * 2).min(REST[1]), Relaxed);
        if word.load(SeqCst) == posted {
            self.ring();
        }
        false
    }

    /// Waits for the reply. A signal takes the request back, if it may and has not been taken.
    pub(crate) fn wait(&self, claim: &Claim<'_>, may_be_taken_back: bool) -> Result<(), Errno> {
        let slot = claim.slot();
        let (mut interrupted, mut tick) = (false, FIRST_TICK);
        at(Step::Rung);
        loop {
            let seen = Word(slot.word.load(Acquire));
            if seen.count() != claim.word.count() {
                // Somebody writes to slots that are not his.
                return Err(Errno::EIO);
            }
            let state = match seen.state() {
                Some(State::Done) => return Ok(()),
                Some(state @ (State::Posted | State::Taken)) => state,
                _ => return Err(Errno::EIO),
            };
            if self.area.session() == Session::Ended {
                match state {
                    State::Posted if self.take_back(claim) => return Err(Errno::ENOTCONN),
                    State::Posted => continue,
                    _ => return Err(Errno::ECONNABORTED),
                }
            }
            slot.sleeps.store(1, SeqCst);
            at(Step::Sleeps);
            let waited = match interrupted || !self.is_interrupted() {
                true => shared_wait_outside(&slot.word, seen.0, tick),
                false => Err(Errno::EINTR),
            };
            if !interrupted && (waited == Err(Errno::EINTR) || self.is_interrupted()) {
                if !may_be_taken_back || self.take_back(claim) {
                    return Err(Errno::EINTR);
                }
                interrupted = true;
                slot.interrupt.store(claim.word.count(), Release);
                mark(&self.area.header().interrupts, claim.index);
                self.ring();
            }
            if waited == Err(Errno::ETIMEDOUT) {
                let is_first = core::mem::replace(&mut tick, TICK) != TICK;
                let is_posted = slot.word.load(SeqCst) == claim.word.to(State::Posted).0;
                if is_first && is_posted || !is_first && !self.is_over() {
                    // The server looks at all slots when it finds none that was posted.
                    mark(&self.area.header().posted, claim.index);
                    self.ring();
                }
            }
        }
    }

    /// Returns when each RELEASE of a file of `node`, or of any, that nobody waits for, and that is
    /// under way now, has its reply, whichever process has sent it; `EAGAIN` after a signal.
    fn await_releases(&self, node: Option<u64>) -> Result<(), Errno> {
        for index in 0..SLOTS {
            let slot = self.area.slot(index);
            let mut first = None;
            while Identity(slot.owner.load(SeqCst)).is_orphan() {
                let seen = Word(slot.word.load(SeqCst));
                let waits = *first.get_or_insert(seen.count()) == seen.count()
                    && matches!(seen.state(), Some(State::Posted | State::Taken))
                    && is_release(slot.opcode.load(Relaxed))
                    && node.is_none_or(|node| slot.node.load(Relaxed) == node);
                if !waits {
                    break;
                }
                slot.sleeps.store(1, SeqCst);
                // It may have been posted without a ring.
                if seen.state() == Some(State::Posted) {
                    self.ring();
                }
                let waited = shared_wait_outside(&slot.word, seen.0, TICK);
                if self.area.session() == Session::Ended {
                    return Err(Errno::ENOTCONN);
                }
                if waited == Err(Errno::EINTR) || self.is_interrupted() {
                    return Err(Errno::EAGAIN);
                }
                if waited == Err(Errno::ETIMEDOUT) && !self.is_over() {
                    mark(&self.area.header().posted, index);
                    self.ring();
                }
            }
        }
        Ok(())
    }

    /// Nobody waits for the end of a request that was posted: whoever of server and client comes
    /// second here frees it.
    fn leave(&self, claim: Claim<'_>) {
        let slot = claim.slot();
        let count = claim.word.count();
        slot.owner.store(Identity::orphan(count).0, SeqCst);
        at(Step::Left);
        let word = Word(slot.word.load(SeqCst));
        let is_over = matches!(word.state(), Some(State::Free | State::Done));
        if is_over && word.count() == count {
            self.area.free_orphan(claim.index, count);
        }
        core::mem::forget(claim);
    }

    /// This process.
    pub(crate) fn identity(&self) -> Identity {
        match Identity(self.own.load(Relaxed)) {
            Identity::NOBODY => self.introduce_again(Identity::NOBODY),
            own => own,
        }
    }

    /// Takes a request back that the server has not taken.
    pub(crate) fn take_back(&self, claim: &Claim<'_>) -> bool {
        let posted = claim.word.to(State::Posted).0;
        let word = &claim.slot().word;
        word.compare_exchange(posted, claim.word.0, AcqRel, Relaxed)
            .is_ok()
    }
}

/// Sets bit `index`.
pub(crate) fn mark(bits: &[AtomicU64], index: usize) {
    bits[index / 64].fetch_or(1 << (index % 64), SeqCst);
}

impl<H: Held> Channel for Client<H> {
    fn largest(&self) -> usize {
        LARGEST
    }

    fn call(
        &self,
        caller: Caller,
        opcode: u32,
        node: u64,
        length: usize,
        fill: Body<'_>,
        take: Body<'_>,
    ) -> Result<(), Errno> {
        // A mount is its user's alone (`fuse_allow_current_process`, fs/fuse/dir.c).
        if caller.uid != self.uid {
            return Err(Errno::EACCES);
        }
        self.request(caller, opcode, node, length, fill, take)
    }

    fn send(&self, caller: Caller, opcode: u32, node: u64, body: &[u8]) -> Result<(), Errno> {
        if body.len() > LARGEST {
            return Err(Errno::E2BIG);
        }
        if self.area.session() == Session::Ended {
            return Err(Errno::ENOTCONN);
        }
        // The kernel forgets no node before the RELEASE of a file of it was answered
        // (`fuse_file_put`, fs/fuse/file.c), and servers rely on that.
        if !has_reply(opcode) {
            self.await_releases((opcode != BATCH_FORGET).then_some(node))?;
        }
        let own = self.own(caller.pid);
        let claim = self.try_claim(own).ok_or(Errno::EAGAIN)?;
        self.area.secure(claim.index, body.len())?;
        self.area.payload(claim.index, body.len()).write(0, body);
        self.post(&claim, opcode, node, body.len(), caller.pid);
        self.ring_unless_seen();
        at(Step::Rung);
        if is_release(opcode) {
            let handle = body
                .first_chunk()
                .map_or(0, |word| u64::from_ne_bytes(*word));
            note_closed(self.area.opens(), own, node, handle);
            at(Step::Closed);
        }
        self.leave(claim);
        Ok(())
    }

    fn begin(&self, caller: Caller, opcode: u32, node: u64, body: &[u8]) -> Result<Begun, Errno> {
        self.begin_request(caller, opcode, node, body)
    }

    fn end(&self, begun: Begun, keeps: bool, take: Body<'_>) -> Result<(), Errno> {
        self.end_request(begun, keeps, take)
    }

    fn abandon(&self, begun: Begun) {
        self.abandon_request(begun);
    }

    fn await_closed(&self, node: u64) {
        let _ = self.await_releases(Some(node));
    }

    fn init_reply(&self) -> [u8; 64] {
        let mut reply = [0; 64];
        let words = self.area.header().init.iter();
        for (word, bytes) in words.zip(reply.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        reply
    }

    fn notifications(&self) -> u64 {
        self.area.header().notifications.load(Acquire)
    }

    fn words(&self) -> &[AtomicU64] {
        self.area.words()
    }

    fn cache_pages(&self) -> usize {
        self.area.cache_pages()
    }

    fn cached(&self, first: usize, count: usize) -> Option<&[AtomicU64]> {
        self.area.cached(first, count)
    }

    fn backing(&self, id: i32) -> Result<OwnedFd, Errno> {
        let directory = trust::directory(&self.directory, trust::user());
        crate::backing::open(&directory.map_err(|why| why.errno())?, id)
    }

    fn keep(&self, descriptor: OwnedFd) -> Result<Box<dyn Held>, Errno> {
        Ok(Box::new((self.keep.0)(descriptor)?))
    }

    fn opened(&self, file: &OpenFile) {
        note_open(self.area.opens(), self.identity(), file);
    }

    fn lent(&self, node: u64, handle: u64) {
        note_closed(self.area.opens(), self.identity(), node, handle);
    }

    fn identity(&self) -> u64 {
        let own = Self::identity(self);
        // Of another PID namespace nobody could say when it is gone.
        if own.judges() { own.0 } else { 0 }
    }

    fn forked(&self) {
        self.own.store(0, Relaxed);
    }
}

impl Slot {
    /// `owner` does not want its reply any more, and who claims the slot next, and is killed at once,
    /// has not asked for it.
    pub(crate) fn empty(&self, owner: Identity) {
        // In this order: a word with its count is one owner's.
        let word = Word(self.word.load(SeqCst));
        if word.state() == Some(State::Done) && self.owner.load(SeqCst) == owner.0 {
            let free = word.to(State::Free).0;
            let _ = self.word.compare_exchange(word.0, free, SeqCst, SeqCst);
        }
    }
}

impl Area {
    /// Frees slots whose owner `is_gone`, but for those that the server has in hand, which are freed
    /// when their reply comes, and of which an INTERRUPT is asked for; what needs no reply is carried
    /// out: how many, each of which wants a byte of the bell. With `spares` all that says, or may say
    /// soon, what is open or was closed is left to the guardian.
    pub(crate) fn free_of_the_dead(
        &self,
        spares: bool,
        is_gone: impl Fn(Identity) -> bool,
    ) -> usize {
        let mut rings = 0;
        self.free_orphans();
        for index in 0..SLOTS {
            let slot = self.slot(index);
            let owner = slot.owner.load(SeqCst);
            if owner == 0 || !is_gone(Identity(owner)) {
                continue;
            }
            let opcode = slot.opcode.load(Relaxed);
            let is_carried_out = is_release(opcode) || !has_reply(opcode);
            let word = Word(slot.word.load(SeqCst));
            // Of what nobody has asked for yet there is only the claim.
            let taken_back = word.state() == Some(State::Posted) && !is_carried_out && {
                let free = word.to(State::Free).0;
                let taken_back = slot.word.compare_exchange(word.0, free, SeqCst, SeqCst);
                taken_back.is_ok()
            };
            let is_asked = matches!(
                word.state(),
                Some(State::Posted | State::Taken | State::Done)
            );
            if spares && is_asked && !taken_back {
                continue;
            }
            // From here on no client's: whoever is second finds another owner.
            let orphan = Identity::orphan(word.count()).0;
            if slot
                .owner
                .compare_exchange(owner, orphan, SeqCst, Relaxed)
                .is_err()
            {
                continue;
            }
            match Word(slot.word.load(SeqCst)).state() {
                Some(State::Taken) => {
                    slot.interrupt.store(word.count(), Release);
                    mark(&self.header().interrupts, index);
                    rings += 1;
                }
                Some(State::Posted) => {
                    mark(&self.header().posted, index);
                    rings += 1;
                }
                _ => self.free_orphan(index, word.count()),
            }
        }
        rings
    }

    /// Frees a slot whose request `count` is over, if nobody waits for that, and nobody has freed it.
    pub(crate) fn free_orphan(&self, index: usize, count: u32) {
        let (orphan, nobody) = (Identity::orphan(count), Identity::NOBODY);
        let slot = self.slot(index);
        if slot.owner.load(SeqCst) != orphan.0 {
            return;
        }
        slot.empty(orphan);
        let freed = slot
            .owner
            .compare_exchange(orphan.0, nobody.0, SeqCst, Relaxed);
        if freed.is_ok() {
            tell_free(self.header());
        }
    }

    /// Whether the server has a request in hand, or is to have.
    fn is_asked(&self) -> bool {
        let is_asked = |index| {
            let word = Word(self.slot(index).word.load(SeqCst));
            matches!(word.state(), Some(State::Posted | State::Taken))
        };
        (0..SLOTS).any(is_asked)
    }

    /// Frees slots whose requests are over, and that nobody waits for. Who frees them else is killed
    /// before that now and then.
    pub fn free_orphans(&self) {
        for index in 0..SLOTS {
            let slot = self.slot(index);
            let owner = Identity(slot.owner.load(SeqCst));
            let word = Word(slot.word.load(SeqCst));
            let is_over = !matches!(word.state(), Some(State::Posted | State::Taken));
            if owner == Identity::orphan(word.count()) && is_over {
                self.free_orphan(index, word.count());
            }
        }
    }

    /// The number of the process that has told the guardian `identity`; none if it is gone, or in
    /// another PID namespace.
    #[must_use]
    pub fn process_of(identity: u64) -> Option<u32> {
        let identity = Identity(identity);
        identity.is_here().then(|| identity.number())
    }

    /// Whether the process that has told the guardian `identity` is known to be gone.
    #[must_use]
    pub fn is_gone(identity: u64) -> bool {
        Identity(identity).is_gone()
    }

    /// The process that reads requests, opened; none if it is gone, or in another PID namespace.
    #[must_use]
    pub fn open_server(&self) -> Option<OwnedFd> {
        let server = self.server_identity();
        let opened = process::pidfd_open(server.number()).ok()?;
        // It was that process that was opened, if it is there still.
        server.is_here().then_some(opened)
    }

    /// The slots of the process that has told the guardian `identity` are freed, if it is gone, which
    /// is known of no process of another PID namespace. `bell` is rung for INTERRUPTs.
    pub fn died(&self, identity: u64, bell: impl AsFd) {
        let is_its = |owner: Identity| owner.process().0 == identity && owner.is_gone();
        let rings = self.free_of_the_dead(false, is_its);
        if rings > 0 {
            let _ = fs::write(bell, &[0; SLOTS][..rings]);
        }
    }
}

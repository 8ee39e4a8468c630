//! The client's side: processes that ask the server of a mount. Each request has a slot, whose
//! reply is waited for.

pub(crate) mod begun;
mod claims;
pub(crate) mod cut;
mod dead;
mod estates;
mod waits;

pub(crate) use claims::{Claim, tell_free, tell_spare};
pub use estates::Heir;

use crate::area::{ATTENDS, AWAKE, Area, BELL, GUARD, LARGEST, SLOTS, Session, State, open_fifo};
use crate::channel::{Begun, Body, Caller, Channel, OpenFile, handle_of};
use crate::entries::{note_closed, note_open};
use crate::extension;
use crate::held::Held;
use crate::identity::Identity;
use crate::processor::{cycles, is_apart_from, processor};
use crate::requests::{BATCH_FORGET, has_reply, is_release};
use crate::steps::{Step, at};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use culvert_sys::trust::{self, Opened};
use culvert_sys::{BorrowedFd, Errno, OwnedFd, fs, process};

/// How long a wait goes on before what should have ended it is looked at again: whether the server
/// lives, and whether somebody has taken the bell's byte and not the request. Nanoseconds.
pub(crate) const TICK: u32 = 900_000_000;

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
    /// Dropped before what it notes.
    _noted: cut::Noted,
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
    /// On which processor the server was then, plus one; 0: not known.
    replied_on: AtomicU32,
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
        let client = Self {
            _noted: cut::Noted::area(uid, start, length, bell.clone()),
            area,
            bell,
            keep: Keep(Box::new(keep)),
            directory: directory.into(),
            uid,
            own: AtomicU64::new(0),
            interrupted,
            first: AtomicU32::new(0),
            rests: [AtomicU32::new(0), AtomicU32::new(waits::REST[0])],
            replied: AtomicU64::new(0),
            replied_on: AtomicU32::new(0),
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

    /// Rings for what nobody waits for yet. Who looks at the slots takes it, and looks once more
    /// when it has said that it does so no longer.
    pub(crate) fn ring_unless_seen(&self) {
        let attention = self.area.header().attention.load(SeqCst);
        if !matches!(attention, ATTENDS | AWAKE) {
            self.ring();
        }
    }

    /// A request was not seen by who has said that he would look: he is told so, and goes by rings.
    fn ring_for_what_was_not_seen(&self) {
        let header = self.area.header();
        let awake = header.attention.compare_exchange(AWAKE, 0, SeqCst, Relaxed);
        if awake.is_ok() {
            header.missed.fetch_add(1, Relaxed);
        }
        self.ring();
    }

    fn ring_times(&self, times: usize) {
        // With no room there are bytes enough.
        let _ = fs::write(
            BorrowedFd::number(self.bell.number()),
            &[0; SLOTS][..times.min(SLOTS)],
        );
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
        self.post(&claim, opcode, node, length, caller);
        if let Some(handle) = handle {
            note_closed(self.area.opens(), claim.own, node, handle);
            at(Step::Closed);
        }
        if !self.look(&claim) {
            match self.wait(&claim, handle.is_none()) {
                Err(Errno::EINTR) if handle.is_some() => {
                    claim.leave();
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
        let on = slot.replied_on.load(Relaxed);
        if self.replied_on.load(Relaxed) != on {
            self.replied_on.store(on, Relaxed);
        }
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

    pub(crate) fn post(
        &self,
        claim: &Claim<'_>,
        opcode: u32,
        node: u64,
        length: usize,
        caller: Caller,
    ) {
        let slot = claim.slot();
        slot.opcode.store(opcode, Relaxed);
        slot.node.store(node, Relaxed);
        slot.length.store(length as u32, Relaxed);
        slot.pid.store(caller.pid, Relaxed);
        extension::put(slot, caller.extension);
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

    /// This process.
    pub(crate) fn identity(&self) -> Identity {
        match Identity(self.own.load(Relaxed)) {
            Identity::NOBODY => self.introduce_again(Identity::NOBODY),
            own => own,
        }
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

    fn is_apart(&self) -> bool {
        is_apart_from(self.replied_on.load(Relaxed))
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
        self.post(&claim, opcode, node, body.len(), caller);
        self.ring_unless_seen();
        at(Step::Rung);
        if is_release(opcode) {
            let handle = body
                .first_chunk()
                .map_or(0, |word| u64::from_ne_bytes(*word));
            note_closed(self.area.opens(), own, node, handle);
            at(Step::Closed);
        }
        claim.leave();
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

    fn has_ended(&self) -> bool {
        self.area.session() == Session::Ended
    }

    fn init_reply(&self) -> [u8; 64] {
        self.area.init_reply()
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

    fn waiter(&self, number: u64) -> Result<Box<dyn Held>, Errno> {
        match crate::waiters::make(&self.directory, number, &self.keep.0) {
            Err(Errno::ENOENT) if self.area.server_is_gone() => {
                Ok(crate::waiters::untold(&self.keep.0)?)
            }
            made => Ok(made?),
        }
    }

    fn end_of_server(&self) -> Option<Box<dyn Held>> {
        // A process of that number is another one here.
        if !Self::identity(self).judges() {
            return None;
        }
        let server = self.area.open_server()?;
        Some(Box::new((self.keep.0)(server).ok()?))
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

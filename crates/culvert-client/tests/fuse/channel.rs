//! A way to a server by messages, as /dev/fuse is one: requests go out by a call, replies come in
//! by another.

use culvert_client::{WORDS, capabilities};
use culvert_slots::{Begun, Body, Caller, Channel, Extension, Payload};
use culvert_sys::errno::Errno;
use culvert_wire::{
    Extensions, Operation, Plain, Protocol, Request,
    structures::{InHeader, InitIn, OutHeader},
};
use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

/// How long a reply is waited for: a test that hangs says nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pages that clients may cache.
const CACHE: usize = 1024;

type Reply = Result<Vec<u8>, Errno>;

/// Sends the bytes of a request.
pub type Send = Box<dyn Fn(&[u8]) -> io::Result<()> + std::marker::Send + Sync>;

/// What several clients of one server share.
pub struct Line {
    send: Send,
    waiting: Mutex<HashMap<u64, mpsc::Sender<Reply>>>,
    /// Requests that were begun: their replies come there.
    begun: Mutex<HashMap<u32, mpsc::Receiver<Reply>>>,
    unique: AtomicU64,
    notifications: AtomicU64,
    /// How many requests of each number were sent.
    counts: Mutex<BTreeMap<u32, u64>>,
    /// What they said besides, those that did.
    extensions: Mutex<Vec<(&'static str, Extension)>>,
    words: Vec<AtomicU64>,
    /// Pages that clients cache.
    cache: Vec<AtomicU64>,
    /// Of clients, as they have said them.
    identities: Mutex<Vec<u64>>,
    init: Mutex<[u8; 64]>,
    largest: usize,
    /// There is no room for what has no answer.
    pub full: AtomicBool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Line {
    /// A line on which requests go by `send`; replies have up to `largest` bytes. Clients share
    /// words where `shares`.
    pub fn new(send: Send, largest: usize, shares: bool) -> Arc<Self> {
        let (words, cache) = if shares { (WORDS, CACHE * 512) } else { (0, 0) };
        let zeros = |count| (0..count).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self {
            send,
            waiting: Mutex::default(),
            begun: Mutex::default(),
            unique: AtomicU64::new(2),
            notifications: AtomicU64::new(0),
            counts: Mutex::default(),
            extensions: Mutex::default(),
            words: zeros(words),
            cache: zeros(cache),
            identities: Mutex::default(),
            init: Mutex::new([0; 64]),
            largest,
            full: AtomicBool::new(false),
        })
    }

    /// What the server has sent.
    pub fn receive(&self, bytes: &[u8]) {
        let header = OutHeader::from_prefix(bytes);
        if header.unique == 0 {
            self.notifications.fetch_add(1, SeqCst);
            return;
        }
        let Some(waiter) = locked(&self.waiting).remove(&header.unique) else {
            return;
        };
        let reply = match header.error {
            _ if header.len as usize != bytes.len() => Err(Errno::EIO),
            0 => Ok(bytes.get(16..).unwrap_or_default().to_vec()),
            error @ -511..=-1 => Err(Errno::new(-error)),
            _ => Err(Errno::EIO),
        };
        let _ = waiter.send(reply);
    }

    /// The server is gone: nobody waits any more.
    pub fn ended(&self) {
        locked(&self.waiting).clear();
    }

    /// Asks INIT, which must be answered.
    pub fn begin(&self) {
        let init: InitIn = capabilities::request(self.largest, false);
        let header = InHeader {
            unique: self.unique.fetch_add(2, SeqCst),
            nodeid: 0,
            ..InHeader::default()
        };
        let request = Request {
            header,
            operation: Operation::Init { init },
            extensions: Extensions::NONE,
        };
        let message = request.encode(&Protocol::UNNEGOTIATED).expect("INIT");
        let mut bytes = vec![0; message.length()];
        message.copy_to(&mut bytes).expect("fits");
        let reply = self.asked(header.unique, &bytes).expect("INIT is answered");
        let length = reply.len().min(64);
        locked(&self.init)[..length].copy_from_slice(&reply[..length]);
    }

    fn asked(&self, unique: u64, bytes: &[u8]) -> Reply {
        received(&self.sent(unique, bytes)?)
    }

    fn sent(&self, unique: u64, bytes: &[u8]) -> Result<mpsc::Receiver<Reply>, Errno> {
        let (sender, receiver) = mpsc::channel();
        locked(&self.waiting).insert(unique, sender);
        (self.send)(bytes).map_err(|_| Errno::ENOTCONN)?;
        Ok(receiver)
    }

    /// How many requests were begun of whose replies nobody has said what becomes of them.
    pub fn begun(&self) -> usize {
        locked(&self.begun).len()
    }
    fn message(&self, caller: Caller, opcode: u32, node: u64, body: &[u8]) -> (u64, Vec<u8>) {
        *locked(&self.counts).entry(opcode).or_default() += 1;
        if caller.extension != Extension::default() {
            locked(&self.extensions).push((Operation::name(opcode), caller.extension));
        }
        let unique = self.unique.fetch_add(2, SeqCst);
        let header = InHeader {
            len: (size_of::<InHeader>() + body.len()) as u32,
            opcode,
            unique,
            nodeid: node,
            uid: caller.uid,
            gid: caller.gid,
            pid: caller.pid,
            ..InHeader::default()
        };
        (unique, [header.bytes(), body].concat())
    }

    /// What requests said besides, since this was asked last.
    pub fn extensions(&self) -> Vec<(&'static str, Extension)> {
        std::mem::take(&mut *locked(&self.extensions))
    }

    /// What the clients share.
    pub fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    /// The client that has said last who it is; 0: none.
    pub fn identity(&self) -> u64 {
        locked(&self.identities).last().copied().unwrap_or(0)
    }

    /// It is gone: what it has left.
    pub fn gone(&self) -> culvert_client::Left {
        culvert_client::end_process(&self.words, self.identity())
    }

    /// How many requests there were, by name, since this was asked last.
    pub fn counted(&self) -> BTreeMap<&'static str, u64> {
        let counts = std::mem::take(&mut *locked(&self.counts));
        let named = counts
            .into_iter()
            .map(|(opcode, count)| (Operation::name(opcode), count));
        named.collect()
    }
}

fn received(receiver: &mpsc::Receiver<Reply>) -> Reply {
    match receiver.recv_timeout(PATIENCE) {
        Ok(reply) => reply,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("no answer"),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err(Errno::ENOTCONN),
    }
}

/// One client's end of a line.
pub struct End(pub Arc<Line>);

impl Channel for End {
    fn largest(&self) -> usize {
        self.0.largest
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
        if length > self.0.largest {
            return Err(Errno::E2BIG);
        }
        let mut body = vec![0; length];
        // SAFETY: it is `body`'s, which nobody else reaches until the call returns.
        fill(&unsafe { Payload::new(body.as_mut_ptr(), length) })?;
        let (unique, bytes) = self.0.message(caller, opcode, node, &body);
        let mut reply = self.0.asked(unique, &bytes)?;
        // SAFETY: as above.
        take(&unsafe { Payload::new(reply.as_mut_ptr(), reply.len()) })
    }

    fn send(&self, caller: Caller, opcode: u32, node: u64, body: &[u8]) -> Result<(), Errno> {
        const FORGETS: [u32; 2] = [2, 42];
        if FORGETS.contains(&opcode) && self.0.full.load(SeqCst) {
            return Err(Errno::EAGAIN);
        }
        let (unique, bytes) = self.0.message(caller, opcode, node, body);
        // Requests of several threads are carried out in any order: what must come after a close
        // waits for it.
        if FORGETS.contains(&opcode) {
            return (self.0.send)(&bytes).map_err(|_| Errno::ENOTCONN);
        }
        self.0.asked(unique, &bytes).map(drop)
    }

    fn begin(&self, caller: Caller, opcode: u32, node: u64, body: &[u8]) -> Result<Begun, Errno> {
        let (unique, bytes) = self.0.message(caller, opcode, node, body);
        let reply = self.0.sent(unique, &bytes)?;
        locked(&self.0.begun).insert(unique as u32, reply);
        Ok(Begun {
            index: unique as u32,
            word: 0,
            own: 0,
        })
    }

    fn end(&self, begun: Begun, keeps: bool, take: Body<'_>) -> Result<(), Errno> {
        let receiver = locked(&self.0.begun).remove(&begun.index);
        let reply = received(&receiver.ok_or(Errno::ENOENT)?);
        if keeps {
            let (sender, again) = mpsc::channel();
            let _ = sender.send(reply.clone());
            locked(&self.0.begun).insert(begun.index, again);
        }
        let mut reply = reply?;
        // SAFETY: as of a call.
        take(&unsafe { Payload::new(reply.as_mut_ptr(), reply.len()) })
    }

    fn abandon(&self, begun: Begun) {
        let receiver = locked(&self.0.begun).remove(&begun.index);
        if let Some(receiver) = receiver {
            let _ = received(&receiver);
        }
    }

    fn init_reply(&self) -> [u8; 64] {
        *locked(&self.0.init)
    }

    fn notifications(&self) -> u64 {
        self.0.notifications.load(SeqCst)
    }

    fn words(&self) -> &[AtomicU64] {
        &self.0.words
    }

    fn cache_pages(&self) -> usize {
        self.0.cache.len() / 512
    }

    fn cached(&self, first: usize, count: usize) -> Option<&[AtomicU64]> {
        self.0.cache.get(first * 512..(first + count) * 512)
    }

    fn identity(&self) -> u64 {
        // Where it lies, as long as it is there.
        let identity = std::ptr::from_ref(self) as u64;
        locked(&self.0.identities).push(identity);
        identity
    }
}

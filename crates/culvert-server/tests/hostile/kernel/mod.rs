//! A kernel that is not to be trusted: it asks what no kernel asks, in any order, in well-formed
//! and in mutated messages, and looks at every answer.
//!
//! What it asks is made of a row of numbers, so that a failure comes again.

mod asks;

use culvert_server::{Channel, RequestChannel};
use culvert_wire::{
    Answer, Expects, Extensions, InitFlags, MAJOR, MINIMUM_BUFFER, Message, NEWEST_MINOR,
    Notification, Operation, Protocol, Reply, Request,
    structures::{ForgetIn, InHeader, InitIn, ReleaseIn},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What has been asked and learnt.
struct State {
    numbers: Box<dyn FnMut() -> Option<u64> + Send>,
    begun: bool,
    ended: bool,
    unique: u64,
    nodes: Vec<u64>,
    files: Vec<u64>,
    directories: Vec<u64>,
    /// What is given back at the end: nodes, and the handles that are open (of a file or not), with
    /// their nodes.
    looked_up: BTreeSet<u64>,
    open: BTreeMap<(u64, bool), u64>,
    /// The node of the file that was chosen last for what is being made up.
    chosen: Option<u64>,
    /// Requests without an answer, with what an answer has to look like.
    waiting: BTreeMap<u64, (Option<Expects>, InHeader)>,
    protocol: Protocol,
    answers: usize,
    errors: usize,
}

/// `FUSE_OPEN`; what is opened otherwise is a directory.
const OPEN: u32 = 14;

/// The kernel; clones are the same one.
#[derive(Clone)]
pub struct Kernel(Arc<Mutex<State>>);

/// What it has seen.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Requests that were answered.
    pub answers: usize,
    /// With an errno.
    pub errors: usize,
}

impl Kernel {
    /// One that asks what `numbers` say, until there are no more.
    pub fn new(numbers: impl FnMut() -> Option<u64> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(State {
            numbers: Box::new(numbers),
            begun: false,
            ended: false,
            unique: 0,
            nodes: vec![1],
            files: vec![],
            directories: vec![],
            looked_up: BTreeSet::new(),
            open: BTreeMap::new(),
            chosen: None,
            waiting: BTreeMap::new(),
            protocol: Protocol::UNNEGOTIATED,
            answers: 0,
            errors: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it has seen, when the session has ended.
    ///
    /// # Panics
    /// Something was not answered.
    pub fn seen(&self) -> Seen {
        let state = self.state();
        assert!(state.waiting.is_empty(), "no answer: {:?}", state.waiting);
        Seen {
            answers: state.answers,
            errors: state.errors,
        }
    }
}

impl State {
    /// The bytes of `operation` on `nodeid`.
    fn message(&mut self, nodeid: u64, operation: Operation<'_>) -> Vec<u8> {
        self.unique += 2;
        let header = InHeader {
            unique: self.unique,
            nodeid,
            uid: 1000,
            gid: 1000,
            pid: 1,
            ..InHeader::default()
        };
        encoded(header, operation, &self.protocol)
    }

    /// Changes some bytes behind the length, or the length; not the request's number, which the
    /// answer is known by.
    fn mutate(&mut self, bytes: &mut Vec<u8>) -> Option<()> {
        const HEADER: usize = size_of::<InHeader>();
        for _ in 0..=self.below(3)? {
            match self.below(8)? {
                0 => {
                    let end = HEADER + self.below(bytes.len() - HEADER + 1)?;
                    bytes.truncate(end);
                }
                1 => bytes.extend([0xff; 8]),
                2 => bytes[4] = self.below(60)? as u8,
                _ => {
                    let at = 16 + self.below((bytes.len() - 16).min(100))?;
                    bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)?];
                }
            }
        }
        if self.below(4)? != 0 {
            let length = (bytes.len() as u32).to_ne_bytes();
            bytes[..4].copy_from_slice(&length);
        }
        Some(())
    }

    /// The next request; none: the numbers have ended.
    fn next(&mut self) -> Option<Vec<u8>> {
        let node = self.node()?;
        self.chosen = None;
        let operation = self.operation()?;
        let node = match self.below(6)? {
            0 => node,
            _ => self.chosen.unwrap_or(node),
        };
        let mut bytes = self.message(node, operation);
        if self.below(5)? == 0 {
            self.mutate(&mut bytes)?;
        }
        Some(bytes)
    }

    /// What is asked at the end: all that is open is closed, all that was looked up is forgotten.
    fn last(&mut self) -> Option<Vec<u8>> {
        if let Some(((fh, is_file), node)) = self.open.pop_first() {
            let release = ReleaseIn {
                fh,
                ..ReleaseIn::default()
            };
            let operation = match is_file {
                true => Operation::Release { release },
                false => Operation::Releasedir { release },
            };
            return Some(self.message(node, operation));
        }
        let node = self.looked_up.pop_first()?;
        let nlookup = u64::MAX;
        let forget = ForgetIn { nlookup };
        Some(self.message(node, Operation::Forget { forget }))
    }

    /// Notes what an answer to `bytes` has to be.
    fn expect(&mut self, bytes: &[u8]) {
        let header = Request::header(bytes).expect("mutations leave it whole");
        let expected = match Request::decode(bytes, &self.protocol) {
            Ok(request) => match request.operation.expects() {
                Some(expects) => Some(expects),
                None => return,
            },
            Err(_) => None,
        };
        self.waiting.insert(header.unique, (expected, header));
    }

    fn answered(&mut self, answer: &Answer<'_>) {
        self.answers += 1;
        match answer {
            Answer::Error(errno) => {
                assert!((1..=4095).contains(errno));
                self.errors += 1;
            }
            Answer::Entry { entry } if entry.nodeid != 0 => {
                self.nodes.push(entry.nodeid);
                self.looked_up.insert(entry.nodeid);
            }
            Answer::Created { entry, open } => {
                self.nodes.push(entry.nodeid);
                self.looked_up.insert(entry.nodeid);
                self.files.push(open.fh);
                self.open.insert((open.fh, true), entry.nodeid);
            }
            _ => {}
        }
    }
}

/// The bytes of a request.
pub fn encoded(header: InHeader, operation: Operation<'_>, protocol: &Protocol) -> Vec<u8> {
    let extensions = Extensions::NONE;
    let request = Request {
        header,
        operation,
        extensions,
    };
    flat(&request.encode(protocol).expect("can be sent"))
}

fn flat(message: &Message<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.length()];
    message.copy_to(&mut bytes).expect("as long as it says");
    bytes
}

impl Channel for Kernel {
    fn send(&self, message: &Message<'_>) -> io::Result<()> {
        let bytes = flat(message);
        let mut state = self.state();
        let protocol = state.protocol;
        if Reply::is_notification(&bytes) {
            Notification::decode(&bytes, &protocol).expect("a well-formed notification");
            return Ok(());
        }
        let unique = Reply::unique_of(&bytes).expect("a header");
        let expected = state.waiting.remove(&unique);
        let (expected, asked) = expected.expect("an answer to what was asked, once");
        // What cannot be understood is answered by an error alone.
        let reply = Reply::decode(&bytes, expected.unwrap_or(Expects::Done), &protocol);
        let reply = reply.expect("a well-formed answer");
        assert!(expected.is_some() || matches!(reply.answer, Answer::Error(_)));
        state.answered(&reply.answer);
        match (expected, &reply.answer) {
            (Some(Expects::Init), Answer::Init { init }) => {
                let flags = InitFlags::from_words(init.flags, init.flags2);
                let agreed = Protocol::negotiate(init.major, init.minor, flags);
                state.protocol = agreed.expect("a version that was offered");
            }
            (_, Answer::Opened { open }) => {
                // Each is tried as the other, too.
                state.files.push(open.fh);
                state.directories.push(open.fh);
                let is_file = asked.opcode == OPEN;
                state.open.insert((open.fh, is_file), asked.nodeid);
            }
            (_, Answer::Data { data }) => {
                // A listing with attributes gives a reference on each node in it.
                let entries = culvert_wire::DirectoryEntriesPlus(data.0);
                let found = entries.map_while(|entry| Some(entry.ok()?.0.nodeid));
                let found: Vec<_> = found.filter(|&node| node != 0).take(100).collect();
                state.looked_up.extend(found);
            }
            _ => {}
        }
        Ok(())
    }
}

impl RequestChannel for Kernel {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        // One thread serves: it has answered before it asks for more.
        assert!(state.waiting.is_empty(), "no answer: {:?}", state.waiting);
        let bytes = if !state.begun {
            state.begun = true;
            assert!(buffer.len() >= MINIMUM_BUFFER);
            let init = InitIn {
                major: MAJOR,
                minor: NEWEST_MINOR,
                max_readahead: 1 << 17,
                flags: u32::MAX,
                flags2: u32::MAX,
                ..InitIn::default()
            };
            Some(state.message(0, Operation::Init { init }))
        } else {
            let next = match state.ended {
                true => None,
                false => state.next(),
            };
            state.ended |= next.is_none();
            next.or_else(|| state.last())
        };
        let Some(bytes) = bytes else {
            return Ok(0);
        };
        state.expect(&bytes);
        buffer[..bytes.len()].copy_from_slice(&bytes);
        Ok(bytes.len())
    }

    fn another(&self) -> io::Result<Box<dyn RequestChannel>> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

//! The server of these processes, which counts what it has done for them.

use super::*;
use std::collections::HashSet;

/// What the server has done.
#[derive(Default)]
pub struct Done {
    /// How often it has carried out a request, by its id.
    pub times: HashMap<u64, u32>,
    pub open: HashSet<u64>,
    pub handles: u64,
    /// The request whose reply is kept back, by its number, and the reply.
    pub kept: Option<(u64, Vec<u8>)>,
}

pub struct Trial {
    pub server: Server,
    pub bell: OwnedFd,
    pub over: AtomicBool,
    pub done: Mutex<Done>,
}

impl Trial {
    pub fn word(&self, index: usize) -> &AtomicU64 {
        &self.server.area().words()[index]
    }

    /// A thread of the server.
    pub fn serve(&self) {
        while !self.over.load(Relaxed) {
            if !heard(&self.bell) {
                continue;
            }
            self.word(TAKES).fetch_add(1, SeqCst);
            if self.word(SHUT).load(SeqCst) != 0 {
                self.word(TAKES).fetch_sub(1, SeqCst);
                // Whoever opens it rings again.
                continue;
            }
            let message = self.server.take();
            self.word(TAKES).fetch_sub(1, SeqCst);
            if let Ok(Some(message)) = message {
                self.carry_out(message);
            }
        }
    }

    pub fn carry_out(&self, message: Message<'_>) {
        let word = |at: usize| u64::from_ne_bytes(message.header[at..at + 8].try_into().unwrap());
        let (number, node) = (word(8), word(16));
        let opcode = u32::from_ne_bytes(message.header[4..8].try_into().unwrap());
        if message.interrupted.is_some() {
            message.taken();
            let mut done = self.done.lock().unwrap();
            let kept = done.kept.take_if(|(kept, _)| *kept | 1 == number);
            drop(done);
            if let Some((number, body)) = kept {
                self.reply(number, &body);
            }
            return;
        }
        if node != NODE {
            answer(&self.server, message, &AtomicU64::new(0));
            return;
        }
        let mut body = std::vec![0; message.body.len()];
        message.body.read(0, &mut body);
        let part = |index: usize| -> u64 {
            let bytes = &body[index * 8..index * 8 + 8];
            u64::from_ne_bytes(bytes.try_into().unwrap())
        };
        let mut done = self.done.lock().unwrap();
        let id = part(1);
        *done.times.entry(id).or_default() += 1;
        // From here on the slot of what needs no reply is free, and looked for.
        message.taken();
        assert_eq!(done.times[&id], 1, "request {id} was done twice");
        let mut reply = std::vec![0; 16];
        match opcode {
            FORGET => return,
            OPEN => {
                done.handles += 1;
                let handle = done.handles;
                done.open.insert(handle);
                reply[..8].copy_from_slice(&handle.to_ne_bytes());
            }
            RELEASE => {
                let handle = part(0);
                assert!(done.open.remove(&handle), "{handle} was closed twice");
                reply.clear();
            }
            _ => {
                assert_eq!(body.len(), CHANGE);
                assert!(body[16..].iter().all(|&byte| byte == id as u8), "torn");
                reply = body;
            }
        }
        // Not of who closes what the process has left.
        let kept = id == self.word(KEPT).load(SeqCst);
        if kept {
            // What is interrupted may fail, or have opened a file in spite of that.
            if opcode != OPEN {
                reply = FAILED.to_vec();
            }
            done.kept = Some((number, reply));
            return;
        }
        drop(done);
        self.reply(number, &reply);
    }

    /// The server takes again.
    pub fn unshut(&self) {
        self.word(SHUT).store(0, SeqCst);
        let _ = fs::write(&self.bell, &[0; 4]);
    }

    pub fn reply_kept(&self) {
        let kept = self.done.lock().unwrap().kept.take();
        if let Some((number, body)) = kept {
            self.reply(number, &body);
        }
    }

    /// Replies `body`; `EINTR` where that is [`FAILED`].
    pub fn reply(&self, number: u64, body: &[u8]) {
        let reply = self.server.reply(number).expect("it is in hand");
        reply.secure(body.len()).unwrap();
        reply.payload(body.len()).write(0, body);
        let _ = match body == FAILED {
            true => reply.finish(-Errno::EINTR.raw(), 0),
            false => reply.finish(0, body.len()),
        };
        assert!(self.server.reply(number).is_err(), "twice");
    }
}

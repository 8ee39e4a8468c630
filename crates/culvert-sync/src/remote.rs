//! What comes from other hosts, by TCP: bytes that become requests once the writer has shown that
//! he knows the secret ([`culvert_sync_wire::secret`]).

use crate::tls::Cover;
use culvert_sync_wire::FileId;
use culvert_sync_wire::secret::{self, Greeting, LONGEST_FRAME, PROOF_LENGTH, Session};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// The secret of a service.
pub type Secret = Arc<Vec<u8>>;

/// A writer on another host.
pub struct Remote {
    secret: Secret,
    /// TLS, where the service asks for it.
    cover: Option<Cover>,
    state: State,
    input: Vec<u8>,
    /// Its files, as this host knows them: devices have other numbers on each.
    pub files: BTreeMap<FileId, FileId>,
}

enum State {
    /// Nothing has come yet.
    New,
    /// It was asked to show that it knows the secret.
    Asked([[u8; 32]; 2]),
    Known(Session),
}

/// What has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Not enough yet.
    More,
    /// These bytes are the answer.
    Answer(Vec<u8>),
    /// A request.
    Request(Vec<u8>),
    /// Nothing that a writer with the secret sends.
    Wrong,
}

/// Bytes that nobody can guess.
pub fn random() -> io::Result<[u8; 32]> {
    use std::io::Read;
    let mut bytes = [0; 32];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

impl Remote {
    /// One who has connected, under `cover`.
    pub fn new(secret: Secret, cover: Option<Cover>) -> Self {
        Self {
            secret,
            cover,
            state: State::New,
            input: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    /// Whether it has shown that it knows the secret.
    pub fn is_known(&self) -> bool {
        matches!(self.state, State::Known(_))
    }

    /// Takes in what has come; an error: it is no TLS, where it has to be.
    pub fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.cover {
            Some(cover) => cover.open(bytes, &mut self.input),
            None => {
                self.input.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// `bytes` as they go out, with what TLS has to say by itself.
    pub fn covered(&mut self, bytes: Vec<u8>) -> io::Result<Vec<u8>> {
        match &mut self.cover {
            Some(cover) => cover.seal(&bytes),
            None => Ok(bytes),
        }
    }

    /// What that is.
    pub fn step(&mut self) -> Step {
        let wanted = match &self.state {
            State::New => Some(secret::HELLO_LENGTH),
            State::Asked(_) => Some(PROOF_LENGTH),
            State::Known(_) => secret::frame(&self.input),
        };
        // It waits for an answer before it asks again; the first request comes with the proof.
        let more = matches!(self.state, State::Asked(_));
        let wanted = match wanted {
            Some(wanted) if wanted > LONGEST_FRAME || self.input.len() > wanted && !more => {
                return Step::Wrong;
            }
            Some(wanted) if self.input.len() >= wanted => wanted,
            _ => return Step::More,
        };
        let bytes: Vec<u8> = self.input.drain(..wanted).collect();
        self.understood(&bytes).unwrap_or(Step::Wrong)
    }

    fn understood(&mut self, bytes: &[u8]) -> Option<Step> {
        match &mut self.state {
            State::New => {
                let nonces = [secret::greeted(bytes)?, random().ok()?];
                let challenge = greeting(&self.secret, nonces).challenge();
                self.state = State::Asked(nonces);
                Some(Step::Answer(challenge))
            }
            State::Asked(nonces) => {
                let greeting = greeting(&self.secret, *nonces);
                if !greeting.is_of_writer(bytes) {
                    return None;
                }
                self.state = State::Known(greeting.session(true));
                Some(self.step())
            }
            State::Known(session) => Some(Step::Request(session.open(bytes)?.to_vec())),
        }
    }

    /// An answer as it goes out.
    pub fn seal(&mut self, answer: &[u8]) -> Vec<u8> {
        match &mut self.state {
            State::Known(session) => session.seal(answer),
            // Nobody else has asked anything.
            _ => Vec::new(),
        }
    }
}

fn greeting(secret: &[u8], [writer, service]: [[u8; 32]; 2]) -> Greeting<'_> {
    Greeting {
        secret,
        writer,
        service,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote() -> Remote {
        Remote::new(Arc::new(b"the secret of us".to_vec()), None)
    }

    #[test]
    fn a_writer_is_heard_when_it_has_shown_that_it_knows_the_secret() {
        for (own, is_known) in [("the secret of us", true), ("the secret of me", false)] {
            let mut remote = remote();
            let hello = secret::hello(&[7; 32]);
            for byte in &hello[..35] {
                remote.take(&[*byte]).unwrap();
                assert_eq!(remote.step(), Step::More);
            }
            remote.take(&hello[35..]).unwrap();
            let Step::Answer(challenge) = remote.step() else {
                panic!("no challenge");
            };
            let nonce = challenge[..32].try_into().unwrap();
            let greeting = greeting(own.as_bytes(), [[7; 32], nonce]);
            assert_eq!(greeting.is_of_service(&challenge[32..]), is_known);
            remote.take(&greeting.proof()).unwrap();
            let mut session = greeting.session(false);
            remote.take(&session.seal(b"request")).unwrap();
            assert!(!remote.is_known());
            if !is_known {
                assert_eq!(remote.step(), Step::Wrong);
                continue;
            }
            assert_eq!(remote.step(), Step::Request(b"request".to_vec()));
            let answer = remote.seal(b"answer");
            assert_eq!(session.open(&answer), Some(&b"answer"[..]));
        }
    }

    #[test]
    fn nonsense_and_requests_without_the_secret_are_wrong() {
        for bytes in [
            &[0; 36][..],
            b"CvS2 and so on, a request that nobody has let in yet",
        ] {
            let mut remote = remote();
            remote.take(bytes).unwrap();
            assert_eq!(remote.step(), Step::Wrong);
        }
        let mut remote = remote();
        let more = [secret::hello(&[1; 32]), vec![0; 1]].concat();
        remote.take(&more).unwrap();
        assert_eq!(remote.step(), Step::Wrong);
    }
}

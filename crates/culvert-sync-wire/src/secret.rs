//! Between hosts: both ends show that they know the secret of the back end, which is never sent,
//! and each message has a tag that nobody else can make.
//!
//! ```text
//! writer                              service
//!   "CvH1", nonce ------------------>
//!   <------------------ nonce, HMAC(secret, "service", both nonces)
//!   HMAC(secret, "writer", both) --->
//!   then, both ways: length (16 bits), message, tag
//! ```
//!
//! A tag is the first half of HMAC(key, direction, number, message) with a key of this connection's
//! own: HMAC(secret, "key", both). So messages cannot be changed, left out, repeated or put in
//! another order unseen. They are not hidden: paths and sizes can be read on the way, unless all of
//! this goes under the cover of TLS ([`crate::relay`]).

use alloc::vec::Vec;
use sha2::{Digest as _, Sha256};

/// What SHA-256 gives.
pub type Digest = [u8; 32];
/// A number used once.
pub type Nonce = [u8; 32];
/// How a writer begins.
const HELLO: [u8; 4] = *b"CvH1";
/// Bytes of a writer's first message.
pub const HELLO_LENGTH: usize = 36;
/// Bytes of a service's first message.
pub const CHALLENGE_LENGTH: usize = 64;
/// Bytes of a writer's second message.
pub const PROOF_LENGTH: usize = 32;
/// The shortest secret, bytes.
pub const SHORTEST: usize = 16;
/// Bytes of a length, and of a tag.
const HEAD: usize = 2;
const TAG: usize = 16;
/// Bytes that SHA-256 takes at once.
const BLOCK: usize = 64;

/// HMAC-SHA-256 of `parts` one behind the other (RFC 2104).
pub fn hmac(key: &[u8], parts: &[&[u8]]) -> Digest {
    let mut block = [0; BLOCK];
    match key.len() > BLOCK {
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let mut inner = Sha256::new();
    inner.update(block.map(|byte| byte ^ 0x36));
    parts.iter().for_each(|part| inner.update(part));
    let mut outer = Sha256::new();
    outer.update(block.map(|byte| byte ^ 0x5c));
    outer.update(inner.finalize());
    outer.finalize().into()
}

/// Whether both are the same, in a time that does not say where they differ.
fn equal(one: &[u8], two: &[u8]) -> bool {
    let differ = |sum, (one, two): (&u8, &u8)| sum | (one ^ two);
    one.len() == two.len() && core::hint::black_box(one.iter().zip(two).fold(0, differ)) == 0
}

/// The secret and both nonces of a connection.
pub struct Greeting<'a> {
    /// The secret.
    pub secret: &'a [u8],
    /// The writer's nonce.
    pub writer: Nonce,
    /// The service's.
    pub service: Nonce,
}

impl Greeting<'_> {
    fn digest(&self, what: &[u8]) -> Digest {
        hmac(self.secret, &[what, &self.writer, &self.service])
    }

    /// What a service answers to a writer's first message.
    pub fn challenge(&self) -> Vec<u8> {
        [self.service, self.digest(b"service")].concat()
    }

    /// Whether `digest`, which came with the nonce, is of a service that knows the secret.
    pub fn is_of_service(&self, digest: &[u8]) -> bool {
        equal(digest, &self.digest(b"service"))
    }

    /// A writer's second message.
    pub fn proof(&self) -> Digest {
        self.digest(b"writer")
    }

    /// Whether `digest` is of a writer that knows the secret.
    pub fn is_of_writer(&self, digest: &[u8]) -> bool {
        equal(digest, &self.proof())
    }

    /// The connection from then on, at the end of the service, or of the writer.
    pub fn session(&self, is_service: bool) -> Session {
        Session {
            key: self.digest(b"key"),
            is_service,
            sent: 0,
            received: 0,
        }
    }
}

/// A writer's first message.
pub fn hello(nonce: &Nonce) -> Vec<u8> {
    [&HELLO[..], nonce].concat()
}

/// The nonce in a writer's first message.
pub fn greeted(bytes: &[u8]) -> Option<Nonce> {
    bytes.strip_prefix(&HELLO)?.try_into().ok()
}

/// One end of a connection whose ends know each other.
pub struct Session {
    key: Digest,
    is_service: bool,
    sent: u64,
    received: u64,
}

impl Session {
    fn tag(&self, by_service: bool, number: u64, message: &[u8]) -> Digest {
        let direction = [u8::from(by_service)];
        hmac(&self.key, &[&direction, &number.to_le_bytes(), message])
    }

    /// `message` as it goes out, the next one.
    pub fn seal(&mut self, message: &[u8]) -> Vec<u8> {
        let tag = self.tag(self.is_service, self.sent, message);
        self.sent += 1;
        let length = (message.len() as u16).to_le_bytes();
        [&length[..], message, &tag[..TAG]].concat()
    }

    /// The message in `frame`, which [`frame`] says is whole, if it is the other end's next one.
    pub fn open<'a>(&mut self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let message = frame.get(HEAD..frame.len().checked_sub(TAG)?)?;
        let tag = self.tag(!self.is_service, self.received, message);
        if !equal(&tag[..TAG], &frame[frame.len() - TAG..]) {
            return None;
        }
        self.received += 1;
        Some(message)
    }
}

/// How long the frame is that `bytes` begins with; none: more must come to say it.
pub fn frame(bytes: &[u8]) -> Option<usize> {
    let head: [u8; HEAD] = bytes.get(..HEAD)?.try_into().ok()?;
    Some(HEAD + usize::from(u16::from_le_bytes(head)) + TAG)
}

/// The longest frame that a request makes.
pub const LONGEST_FRAME: usize = HEAD + crate::REQUEST + crate::LONGEST_PATH + TAG;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, string::String};

    fn text(digest: Digest) -> String {
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 4231, test cases 1, 2 and 6.
    #[test]
    fn hmac_is_that_of_the_rfc() {
        let one = hmac(&[0x0b; 20], &[b"Hi ", b"There"]);
        let want = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(text(one), want);
        let two = hmac(b"Jefe", &[b"what do ya want for nothing?"]);
        let want = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(text(two), want);
        let long = b"Test Using Larger Than Block-Size Key - Hash Key First";
        let want = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        assert_eq!(text(hmac(&[0xaa; 131], &[long])), want);
    }

    fn greeting(secret: &[u8]) -> Greeting<'_> {
        Greeting {
            secret,
            writer: [1; 32],
            service: [2; 32],
        }
    }

    #[test]
    fn ends_know_each_other_by_the_secret_alone() {
        let (right, wrong) = (greeting(b"the secret of us"), greeting(b"the secret of me"));
        let challenge = right.challenge();
        assert_eq!(challenge.len(), CHALLENGE_LENGTH);
        assert!(right.is_of_service(&challenge[32..]));
        assert!(!wrong.is_of_service(&challenge[32..]));
        assert!(right.is_of_writer(&right.proof()) && !right.is_of_writer(&wrong.proof()));
        // What one end has said does not serve the other one.
        assert!(!right.is_of_writer(&challenge[32..]));
        assert!(!right.is_of_service(&right.proof()));
        let sent = [hello(&[1; 32]), challenge, right.proof().to_vec()].concat();
        let secret = &right.secret[..8];
        assert!(!sent.windows(8).any(|part| part == secret));
        assert_eq!(greeted(&hello(&[7; 32])), Some([7; 32]));
        assert_eq!(greeted(&[0; HELLO_LENGTH]), None);
    }

    #[test]
    fn messages_of_others_and_repeated_ones_are_refused() {
        let secret = greeting(b"the secret of us");
        let ends = || (secret.session(true), secret.session(false));
        let (mut service, mut writer) = ends();
        let first = writer.seal(b"one");
        assert_eq!(frame(&first), Some(first.len()));
        assert_eq!(frame(&first[..1]), None);
        assert_eq!(service.open(&first), Some(&b"one"[..]));
        assert_eq!(service.open(&first), None);
        let second = writer.seal(b"two");
        // The other way, and out of order.
        assert_eq!(ends().1.open(&second), None);
        assert_eq!(ends().0.open(&second), None);
        for at in 0..second.len() {
            let mut changed = second.clone();
            changed[at] ^= 1;
            if at >= HEAD {
                assert_eq!(service.open(&changed), None, "{at}");
            }
        }
        assert_eq!(service.open(&second), Some(&b"two"[..]));
        assert_eq!(service.open(&[0; 3]), None);
    }
}

//! The two messages, a packet each.

use rustix::{
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use std::{
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::fd::{BorrowedFd, OwnedFd},
};

/// The first word of a request: counts changes of what follows.
const REQUEST: u32 = 0x0143_5645;
/// Of a reply that brings descriptors, and of one that says why there are none.
const LOADED: u32 = 0x0144_5645;
const REFUSED: u32 = 0x0145_5645;
/// Maps of an object, at most.
pub const MAPS: usize = 16;
/// Bytes of an object, at most: what fits a packet.
pub const LARGEST: usize = 128 << 10;
const HEADER: usize = 8;
const MOST: usize = HEADER + 4 * MAPS + LARGEST;
/// Bytes of a reason, at most.
const TEXT: usize = 512;

/// What a server wants: the magic word, how many maps, the entries of each, the object; beside it
/// the descriptor.
#[derive(Debug, PartialEq, Eq)]
pub struct Request<'r> {
    /// Entries of the object's maps, in their order; 0: as it says.
    pub entries: &'r [u32],
    /// The object.
    pub object: &'r [u8],
}

/// A request that came.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    pub entries: Vec<u32>,
    pub object: Vec<u8>,
}

/// What it gets: the magic word, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub enum Reply {
    /// With the module's descriptor, and one for each map.
    Loaded,
    Refused(String),
}

impl Request<'_> {
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        if self.entries.len() > MAPS || self.object.len() > LARGEST {
            return Err(io::Error::other("the object is too large"));
        }
        let count = self.entries.len() as u32;
        let words = [REQUEST, count]
            .into_iter()
            .chain(self.entries.iter().copied());
        let mut bytes: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
        bytes.extend_from_slice(self.object);
        Ok(bytes)
    }

    pub fn send(&self, socket: &OwnedFd, fuse: BorrowedFd<'_>) -> io::Result<()> {
        send(socket, &self.bytes()?, &[fuse])
    }
}

impl Received {
    /// Reads it; none: it is no request.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |n: usize| {
            let bytes = bytes.get(4 * n..4 * n + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let count = word(1)? as usize;
        if word(0)? != REQUEST || count > MAPS {
            return None;
        }
        let entries = (2..2 + count).map(word).collect::<Option<_>>()?;
        let object = bytes.get(HEADER + 4 * count..)?;
        (object.len() <= LARGEST).then(|| Self {
            entries,
            object: object.to_vec(),
        })
    }

    /// The next one, with the descriptors beside it; none: what came is none.
    pub fn receive(socket: &OwnedFd) -> io::Result<(Option<Self>, Vec<OwnedFd>)> {
        let (bytes, descriptors) = receive(socket, MOST)?;
        Ok((bytes.and_then(|bytes| Self::parse(&bytes)), descriptors))
    }
}

impl Reply {
    pub fn send(&self, socket: &OwnedFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let (magic, why) = match self {
            Self::Loaded => (LOADED, ""),
            Self::Refused(why) => (REFUSED, &why[..why.floor_char_boundary(TEXT)]),
        };
        let bytes = [&magic.to_le_bytes()[..], why.as_bytes()].concat();
        send(socket, &bytes, descriptors)
    }

    pub fn receive(socket: &OwnedFd) -> io::Result<(Self, Vec<OwnedFd>)> {
        let (bytes, descriptors) = receive(socket, 4 + TEXT)?;
        let bytes = bytes.ok_or(io::ErrorKind::InvalidData)?;
        let (magic, why) = bytes
            .split_first_chunk()
            .ok_or(io::ErrorKind::InvalidData)?;
        match u32::from_le_bytes(*magic) {
            LOADED => Ok((Self::Loaded, descriptors)),
            REFUSED => Ok((
                Self::Refused(String::from_utf8_lossy(why).into_owned()),
                Vec::new(),
            )),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

pub fn send(socket: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAPS + 1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(())
}

/// A packet, none if it is longer than `most` or some of its descriptors did not come; and those
/// that came.
fn receive(socket: &OwnedFd, most: usize) -> io::Result<(Option<Vec<u8>>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; most];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAPS + 1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            got => break got?,
        }
    };
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            descriptors.extend(came);
        }
    }
    bytes.truncate(got.bytes);
    let whole = !got
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    Ok((whole.then_some(bytes), descriptors))
}

//! The parts that messages are made of.

use crate::{
    Malformed, Message, Plain,
    input::Input,
    structures::{ForgetOne, InitIn, InitOut},
};

/// A part of a message: how it is taken and how it is put.
pub(crate) trait Field<'a>: Sized {
    /// Takes it from what is left.
    fn take(input: &mut Input<'a>) -> Result<Self, Malformed>;
    /// Adds it.
    fn put(&self, message: &mut Message<'a>, input: &crate::Protocol);
}

/// A name in a directory: one component, as the driver API wants it. Not empty, no slash, no NUL,
/// neither `.` nor `..`; any length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a>(&'a [u8]);

impl<'a> Name<'a> {
    /// `bytes` as a name; none when they cannot be one.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let bad = matches!(bytes, b"" | b"." | b"..") || bytes.iter().any(|&b| b == 0 || b == b'/');
        (!bad).then_some(Self(bytes))
    }
    /// Its bytes.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Bytes that a NUL ends: the target of a link, the name of an extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// `bytes` as such a text; none when they hold a NUL.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        (!bytes.contains(&0)).then_some(Self(bytes))
    }
    /// Its bytes.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }
}

/// Bytes up to the end of the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data<'a>(pub &'a [u8]);

/// What BATCH_FORGET gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forgets<'a>(&'a [u8]);

impl<'a> Forgets<'a> {
    /// `bytes` as they are sent: whole [`ForgetOne`]s.
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        match bytes.len() % size_of::<ForgetOne>() {
            0 => Some(Self(bytes)),
            _ => None,
        }
    }
    /// How many.
    pub const fn count(self) -> usize {
        self.0.len() / size_of::<ForgetOne>()
    }
    /// Each.
    pub fn iter(self) -> impl Iterator<Item = ForgetOne> + 'a {
        self.0
            .chunks_exact(size_of::<ForgetOne>())
            .map(ForgetOne::from_prefix)
    }
}

/// Node numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nodes<'a>(&'a [u8]);

impl<'a> Nodes<'a> {
    /// `bytes` as they are sent: eight for each node, in the machine's order.
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        match bytes.len() % 8 {
            0 => Some(Self(bytes)),
            _ => None,
        }
    }
    /// How many.
    pub const fn count(self) -> usize {
        self.0.len() / 8
    }
    /// Each.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        self.0
            .chunks_exact(8)
            .filter_map(<[u8]>::first_chunk)
            .map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

impl<'a> Field<'a> for Name<'a> {
    fn take(input: &mut Input<'a>) -> Result<Self, Malformed> {
        Self::new(input.text()?).ok_or(Malformed::Name)
    }
    fn put(&self, message: &mut Message<'a>, _: &crate::Protocol) {
        message.piece(self.0);
        message.piece(b"\0");
    }
}

impl<'a> Field<'a> for Text<'a> {
    fn take(input: &mut Input<'a>) -> Result<Self, Malformed> {
        input.text().map(Self)
    }
    fn put(&self, message: &mut Message<'a>, _: &crate::Protocol) {
        message.piece(self.0);
        message.piece(b"\0");
    }
}

impl<'a> Field<'a> for Data<'a> {
    fn take(input: &mut Input<'a>) -> Result<Self, Malformed> {
        Ok(Self(input.remainder()))
    }
    fn put(&self, message: &mut Message<'a>, _: &crate::Protocol) {
        message.piece(self.0);
    }
}

impl<'a> Field<'a> for Forgets<'a> {
    fn take(input: &mut Input<'a>) -> Result<Self, Malformed> {
        Self::new(input.remainder()).ok_or(Malformed::Count)
    }
    fn put(&self, message: &mut Message<'a>, _: &crate::Protocol) {
        message.piece(self.0);
    }
}

impl<'a> Field<'a> for Nodes<'a> {
    fn take(input: &mut Input<'a>) -> Result<Self, Malformed> {
        Self::new(input.remainder()).ok_or(Malformed::Count)
    }
    fn put(&self, message: &mut Message<'a>, _: &crate::Protocol) {
        message.piece(self.0);
    }
}

/// INIT as it is taken: what the peer sends of it, which a later version may lengthen.
fn take_init<T: Plain>(input: &mut Input<'_>, least: usize) -> Result<T, Malformed> {
    let bytes = input.remainder();
    match bytes.len() < least {
        true => Err(Malformed::TooShort),
        false => Ok(T::from_prefix(bytes)),
    }
}

impl<'a> Field<'a> for InitIn {
    fn take(input: &mut Input<'a>) -> Result<Self, Malformed> {
        take_init(input, 16)
    }
    fn put(&self, message: &mut Message<'a>, protocol: &crate::Protocol) {
        message.plain(self, protocol);
    }
}

impl<'a> Field<'a> for InitOut {
    /// At least the two version numbers (`FUSE_COMPAT_INIT_OUT_SIZE`), all that a server of another
    /// major version says.
    fn take(input: &mut Input<'a>) -> Result<Self, Malformed> {
        take_init(input, 8)
    }
    fn put(&self, message: &mut Message<'a>, protocol: &crate::Protocol) {
        message.plain(self, protocol);
    }
}

/// Structures that are taken as long as the protocol says.
macro_rules! plain_fields {
    ($($name:ident)*) => {$(
        impl<'a> Field<'a> for crate::structures::$name {
            fn take(input: &mut Input<'a>) -> Result<Self, Malformed> {
                input.plain()
            }
            fn put(&self, message: &mut Message<'a>, protocol: &crate::Protocol) {
                message.plain(self, protocol);
            }
        }
    )*};
}

plain_fields! {
    AccessIn AttrOut BatchForgetIn BmapIn BmapOut CopyFileRangeIn CopyFileRangeOut CreateIn EntryOut FallocateIn FlushIn ForgetIn FsyncIn GetattrIn
    GetxattrIn GetxattrOut InterruptIn IoctlIn IoctlOut LinkIn LkIn LkOut LseekIn LseekOut MkdirIn MknodIn NotifyDeleteOut NotifyInvalEntryOut
    NotifyInvalInodeOut NotifyPollWakeupOut NotifyPruneOut NotifyRetrieveIn NotifyRetrieveOut NotifyStoreOut OpenIn OpenOut PollIn PollOut ReadIn ReleaseIn
    Rename2In RenameIn SetattrIn SetxattrIn StatfsOut StatxIn StatxOut SyncfsIn WriteIn WriteOut
}

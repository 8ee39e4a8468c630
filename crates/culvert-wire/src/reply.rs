//! Replies: a server answers one request.

use crate::{
    Data, Malformed, Message, Operation, Protocol,
    field::Field,
    input::Input,
    structures::{
        AttrOut, BmapOut, CopyFileRangeOut, EntryOut, GetxattrOut, InitOut, IoctlOut, LkOut,
        LseekOut, OpenOut, OutHeader, PollOut, StatfsOut, StatxOut, WriteOut,
    },
};

/// Declares the shapes of answers, and [`Expects`] beside them.
macro_rules! answers {
    ($($(#[$meta:meta])* $variant:ident { $($field:ident : $type:ty),* } )*) => {
        /// What a request is answered with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Answer<'a> {
            /// It failed, with this errno, 1 to 4095.
            Error(i32),
            $($(#[$meta])* $variant {
                $(
                    #[doc = concat!("The `", stringify!($field), "` part.")]
                    $field: $type,
                )*
            },)*
        }

        /// The shape of a successful answer: the bytes themselves do not say.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Expects {
            $($(#[$meta])* $variant,)*
        }

        impl<'a> Answer<'a> {
            fn take(expects: Expects, input: &mut Input<'a>) -> Result<Self, Malformed> {
                Ok(match expects {
                    $(Expects::$variant => Self::$variant { $($field: <$type>::take(input)?),* },)*
                })
            }

            fn put(&self, message: &mut Message<'a>, protocol: &Protocol) {
                match self {
                    Self::Error(_) => {}
                    $(Self::$variant { $($field),* } => {
                        $($field.put(message, protocol);)*
                    })*
                }
            }

            /// An answer of each shape, made of `random`.
            #[cfg(test)]
            pub(crate) fn samples(
                random: &mut crate::tests::Random,
                protocol: &Protocol,
            ) -> std::vec::Vec<(Expects, Self)> {
                std::vec![$((Expects::$variant, Self::$variant { $($field: crate::tests::Sample::sample(random, protocol)),* })),*]
            }
        }
    };
}

answers! {
    /// Done.
    Done {}
    /// A node that was looked up or made.
    Entry { entry: EntryOut }
    /// Attributes.
    Attributes { attributes: AttrOut }
    /// Attributes as statx(2) has them.
    Statx { statx: StatxOut }
    /// An open file or directory.
    Opened { open: OpenOut }
    /// A node that was made and opened.
    Created { entry: EntryOut, open: OpenOut }
    /// Bytes: of a file, a listing, a link, an extended attribute.
    Data { data: Data<'a> }
    /// How many bytes were written or copied.
    Written { written: WriteOut }
    /// The same in 64 bits.
    Copied { copied: CopyFileRangeOut }
    /// statfs(2).
    Statfs { statfs: StatfsOut }
    /// How large an extended attribute, or the list of them, is.
    XattrSize { size: GetxattrOut }
    /// A lock in the way, or `F_UNLCK`.
    Lock { lock: LkOut }
    /// The server's part of the negotiation.
    Init { init: InitOut }
    /// A block.
    Block { block: BmapOut }
    /// An offset.
    Offset { offset: LseekOut }
    /// ioctl(2)'s result and data.
    Ioctl { ioctl: IoctlOut, data: Data<'a> }
    /// What is ready.
    Ready { ready: PollOut }
}

impl<'a> Answer<'a> {
    /// The successful answer that `bytes`, behind the header, are, exactly.
    ///
    /// # Errors
    /// [`Malformed`]: the bytes are none of this shape.
    pub fn decode(
        bytes: &'a [u8],
        expects: Expects,
        protocol: &Protocol,
    ) -> Result<Self, Malformed> {
        let mut input = Input {
            rest: bytes,
            protocol: *protocol,
        };
        let answer = Self::take(expects, &mut input)?;
        input.finish()?;
        Ok(answer)
    }
}

impl Operation<'_> {
    /// The shape of the answer to this request; none when nothing is answered.
    pub const fn expects(&self) -> Option<Expects> {
        Some(match self {
            Self::Lookup { .. }
            | Self::Symlink { .. }
            | Self::Mknod { .. }
            | Self::Mkdir { .. }
            | Self::Link { .. } => Expects::Entry,
            Self::Getattr { .. } | Self::Setattr { .. } => Expects::Attributes,
            Self::Statx { .. } => Expects::Statx,
            Self::Open { .. } | Self::Opendir { .. } => Expects::Opened,
            Self::Create { .. } | Self::Tmpfile { .. } => Expects::Created,
            Self::Readlink {} | Self::Read { .. } => Expects::Data,
            Self::Readdir { .. } | Self::Readdirplus { .. } => Expects::Data,
            Self::Getxattr {
                getxattr: sizes, ..
            }
            | Self::Listxattr { listxattr: sizes } => match sizes.size {
                0 => Expects::XattrSize,
                _ => Expects::Data,
            },
            Self::Write { .. } | Self::CopyFileRange { .. } => Expects::Written,
            Self::CopyFileRange64 { .. } => Expects::Copied,
            Self::Statfs {} => Expects::Statfs,
            Self::Getlk { .. } => Expects::Lock,
            Self::Init { .. } => Expects::Init,
            Self::Bmap { .. } => Expects::Block,
            Self::Lseek { .. } => Expects::Offset,
            Self::Ioctl { .. } => Expects::Ioctl,
            Self::Poll { .. } => Expects::Ready,
            _ if !self.is_answered() => return None,
            _ => Expects::Done,
        })
    }
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// The request's `unique`, not 0.
    pub unique: u64,
    /// The answer.
    pub answer: Answer<'a>,
}

impl<'a> Reply<'a> {
    /// Whether `bytes`, from a server, are a notification and not a reply.
    pub fn is_notification(bytes: &[u8]) -> bool {
        Self::unique_of(bytes) == Some(0)
    }

    /// The request that `bytes`, from a server, answer: so that the client can say what it expects.
    pub fn unique_of(bytes: &[u8]) -> Option<u64> {
        let unique = bytes.get(8..16)?.first_chunk()?;
        Some(u64::from_ne_bytes(*unique))
    }

    /// The reply that `bytes` are, exactly.
    ///
    /// # Errors
    /// [`Malformed`]: the bytes are none of this shape.
    pub fn decode(
        bytes: &'a [u8],
        expects: Expects,
        protocol: &Protocol,
    ) -> Result<Self, Malformed> {
        let protocol = *protocol;
        let mut input = Input {
            rest: bytes,
            protocol,
        };
        let header: OutHeader = input.plain()?;
        if header.len as usize != bytes.len() || header.unique == 0 {
            return Err(Malformed::Length);
        }
        let answer = match header.error {
            0 => Answer::take(expects, &mut input)?,
            error @ -4095..=-1 => Answer::Error(-error),
            _ => return Err(Malformed::Error),
        };
        input.finish()?;
        Ok(Self {
            unique: header.unique,
            answer,
        })
    }

    /// The reply as it is sent.
    ///
    /// # Errors
    /// [`Malformed::TooLarge`]: more than 4 GiB; [`Malformed::Error`]: an errno outside 1 to 4095.
    pub fn encode(&self, protocol: &Protocol) -> Result<Message<'a>, Malformed> {
        let error = match self.answer {
            Answer::Error(errno @ 1..=4095) => -errno,
            Answer::Error(_) => return Err(Malformed::Error),
            _ => 0,
        };
        let mut message = Message::new();
        message.plain(&OutHeader::default(), protocol);
        self.answer.put(&mut message, protocol);
        message.finish(&OutHeader {
            len: 0,
            error,
            unique: self.unique,
        })
    }
}

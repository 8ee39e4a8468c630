//! Which version both sides speak.

use crate::InitFlags;

/// `FUSE_KERNEL_VERSION`.
pub const MAJOR: u32 = 7;
/// The oldest minor version spoken: Linux 5.4. What is older lacks what a correct mount needs, and
/// no supported kernel is.
pub const OLDEST_MINOR: u32 = 31;
/// The oldest minor version of a server that this crate speaks to as its client: as Linux does, but
/// for 7.7 and before, whose servers are from before 2007.
pub const OLDEST_SERVER_MINOR: u32 = 8;
/// The newest minor version spoken: Linux 6.18.
pub const NEWEST_MINOR: u32 = 45;

/// What INIT negotiated: decides the sizes of some structures and the presence of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// The smaller of both sides' minor versions, [`OLDEST_MINOR`] (as a client
    /// [`OLDEST_SERVER_MINOR`]) to [`NEWEST_MINOR`].
    pub minor: u32,
    /// The flags that both sides know and the server wants.
    pub flags: InitFlags,
}

impl Protocol {
    /// What is spoken before INIT was answered.
    pub const UNNEGOTIATED: Self = Self {
        minor: NEWEST_MINOR,
        flags: InitFlags::NONE,
    };

    /// The protocol between this crate and a peer of version `major`.`minor`; none when they have
    /// no version in common. (A peer with a larger major version is answered with ours alone, and
    /// asks again.)
    pub const fn negotiate(major: u32, minor: u32, flags: InitFlags) -> Option<Self> {
        Self::from(OLDEST_MINOR, major, minor, flags)
    }

    /// The protocol between this crate, as the client, and a server that answers INIT with
    /// `major`.`minor` and `flags`; none when they have no version in common.
    pub const fn with_server(major: u32, minor: u32, flags: InitFlags) -> Option<Self> {
        Self::from(OLDEST_SERVER_MINOR, major, minor, flags)
    }

    const fn from(oldest: u32, major: u32, minor: u32, flags: InitFlags) -> Option<Self> {
        if major != MAJOR || minor < oldest {
            return None;
        }
        let minor = if minor < NEWEST_MINOR {
            minor
        } else {
            NEWEST_MINOR
        };
        Some(Self { minor, flags })
    }

    /// Whether requests say how long their extensions are (`fuse_in_header.total_extlen`, 7.38).
    pub(crate) const fn tells_extensions(&self) -> bool {
        self.minor >= 38
    }

    /// Whether requests that make a file may end in a security context without a length in the
    /// header (7.36 and 7.37).
    pub(crate) const fn bare_security_context(&self) -> bool {
        self.minor < 38 && self.flags.contains(InitFlags::SECURITY_CTX)
    }
}

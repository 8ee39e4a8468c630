//! What a layer touches.

/// What a layer changes, refuses or must hear of ([`Layer::touches`](crate::Layer::touches)).
///
/// What a layer leaves alone is done as if it were not there: by the inner driver's own calls of
/// several steps, or by the kernel without a call of anybody. So a layer says everything that it
/// touches for anybody, at any time of the mount's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touches {
    /// Which names there are and what they lead to, and operations on names: lookups, listings,
    /// links, `create`, `mkdir`, `mknod`, `symlink`, `link`, `unlink`, `rmdir`, `rename`,
    /// `readlink`.
    pub names: bool,
    /// Attributes and extended attributes, their changes, and who may do what: also `open`, `sync`
    /// and the close of a file, and a change of its size.
    pub attributes: bool,
    /// The bytes of files: reads, writes, mappings, holes, space, copies.
    pub data: bool,
}

impl Touches {
    /// Everything: what every layer may say.
    pub const ALL: Self = Self {
        names: true,
        attributes: true,
        data: true,
    };

    /// Nothing: the mount is what it would be without the layer.
    pub const NOTHING: Self = Self {
        names: false,
        attributes: false,
        data: false,
    };

    /// Names and attributes, not the bytes: a file that the inner driver has as one of the kernel's
    /// stays that.
    pub const NO_DATA: Self = Self {
        data: false,
        ..Self::ALL
    };

    /// Attributes alone.
    pub const ATTRIBUTES: Self = Self {
        names: false,
        ..Self::NO_DATA
    };

    /// Whether it is nothing at all.
    #[inline]
    pub const fn is_nothing(self) -> bool {
        !self.names && !self.attributes && !self.data
    }

    /// Whether what a path leads to is as the inner driver says it.
    #[inline]
    pub const fn leaves_paths(self) -> bool {
        !self.names && !self.attributes
    }
}

//! The steps of a client on its way through a slot, at each of which a test stops or kills it.

/// A step that was just made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Step {
    /// The slot has an owner, and the word of the request before.
    Owned = 1,
    /// It has a word of its own.
    Claimed,
    /// The request's body is in the payload.
    Filled,
    /// The word says so, and no mark.
    Posted,
    /// A mark says so, and no bell.
    Marked,
    /// The bell has rung.
    Rung,
    /// The word was seen without a reply, and the slot says that somebody sleeps.
    Sleeps,
    /// The reply was seen.
    Seen,
    /// The word is free, and the slot has an owner still.
    Emptied,
    /// The slot is nobody's, and nobody was told.
    Freed,
    /// An entry for an open file has an owner, and says nothing yet.
    Noting,
    /// It is whole.
    Noted,
    /// It says nothing any more, and has an owner still.
    Clearing,
    /// RELEASE is posted, and the file is no longer noted.
    Closed,
    /// The slot is an orphan's, or its owner does not wait, and it was not looked whether the reply
    /// is there.
    Left,
}

#[cfg(not(test))]
pub(crate) const fn at(_: Step) {}
#[cfg(test)]
pub(crate) use crate::tests::deaths::at;

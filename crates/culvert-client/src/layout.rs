//! Where what the clients of a server share lies in the words that they share.

/// A kind of record: where they lie, how many, and words of each.
#[derive(Clone, Copy)]
pub struct Records {
    pub start: usize,
    pub count: usize,
    pub size: usize,
}

impl Records {
    pub const fn end(self) -> usize {
        self.start + self.count * self.size
    }
}

/// Bytes of a name that is remembered together.
pub const LONGEST_NAME: usize = 64;
/// Words of a record of a name.
pub const NAME: usize = 8 + LONGEST_NAME / 8;
/// Words of a record of attributes.
pub const ATTRIBUTES: usize = 20;
/// Bytes of a link's target that is remembered together.
pub const LONGEST_TARGET: usize = 256;
/// Words of a record of a link.
pub const LINK: usize = 7 + LONGEST_TARGET / 8;

/// Places for processes. Who finds none has lookups of his own.
pub const PLACES: usize = 45;
/// How many accounts there may be at once.
pub const ACCOUNTS: usize = 16384;
/// The word, the node, a sum that says that these belong together, and lookups.
pub const ACCOUNT_WORDS: usize = 4;
/// How many words a client wants: 2 MiB hold them.
pub const WORDS: usize = MOVED.end();
const _: () = assert!(WORDS <= 1 << 18);
pub const NODES: usize = 1024;
pub const NAMES: usize = 4096;
pub const CONTENTS: usize = 2048;
/// Files that are open in several processes at once; what is more is not closed before the end.
pub const OPENS: usize = 800;
/// State, handle, node, place, account, and who has made it one of several.
pub const OPEN_WORDS: usize = 6;

pub const COUNTERS_AT: usize = 16;
pub const OPENS_AT: usize = COUNTERS_AT + NODES + NAMES + CONTENTS;
pub const PLACES_AT: usize = OPENS_AT + OPENS * OPEN_WORDS;
/// How many changes the process of each place has under way, and those without one together.
pub const CHANGING_AT: usize = LINKS.end();
/// Words of a record of a node that was moved.
pub const MOVE: usize = 5 + LONGEST_NAME / 8;
pub const MOVED: Records = Records {
    start: CHANGING_AT + PLACES + 1,
    count: 1024,
    size: MOVE,
};
/// Where accounts begin.
pub const ACCOUNTS_AT: usize = PLACES_AT + PLACES;
pub const NAMED: Records = Records {
    start: ACCOUNTS_AT + ACCOUNTS * ACCOUNT_WORDS,
    count: 4096,
    size: NAME,
};
pub const KNOWN: Records = Records {
    start: NAMED.end(),
    count: 4096,
    size: ATTRIBUTES,
};
pub const LINKS: Records = Records {
    start: KNOWN.end(),
    count: 256,
    size: LINK,
};

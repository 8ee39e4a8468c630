//! How much is read at once where less is asked for, and before it is (mm/readahead.c).

use alloc::vec::Vec;
use culvert_slots::Begun;

/// What was read of an open file last, in pages.
#[derive(Default)]
pub struct Ahead {
    /// Where the next window begins.
    end: u64,
    size: u64,
    /// The page in which the last read has ended.
    last: u64,
    /// Where the last large read has ended.
    pub through: u64,
    /// What the server was asked for already, of what lies behind that: one window, and
    /// another one behind it while the first is taken in parts.
    pub sent: Vec<Sent>,
}

/// A READ whose bytes nobody has asked for yet.
#[derive(Clone, Copy)]
pub struct Sent {
    pub begun: Begun,
    pub start: u64,
    pub length: usize,
    /// What they are believed by ([`crate::pages`]).
    pub belief: u64,
}

impl Sent {
    /// Where they end.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.length as u64)
    }

    /// Whether the byte at `offset` is among them.
    pub const fn has(&self, offset: u64) -> bool {
        self.start <= offset && offset < self.end()
    }
}

impl Ahead {
    /// How many pages are read from page `index` on, of which `needed` are asked for: more where
    /// reads follow each other, but at most `most` (`page_cache_sync_ra`).
    pub fn window(&mut self, index: u64, needed: u64, most: u64) -> u64 {
        let size = match () {
            () if self.size > 0 && index == self.end => grown(self.size, most),
            () if index == 0 || index.wrapping_sub(self.last) <= 1 => first(needed, most),
            () => needed,
        };
        let size = size.max(needed);
        (self.end, self.size) = (index.saturating_add(size), size);
        size
    }

    /// A read has ended in page `index`.
    pub fn read_to(&mut self, index: u64) {
        self.last = index;
    }
}

/// `get_init_ra_size`.
fn first(needed: u64, most: u64) -> u64 {
    let size = needed.next_power_of_two();
    match size {
        _ if size <= most / 32 => size * 4,
        _ if size <= most / 4 => size * 2,
        _ => most,
    }
}

/// `get_next_ra_size`.
fn grown(size: u64, most: u64) -> u64 {
    match size {
        _ if size < most / 16 => size * 4,
        _ if size <= most / 2 => size * 2,
        _ => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_grows_while_reads_follow_each_other() {
        let mut ahead = Ahead::default();
        let mut windows = [0; 5];
        let mut at = 0;
        for window in &mut windows {
            *window = ahead.window(at, 1, 32);
            at += *window;
            ahead.read_to(at - 1);
        }
        assert_eq!(windows, [4, 8, 16, 32, 32]);
        // Anywhere else, what is asked for.
        assert_eq!(ahead.window(1000, 2, 32), 2);
        // A server that wants nothing read ahead.
        assert_eq!(Ahead::default().window(0, 1, 0), 1);
    }
}

//! Bytes of an open file that were read before they were asked for.

use alloc::vec::Vec;

/// The bytes, and how long they are what they were.
#[derive(Default)]
pub struct Ahead {
    start: u64,
    bytes: Vec<u8>,
    /// The file ended behind them.
    is_end: bool,
    /// How often the file had changed, and notifications had come.
    stamp: (u64, u64),
    until: u64,
    /// Where the last read has ended: one from there on goes on.
    next: u64,
    /// The server lets nothing be believed.
    pub refused: bool,
}

impl Ahead {
    /// The `wanted` bytes from `offset` on, or all up to the end of the file; none: they are not
    /// here, or not believed any more. `stamp`: changes of the file now; the time and notifications.
    pub fn take(
        &mut self,
        offset: u64,
        wanted: usize,
        (stamp, (now, told)): (u64, (u64, u64)),
    ) -> Option<Vec<u8>> {
        if self.bytes.is_empty() {
            return None;
        }
        if self.stamp != (stamp, told) || now >= self.until {
            self.bytes = Vec::new();
            return None;
        }
        let start = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let rest = self.bytes.get(start..)?;
        if rest.len() < wanted && !self.is_end {
            return None;
        }
        let taken = rest.get(..wanted.min(rest.len()))?.to_vec();
        self.next = offset.saturating_add(taken.len() as u64);
        Some(taken)
    }

    /// Whether a read at `offset` goes on where the last has ended, or begins at the start.
    pub fn follows(&self, offset: u64) -> bool {
        offset == self.next
    }

    /// The last read has ended at `end`, and nothing is kept of it.
    pub fn ended(&mut self, end: u64) {
        self.next = end;
    }

    /// `bytes` from `start` on were read, of which what lies before `end` was asked for.
    pub fn keep(
        &mut self,
        start: u64,
        bytes: Vec<u8>,
        end: u64,
        is_end: bool,
        (stamp, told, until): (u64, u64, u64),
    ) {
        *self = Self {
            start,
            bytes,
            is_end,
            stamp: (stamp, told),
            until,
            next: end,
            refused: false,
        };
    }
}

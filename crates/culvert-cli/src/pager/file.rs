//! A file whose pages are filled on demand: the driver's, its shadow, and how far ahead it is read.

use culvert_preload::{
    node_locks::NodeLock,
    paging::pager::{fill, length_of, userfault::PAGE},
    process,
    resolver::MountId,
    run::ShadowName,
    shadow::{Descriptor, open_shadow},
};
use std::sync::Mutex;

/// What is filled at the first fault, and at each that follows no other, in bytes: 64 KiB take 43 us, 4 KiB 10 us, so that what is never looked at costs little, and a
/// program that jumps about in all of a file has it soon.
const LEAST: u64 = 64 << 10;
/// What is filled at most: 2 MiB take 1.4 ms. Above 64 KiB the cost of a byte does not fall any more.
const MOST: u64 = 2 << 20;

/// An open file and its shadow.
pub struct File {
    /// Which one.
    pub name: ShadowName,
    file: Box<dyn culvert::File>,
    shadow: Descriptor,
    ahead: Mutex<Ahead>,
}

/// Where the reader will be next if it goes on as it does, and how much is filled then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ahead {
    next: u64,
    window: u64,
}

impl Ahead {
    /// What is filled for a fault at byte `at`.
    fn window(&mut self, at: u64) -> (u64, u64) {
        let sequential = at == self.next;
        self.window = match sequential {
            true => (self.window * 2).clamp(LEAST, MOST),
            false => LEAST,
        };
        let from = if sequential { at } else { at & !(LEAST - 1) };
        self.next = from.saturating_add(self.window);
        (from, self.next)
    }
}

impl File {
    /// Opens both.
    pub fn open(name: ShadowName) -> culvert::Result<Self> {
        Ok(Self {
            name,
            file: fill::open(name)?,
            shadow: open_shadow(name, 2)?,
            ahead: Mutex::new(Ahead { next: 0, window: 0 }),
        })
    }

    /// Fills what is missing around byte `at`; the bytes that are there now. None: the process `slot`, which waits for them, has the file's lock.
    ///
    /// The driver's error, or EIO where the file has become shorter.
    pub fn fill(&self, at: u64, slot: u32) -> culvert::Result<Option<(u64, u64)>> {
        let Some(_lock) = self.lock(slot) else {
            return Ok(None);
        };
        let length = length_of(&self.shadow)?;
        // Past the end: the program gets its SIGBUS from the kernel.
        if at >= length {
            return Ok(Some((at, at + PAGE)));
        }
        let hole = fill::next_hole(self.shadow.0, at, at + 1)?;
        // Somebody else has filled it meanwhile.
        if hole.is_none() {
            return Ok(Some((at, at + PAGE)));
        }
        if at >= self.file.attributes()?.size {
            return Err(culvert::Error::because(
                culvert::Errno::EIO,
                "the file has become shorter",
            ));
        }
        let (from, to) = self
            .ahead
            .lock()
            .map_or((at, at + PAGE), |mut ahead| ahead.window(at));
        match fill::holes(&*self.file, self.shadow.0, (from, to)) {
            Ok(()) => Ok(Some((from, to))),
            // What was asked for may be readable though what lies around it is not.
            Err(_) if (from, to) != (at, at + PAGE) => {
                fill::holes(&*self.file, self.shadow.0, (at, at + PAGE))?;
                Ok(Some((at, at + PAGE)))
            }
            Err(error) => Err(error),
        }
    }

    /// The page at byte `at`, without the file's lock.
    pub fn page(&self, at: u64) -> culvert::Result<Vec<u8>> {
        let mut page = vec![0; PAGE as usize];
        fill::read_all(&*self.file, at, &mut page)?;
        Ok(page)
    }

    /// Fills all of it.
    pub fn fill_all(&self) -> culvert::Result<()> {
        let Some(_lock) = self.lock(0) else {
            return Ok(());
        };
        fill::complete(&*self.file, self.shadow.0)
    }

    fn lock(&self, slot: u32) -> Option<NodeLock<'static>> {
        let mount = MountId(self.name.mount);
        process::get()
            .node_locks
            .lock_unless(mount, self.name.node, slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_with_sequential_faults_and_shrinks_with_others() {
        let mut ahead = Ahead { next: 0, window: 0 };
        let mut at = 0;
        for want in [
            64 << 10,
            128 << 10,
            256 << 10,
            512 << 10,
            1 << 20,
            MOST,
            MOST,
        ] {
            let (from, to) = ahead.window(at);
            assert_eq!((from, to - from), (at, want));
            at = to;
        }
        assert_eq!(ahead.window((1 << 30) + PAGE), (1 << 30, (1 << 30) + LEAST));
        assert_eq!(ahead.window(5 * PAGE), (0, LEAST));
        assert_eq!(ahead.window(LEAST), (LEAST, LEAST + 2 * LEAST));
    }
}
